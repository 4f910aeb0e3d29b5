//! How good the clock is: back-to-back readings of the Tickwire clock and of a reference, as in
//! section 5 of Shafer et al. (2015); table 2 and figure 5.
//!
//! | module | purpose |
//! |---|---|
//! | `experiment` | which rows the table has, and how each is measured |
//! | `bed` | two hosts of a lab: the truth's server on one, a clock that follows it on the other |
//! | `reference` | who knows the time better, and one comparison with it |
//! | `card` | a network card's clock (PTP) as reference |
//! | `reader` | comparisons again and again, with random pauses |
//! | `simulated` | rows in virtual time |
//! | `figures` | what the comparisons come to, as it stands in JSON |
//! | `show` | the same as a table and as a part of a page |
//!
//! Differences are reference - clock, as in the paper: the clock is read first, so time that goes
//! on as it should makes them positive.

mod bed;
mod card;
mod experiment;
mod figures;
mod reader;
mod reference;
mod show;
mod simulated;

pub use experiment::{Card, Lab, Moment, Plan, Real, Span};
pub use figures::{Differences, Histogram, Origin, Row, TimeFigures};
pub(crate) use show::cells;
pub use show::{html, section, table};
