//! The lab: computers, cables and switches made of network namespaces, veth pairs and bridges.
//!
//! May know the operating system and the tools `ip`, `ethtool` and `tc`; knows Tickwire only as a
//! program to start (`tickwire service`, `tickwire run`, `tickwire stat --json`), and `relay`
//! likewise. Needs root. Nothing in a lab can reach the outside, and nothing of it stays: a [`Lab`]
//! removes its namespaces, devices, files and processes when it is dropped, on Ctrl-C and SIGTERM;
//! a guardian process does when the program is killed, and whatever is left all the same is swept
//! by the next run (the names carry the process number).
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let pair = tickwire_lab::Pair::new()?;
//! let answer = pair.a.run(&["ping", "-c1", &pair.b_v4()])?;
//! println!("{answer}");
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod bound;
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

pub use bound::bound;
pub use cable::{CableOptions, Switch};
pub use host::Host;
pub use lab::Lab;
pub use pair::Pair;
pub use process::{Ended, Process};
pub use processors::{Confined, Processors};
pub use registry::{remove_when_interrupted, sweep, wait_if_interrupted};
pub use relay::{Passed, Relay, Relayed, Way};
pub use service::{Service, ServiceOptions};
pub use shell::{is_root, run};
