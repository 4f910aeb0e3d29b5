//! The NTP server for the time of this host's clock page. One thread, which sleeps until a packet
//! is received. Only on Linux; its configuration is read everywhere.
//!
//! | module | purpose |
//! |---|---|
//! | `server` | the server |
//! | `config` | the `[clock.serve]` table of the configuration |
//! | `time` | the page's clock, and whether it is valid |
//! | `server_socket` | one socket: answers requests, and keeps the transmit times of replies |
//! | `tally` | statistics of the requests |

mod config;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod server_socket;
#[cfg(unix)]
mod tally;
#[cfg(unix)]
mod time;

pub use config::{Serve, listen};
#[cfg(unix)]
pub use server::{ServeError, TimeServer};
#[cfg(unix)]
pub use tally::Tally;
pub use tickwire_ntp::server::Network;
