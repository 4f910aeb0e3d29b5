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
//! | | **What the service does.** Each has an `impl Service`, and calls methods of the others. |
//! | `fair_scheduler`, `requests` | the turns of programs; the dispatch of their requests |
//! | `listing` | answers `tickwire stat` and `tickwire capture` |
//! | `admission`, `lanes` | a program asks for a lane; it gets one |
//! | `claims` | what is diverted to a lane, and on what proof |
//! | `events` | the host's links, addresses, neighbours and routes change |
//! | `reaper`, `shutdown` | the end of a lane, and of the service |
//! | `clients` | programs connect, get answers and pushes, and disconnect |
//! | | **What the service knows.** |
//! | `service` | its state, made of what follows |
//! | `dying_lane` | a lane whose program is gone |
//! | `lane`, `remains`, `path_subscriptions` | a lane; what is left of one; the paths it watches |
//! | `ready_lanes` | lanes that are made in advance, and programs that wait for one |
//! | `claim`, `claim_recheck`, `port_proof` | a claim; looks at its socket; what that proves |
//! | `flow_gc` | looks for flows that are over |
//! | `capture`, `realtime`, `farewell` | captures; real-time priorities; the time to leave lanes |
//! | `connection`, `answer`, `rate` | a program's connection; an answer; the rate of requests |
//! | `usage`, `user_workers` | what each user uses; threads for work on its descriptors |
//! | | **What that rests on.** |
//! | `lane_maker`, `remover`, `numbers` | threads that make and remove lanes; the lanes' numbers |
//! | `nics`, `own_addresses`, `redirects`, `tags` | the accelerated interfaces |
//! | `programs`, `classifiers`, `ring_probe`, `bpf_error` | the BPF programs and their maps |
//! | `registry`, `groups` | the rules for ports, flows and groups, without system calls |
//! | `reset` | frames that end TCP connections |
//! | `acceptor`, `endpoint`, `rights` | the service's socket; its privileges |
//! | `clock` | the clock daemon's thread |
//! | `config` | the settings |
//!
//! May know: the operating system, `tickwire-lane`, `tickwire-link`, `tickwire-host`,
//! `tickwire-timekeeper`, and of the stack the address types and the table rows. No unsafe code.
#![forbid(unsafe_code)]

mod acceptor;
mod admission;
mod answer;
mod bpf_error;
mod capture;
mod claim;
mod claim_recheck;
mod claims;
mod classifiers;
mod clients;
mod clock;
pub mod config;
mod connection;
mod dying_lane;
mod endpoint;
mod events;
mod fair_scheduler;
mod farewell;
mod flow_gc;
mod groups;
mod lane;
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
mod shutdown;
mod tags;
pub mod trial;
mod usage;
mod user_workers;

pub use bpf_error::BpfError;
pub use config::{Attach, Config, ConfigError};
pub use endpoint::EndpointError;
pub use run::{Error, Options, run};
