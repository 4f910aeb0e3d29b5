//! The report: for programs (JSON), for a terminal (a table) and as a summary page (HTML).
//!
//! | module | purpose |
//! |---|---|
//! | `verdict` | the overall result, in one sentence |
//! | `comparison` | comparison of Tickwire and the kernel |
//! | `notes` | caveats of the figures |
//! | `queueing` | queueing delays, by timing |
//! | `sweep` | the rate at which the pattern fails, and why |
//! | `json`, `table`, `html` | the same figures in three formats |
//! | `words` | figures and names as text |
//!
//! No I/O and no clock: input is the measurement, output is text.

mod comparison;
mod html;
mod json;
mod notes;
mod queueing;
mod sweep;
mod table;
mod verdict;
mod words;

pub use comparison::{Comparison, compare};
pub use html::html;
pub use json::{VERSION, json};
pub use queueing::{Queueing, queueing};
pub use sweep::{SweepStep, steps};
pub use table::table;
pub use verdict::{ExperimentVerdict, verdict};
