//! Accuracy of the clock: back-to-back readings of the Tickwire clock and of a reference, as in
//! section 5 of Shafer et al. (2015); table 2 and figure 5.
//!
//! | module | purpose |
//! |---|---|
//! | `experiment` | the rows of the table, and how each is measured |
//! | `topology` | two hosts of a lab: the reference server, and a clock that follows it |
//! | `reference` | a reference clock, and one comparison with it |
//! | `card` | a network card's clock (PTP) as reference |
//! | `reader` | repeated comparisons, with random pauses |
//! | `simulated` | rows in virtual time |
//! | `figures` | statistics of the comparisons, as in JSON |
//! | `show` | the same as a table and as a part of a page |
//!
//! Differences are reference - clock, as in the paper. The clock is read first, so the time between
//! the readings makes them positive.

mod card;
mod experiment;
mod figures;
mod reader;
mod reference;
mod show;
mod simulated;
mod topology;

pub use experiment::{CardComparison, ClockPlan, ComparisonSpan, LabComparison, Moment, Real};
pub use figures::{ClockRow, Differences, Histogram, Origin, TimeFigures};
pub(crate) use show::cells;
pub use show::{html, section, table};
