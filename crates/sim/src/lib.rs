//! Deterministic simulation in virtual time, seeded: two stacks and the links between them
//! ([`Pair`]), or a counter's oscillator and the paths to time servers ([`Oscillator`],
//! [`TimeServer`]), with the clock that is kept of them and its readers ([`Timekeeping`],
//! [`scenario`]). The same seed gives the same trace.
//!
//! It may depend on the stack and the clock, and on nothing of an operating system (but [`corpus`]
//! reads the repository's own files, as the tests do that call it). Tests call the stacks as a
//! program would, or hand exchanges to the clock, then let time pass.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod hostile;
pub mod soak;

mod burst;
mod figures;
mod host;
mod input;
mod laws;
mod link;
mod messages;
mod oscillator;
mod pair;
mod rng;
pub mod scenario;
mod time_server;
pub mod timekeeping;

pub use burst::Burst;
pub use figures::{Figures, Summary};
pub use host::Host;
pub use input::Input;
pub use link::{Link, LinkConfig, LinkStats};
pub use messages::{Messages, News};
pub use oscillator::{Oscillator, Wander};
pub use pair::{Pair, PairConfig};
pub use rng::Rng;
pub use scenario::Scenario;
pub use time_server::{Delay, Leaping, TimeServer, Utc, truth};
pub use timekeeping::Timekeeping;
