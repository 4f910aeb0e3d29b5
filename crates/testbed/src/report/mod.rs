//! The report: for a program (JSON), for a terminal (a table) and for a person with two minutes (a
//! page).
//!
//! | module | purpose |
//! |---|---|
//! | `verdict` | whether all was as it should be, in one sentence |
//! | `comparison` | Tickwire beside the kernel |
//! | `notes` | what a reader must know before believing the figures |
//! | `queueing` | what messages waited for each other, by timing |
//! | `sweep` | at which rate the pattern breaks, and why |
//! | `json`, `table`, `html` | the same figures, three times |
//! | `words` | figures and names as people read them |
//!
//! No I/O and no clock: what was measured comes in, text goes out.

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
pub use sweep::{Step, steps};
pub use table::table;
pub use verdict::{Verdict, verdict};
