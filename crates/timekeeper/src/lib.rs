//! The clock daemon: one thread that polls servers, keeps the clock, and publishes it. It needs no
//! privileges except write access to its files, unless it steers the system clock (CAP_SYS_TIME) or
//! sets up hardware timestamps (CAP_NET_ADMIN). It runs on Linux and on Windows; the table below
//! marks what only Linux has.
//!
//! | module | purpose |
//! |---|---|
//! | `config`, `server_config` | the configuration's table `[clock]`; a server's entry in it |
//! | `hardware` | the counter to use, its nominal period, and whether it has broken |
//! | `cores` | whether the processors' counters agree |
//! | `state` | the counter's period, kept across restarts |
//! | `source` | what the event loop needs of a source of time |
//! | `ntp_source` | one NTP server: sends requests when due, processes the replies |
//! | `resolver` | where a server is: when to look it up, and which of its addresses to poll |
//! | `lookup` | name resolution, and why a lookup fails |
//! | `tally` | statistics of the exchanges with a server, for reports |
//! | `cards` | Linux: cards that timestamp packets |
//! | `stamp_choice` | whose timestamps are used |
//! | `nts` | NTS (RFC 8915): key establishment, and authentication of replies |
//! | `system` | Linux: steers the system clock, feeds NTP's shared memory |
//! | `report`, `status_endpoints` | the status report, and the sockets that serve it |
//! | `event_log`, `log_rate_limit` | each change once; a rate limit on lines that a peer triggers |
//! | `leap_table` | the host's table of leap seconds |
//! | `random` | unpredictable random numbers |
//! | `record` | a file with all inputs of the clock, and its replay |
//! | `daemon` | the event loop |
//! | `serve` | Linux: the NTP server, a program of its own beside the daemon |
//! | `os` | what differs between operating systems |
//!
//! `unsafe` is allowed for calls of Windows (`os::windows`) only.
#![deny(unsafe_code)]

#[cfg_attr(windows, path = "cards_windows.rs")]
mod cards;
pub mod config;
mod cores;
mod daemon;
mod event_log;
pub mod hardware;
pub mod leap_table;
mod log_rate_limit;
mod lookup;
mod ntp_source;
mod nts;
mod os;
mod random;
pub mod record;
pub mod report;
mod resolver;
pub mod serve;
mod server_config;
mod source;
mod stamp_choice;
mod state;
mod status_endpoints;
#[cfg_attr(windows, path = "system_windows.rs")]
mod system;
mod tally;

pub use config::TimekeeperConfig;
pub use daemon::{Daemon, RunError, StartError, run};
pub use os::Stop;
#[cfg(windows)]
pub use os::StopEvent;
pub use report::{NtsReport, Report, SourceReport, SystemClockReport};
#[cfg(unix)]
pub use serve::TimeServer;
pub use status_endpoints::{ask, socket_of};
pub use system::SystemError;
#[cfg(windows)]
pub use tickwire_stamping::packet_observer;
