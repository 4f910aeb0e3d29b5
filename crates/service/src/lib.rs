//! The privileged service: it diverts what accelerated programs have claimed, gives each program
//! its lane, and cleans up after those that die.
//!
//! One thread, one event loop ([`run()`]); nothing in it waits for a program or for the network.
//! The clock daemon has a thread of its own.
//!
//! A module imports only modules that stand beside it or below it here:
//!
//! | module | purpose |
//! |---|---|
//! | `trial` | what this kernel can do, for `tickwire doctor` |
//! | `run` | starts the service; its event loop |
//! | `service` | the parts together: requests, events of the host, and the end of everything |
//! | | **The parts.** Each owns its state, and gets of other parts what a method needs. |
//! | `claims` | what is diverted to a lane, and on what proof |
//! | `lanes` | lanes: made in advance, given to programs, removed |
//! | `clients` | programs connect, send requests, and get answers and pushes |
//! | `paths` | the host's interfaces and addresses; the paths that lanes watch |
//! | | **What they rest on.** |
//! | `ledger` | the BPF maps and the users' accounts, in which all parts enter what they give out |
//! | `programs` | the BPF programs and their maps |
//! | `usage` | what each user uses, and the limits |
//! | `answer` | an answer to a request |
//! | `farewell` | the time that programs have to leave their lanes |
//! | `clock` | the clock daemon's thread |
//! | `rights` | the service's privileges |
//! | `config` | the settings |
//!
//! May know: the operating system, `tickwire-lane`, `tickwire-lane-linux`, `tickwire-host`,
//! `tickwire-settings`, `tickwire-timekeeper`, and of the stack addresses, paths, table rows,
//! limits, memory, and the state of a connection that leaves. No unsafe code.
#![forbid(unsafe_code)]

mod answer;
mod claims;
mod clients;
mod clock;
pub mod config;
mod farewell;
mod lanes;
mod ledger;
mod paths;
mod programs;
mod rights;
mod run;
mod service;
pub mod trial;
mod usage;

pub use clients::EndpointError;
pub use config::{Attach, ConfigError, ServiceConfig};
pub use programs::BpfError;
pub use run::{RunOptions, ServiceError, run};
