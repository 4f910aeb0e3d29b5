//! The clock daemon: one thread that asks servers, keeps the clock, and publishes it. It needs no
//! rights but to write its page, unless it is to steer the system clock.
//!
//! | module | purpose |
//! |---|---|
//! | `config` | what the user wants |
//! | `hardware` | the counter to use, its nominal period, and whether it has broken |
//! | `cores` | whether the processors' counters agree |
//! | `state` | what is known of the counter, kept over a restart |
//! | `source` | one server, and the association with it: it is asked in time, and what it answers is taken in |
//! | `whereabouts`, `addresses` | where it is: its name looked up, keys agreed on with it, and which of its addresses to ask |
//! | `tally` | what has come of the exchanges with a server, for reports |
//! | `cards`, `stamped` | network cards that stamp packets, and whose stamps are used |
//! | `nts` | agreeing on keys with a server, so that its answers can be authenticated |
//! | `system` | hands the time on: steers the system clock, feeds NTP's shared memory |
//! | `report`, `doors` | what the daemon tells of itself, and where |
//! | `news`, `ration` | what it logs: each change once, and not more than a stranger may make it say |
//! | `leap_table` | the host's table of leap seconds |
//! | `record` | all that the clock was told, in a file, and its replay |
//! | `daemon` | the loop |
//! | `serve` | the server that gives the clock's time to others: a program of its own, beside the daemon |
#![forbid(unsafe_code)]

mod addresses;
mod cards;
pub mod config;
mod cores;
mod daemon;
mod doors;
pub mod hardware;
pub mod leap_table;
mod news;
mod nts;
mod ration;
pub mod record;
pub mod report;
pub mod serve;
mod source;
mod stamped;
mod state;
mod system;
mod tally;
mod whereabouts;

pub use config::Config;
pub use daemon::{Daemon, StartError};
pub use doors::{ask, socket_of};
pub use report::{NtsReport, Report, SourceReport};
pub use serve::TimeServer;
pub use system::{Error as SystemError, Report as SystemClockReport};
