//! Deterministic simulation: two stacks and the links between them, in virtual time, seeded. The same seed gives the same trace.
//!
//! It may depend on the stack, and on nothing of an operating system. Tests drive a [`Pair`]: call the stacks as a program
//! would, then let time pass.
#![forbid(unsafe_code)]

pub mod hostile;

mod host;
mod link;
mod pair;
mod rng;

pub use host::Host;
pub use link::{LinkConfig, LinkStats};
pub use pair::{Pair, PairConfig};
pub use rng::Rng;
