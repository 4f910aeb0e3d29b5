//! Latency profiles of transmission (Lisovy, Sojka, Hanzalek 2013). The study measures how long it
//! takes to read a network card's clock, and how long a message takes from the call to the driver,
//! the wire and the peer. It also measures by how much a message misses its instant. All of this is
//! measured with the machine idle and under the paper's loads.
//!
//! | module | purpose |
//! |---|---|
//! | `figures` | statistics of many times: percentiles, jitter, and the latency profile |
//! | `quantity` | the measured quantities and their two moments |
//! | `pace` | waits for an instant, by a spin on the clock or a sleep |
//! | `sender` | sends messages at instants, with the timestamps of driver and card |
//! | `receiver` | receives them, with the kernel's timestamps |
//! | `load`, `disk`, `going` | the loads, and when they end |
//! | `readout` | reads a card's clock |
//! | `bench` | a lab of two hosts: the kernel's path and Tickwire's, by the same method |
//! | `card` | a network card: the kernel's path, with the card's own timestamps |
//! | `options` | what to measure, and its validation |
//! | `study`, `error` | runs the whole study; why it, or a measurement, failed |
//! | `table`, `html` | the study for a terminal and for a browser |
//!
//! This crate may depend on the lab, packet timestamps and cards' clocks (`tickwire-stamping`),
//! tickclock, report, and the operating system. Of lanes it knows only the output of `tickwire
//! stat`.
#![forbid(unsafe_code)]

mod bench;
mod card;
mod disk;
mod error;
mod figures;
mod going;
mod html;
mod load;
mod options;
mod pace;
mod quantity;
mod readout;
mod receiver;
mod sender;
mod study;
mod table;

pub use error::{AbsentMeasurement, JitterStudyError};
pub use figures::{AtLeast, TimeStatistics};
pub use html::html;
pub use load::MachineLoad;
pub use options::{JitterOptions, Target};
pub use pace::{PERIOD, Wait};
pub use quantity::{MessageCarrier, Quantity};
pub use sender::{FRAMES, Message, SendError, Sender};
pub use study::{Applied, JitterStudy, Profile, study};
pub use table::table;
