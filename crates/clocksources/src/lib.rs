//! The counter study (Ridoux, Veitch, Broomhead 2012, section IV), for each counter that a program
//! on this machine can read. It measures the duration of a reading, with the machine idle and under
//! load, and the stability of the counter against a reference.
//!
//! | module | purpose |
//! |---|---|
//! | `reach` | the counters that can be read, and why the others cannot |
//! | `access` | the duration of a reading |
//! | `load` | the loads |
//! | `stability` | counters against a reference, over time |
//! | `allan` | the Allan deviation |
//! | `study` | runs the whole study |
//! | `table`, `html` | the study for a terminal and for a browser |
//!
//! This crate may depend on tickclock, the timekeeper's choice of the counter, report, and the
//! operating system.
#![forbid(unsafe_code)]

mod access;
mod allan;
mod html;
mod load;
mod reach;
mod stability;
mod study;
mod table;

pub use access::{Access, Longer};
pub use allan::Deviation;
pub use html::html;
pub use load::CounterLoad;
pub use reach::AbsentCounter;
pub use stability::Stability;
pub use study::{CounterOptions, CounterStudy, CounterStudyError, Present, study};
pub use table::table;
