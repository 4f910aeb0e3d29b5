//! The lab: hosts, cables and switches made of network namespaces, veth pairs and bridges.
//!
//! It may use the operating system and the tools `ip`, `ethtool` and `tc`. Tickwire is only a
//! program to start (`tickwire service`, `tickwire run`, `tickwire stat --json`), and so is
//! `relay`. It needs root. A lab cannot reach the outside, and leaves nothing behind. A [`Lab`]
//! removes its namespaces, devices, files and processes when it is dropped, on Ctrl-C and on
//! SIGTERM. If the program is killed, a guardian process does that. The next run sweeps whatever is
//! left (the names contain the process number).
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let pair = tickwire_lab::LabPair::new()?;
//! let answer = pair.a.run(&["ping", "-c1", &pair.b_v4()])?;
//! println!("{answer}");
//! # Ok(()) }
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `lab`, `pair` | a lab as a value; the lab of most tests: two hosts and one cable |
//! | `host` | a computer: a network namespace |
//! | `cable`, `relay` | cables and switches; a cable with faults |
//! | `process`, `processors` | programs, and the processors that they are confined to |
//! | `service` | a Tickwire service on a host |
//! | [`stat`] | the output of `tickwire stat --json` |
//! | [`tools`], `shell` | where programs are; running a tool to its end |
//! | `wait_until_listening` | waits until a server is listening |
//! | `registry`, `guardian` | what must be removed; the process that does so after `kill -9` |
#![forbid(unsafe_code)]

mod cable;
mod guardian;
mod host;
mod lab;
mod pair;
mod process;
mod processors;
mod registry;
mod relay;
mod service;
mod shell;
pub mod stat;
pub mod tools;
mod wait_until_listening;

pub use cable::{CableOptions, Switch};
pub use host::LabHost;
pub use lab::Lab;
pub use pair::LabPair;
pub use process::{Ended, Process};
pub use processors::{Confined, Processors};
pub use registry::{remove_when_interrupted, sweep, wait_if_interrupted};
pub use relay::{Passed, Relay, Relayed, Way};
pub use service::{Service, ServiceOptions};
pub use shell::{is_root, run};
pub use wait_until_listening::wait_until_listening;
