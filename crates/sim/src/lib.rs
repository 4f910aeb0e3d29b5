//! Deterministic, seeded simulation in virtual time. It simulates two stacks and the links between
//! them ([`SimulatedPair`]), or a counter's oscillator and the paths to time servers
//! ([`Oscillator`], [`SimulatedTimeServer`]) with a clock daemon and its readers ([`Timekeeping`],
//! [`scenario`]). The same seed gives the same trace.
//!
//! It may depend on the stack and the clock, and on no operating system interface. The exception is
//! [`corpus`], which reads the repository's files for the tests that call it. Tests call the stacks
//! as an application would, or pass exchanges to the clock, and then advance the time.
//!
//! | module | content |
//! |---|---|
//! | `pair`, `host`, `link`, `burst` | two stacks, and the cable with its faults between them |
//! | `invariants` | sequence numbers over time and between both ends |
//! | [`soak`] | the endurance test |
//! | [`hostile`] | a hostile network driven by input bytes |
//! | `messages`, `figures` | message boundaries in packets; errors of clock readings |
//! | `input`, `rng` | bytes of a fuzzer as decisions; random numbers |
//! | [`corpus`] | the fuzzer's files, for tests |
//! | `oscillator`, `time_server` | a counter's oscillator; paths to time servers |
//! | [`timekeeping`], [`scenario`] | a clock daemon and its readers; scenarios of both |
#![forbid(unsafe_code)]

pub mod corpus;
pub mod hostile;
pub mod soak;

mod burst;
mod figures;
mod host;
mod input;
mod invariants;
mod link;
mod messages;
mod oscillator;
mod pair;
mod rng;
pub mod scenario;
mod time_server;
pub mod timekeeping;

pub use burst::Burst;
pub use figures::{ClockErrorSummary, ClockErrors};
pub use host::SimulatedHost;
pub use input::Input;
pub use link::{LinkConfig, LinkStats, SimulatedLink};
pub use messages::{Messages, NewBytes};
pub use oscillator::{Oscillator, OscillatorWander};
pub use pair::{PairConfig, SimulatedPair};
pub use rng::Rng;
pub use scenario::Scenario;
pub use time_server::{Delay, Leaping, SimulatedTimeServer, Utc, truth};
pub use timekeeping::Timekeeping;
