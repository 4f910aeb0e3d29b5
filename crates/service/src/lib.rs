//! The privileged service: it diverts what accelerated programs have claimed, gives each program
//! its lane, and cleans up after those that die.
//!
//! One thread, one event loop ([`run()`]); nothing in it waits for a program or for the network.
//! The clock daemon has a thread of its own. May know: the operating system, `tickwire-link`,
//! `tickwire-host`, `tickwire-timekeeper`, and of the stack the address types and the table rows.
//! No unsafe code.
#![forbid(unsafe_code)]

mod acceptor;
mod bpf_error;
mod capture;
mod claim_recheck;
mod claims;
mod classifiers;
mod clock;
pub mod config;
mod connection;
mod connection_pinning;
mod endpoint;
mod events;
mod fair_scheduler;
mod farewell;
mod flow_gc;
mod groups;
mod lane_maker;
mod lanes;
mod listing;
mod nics;
mod numbers;
mod own_addresses;
mod path_subscriptions;
mod port_proof;
mod programs;
mod rate;
mod ready_lanes;
mod realtime;
mod reaper;
mod redirects;
mod registry;
mod remains;
mod remover;
mod requests;
mod reset;
mod rights;
mod ring_probe;
mod run;
mod service;
mod tags;
pub mod trial;
mod usage;
mod user_workers;

pub use bpf_error::BpfError;
pub use config::{Attach, Config, ConfigError};
pub use endpoint::EndpointError;
pub use run::{Error, Options, run};
