//! The testbed: producers send a user-defined data pattern to one consumer, on the kernel and on
//! Tickwire, and every message is accounted for.
//!
//! Follows Shafer et al. (2015), sections 4 and 5, and Lisovy et al. (2013).
//!
//! | module | purpose |
//! |---|---|
//! | `pattern` | the traffic: streams with size, period, deadline, ...; from a file, or built in |
//! | `schedule` | transmission slots: no two messages meet in the switch (no I/O, no clock) |
//! | `outcome` | results: figures of streams and runs, as in JSON |
//! | `report` | presentation of results: JSON, a terminal table, one page of HTML |
//! | `controller` | starts a node on each host, and collects the results |
//! | `time` | accuracy of the clock, against a reference |
//! | `live` | the progress of a run, published for `tickwire watch` |
//! | `error` | why nothing could be measured |
//! | `units` | conversion of times |
//!
//! The programs that send and receive, and their protocol with the controller, are the crate
//! `tickwire-node`, here `node`.
//!
//! Allowed dependencies: nodes, `tickclock`, the lab, the simulation, reports, how untrusted text
//! is shown (`tickwire-show`), and the operating system, but nothing of lanes: the same program
//! measures the kernel and Tickwire. `time` also uses the reference clock's server and network
//! cards' clocks. No unsafe code.
#![forbid(unsafe_code)]

pub mod controller;
mod error;
pub mod live;
pub mod outcome;
pub mod pattern;
pub mod report;
pub mod schedule;
pub mod time;
mod units;

pub use error::TestbedError;
pub use tickwire_node as node;
