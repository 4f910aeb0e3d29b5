//! What the program `tickwire` shows on every operating system. It knows none: what is shown was
//! read by the program of that system.
//!
//! | module | purpose |
//! |---|---|
//! | [`stat`] | a reading of all lanes: as JSON, and as a page of tables |
//! | [`finding`] | a check of `tickwire doctor`, and its verdict |
//! | [`sentence`] | an error as one sentence |
//! | [`usage`] | errors of the command line that the parser cannot find |
//! | [`log`] | a service's log |
//! | [`output`] | standard output, which may be a full disk or a closed pipe |
//! | [`layout`] | text that fits a terminal's width |
//! | [`sanitize_terminal`] | untrusted text for display |
//!
//! May depend on the lane's messages, the stack's table of sockets and guard's counters. No unsafe
//! code.
#![forbid(unsafe_code)]

pub mod finding;
pub mod layout;
pub mod log;
pub mod output;
pub mod sanitize_terminal;
pub mod sentence;
pub mod stat;
pub mod usage;
