//! The clock daemon: one thread that asks servers, keeps the clock, and publishes it. It needs no rights but to write its page.
//!
//! | module | purpose |
//! |---|---|
//! | `config` | what the user wants |
//! | `hardware` | the counter to use, its nominal period, and whether it has broken |
//! | `source` | one server: its name, its address, its socket |
//! | `daemon` | the loop |
#![forbid(unsafe_code)]

pub mod config;
mod daemon;
pub mod hardware;
mod source;

pub use config::Config;
pub use daemon::{Daemon, StartError};
