//! The counter study (Ridoux, Veitch, Broomhead 2012, section IV): for each counter that a program
//! on this machine can read, how long a reading takes, with the machine at rest and under load, and
//! how evenly the counter runs beside another.
//!
//! | module | purpose |
//! |---|---|
//! | `reach` | the counters: those that can be read, and why the others cannot |
//! | `access` | how long a reading takes |
//! | `load` | what keeps the machine busy meanwhile |
//! | `stability` | counters beside a reference, over time |
//! | `allan` | the Allan deviation |
//! | `study` | all of it, in order |
//! | `table`, `html` | the study for a terminal and for a browser |
//!
//! May know tickclock, the choice of the timekeeper, the operating system.
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
pub use load::Load;
pub use reach::Absent;
pub use stability::Stability;
pub use study::{Options, Present, Study, StudyError, study};
pub use table::table;
