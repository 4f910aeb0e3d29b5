//! The privileged service: it diverts what accelerated programs have claimed, gives each program its lane, and cleans up
//! after those that die.
//!
//! One thread, one event loop ([`run`]); nothing in it waits for a program or for the network. May know: the operating
//! system, `tickwire-link`, `tickwire-host`, and of the stack the address types and the table rows. No unsafe code.
#![forbid(unsafe_code)]

pub mod config;
mod endpoint;
mod namespace;
mod proof;
mod rate;
mod registry;
mod reset;
mod watch;
