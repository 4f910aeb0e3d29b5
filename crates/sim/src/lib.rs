//! Deterministic simulation in virtual time, seeded: two stacks and the links between them ([`Pair`]), or a counter's oscillator and the path to
//! a time server ([`Oscillator`], [`TimeServer`]). The same seed gives the same trace.
//!
//! It may depend on the stack and the clock, and on nothing of an operating system. Tests call the stacks as a program would, or hand exchanges to the
//! clock, then let time pass.
#![forbid(unsafe_code)]

pub mod hostile;

mod host;
mod link;
mod oscillator;
mod pair;
mod rng;
mod time_server;

pub use host::Host;
pub use link::{LinkConfig, LinkStats};
pub use oscillator::{Oscillator, Wander};
pub use pair::{Pair, PairConfig};
pub use rng::Rng;
pub use time_server::{Delay, TimeServer, truth};
