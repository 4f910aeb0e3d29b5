//! What all measurements have in common. Each has a table of rows, the hosts that they are measured
//! on, promises and a report; the rest is here.
//!
//! A virtual machine's speed drifts by tens of percent within minutes, so a single figure is
//! meaningless. Every row is measured in every round, one after the other, and rows are compared by
//! the medians of their rounds.
//!
//! | module | purpose |
//! |---|---|
//! | `selection` | which rows; what is checked before a build that takes minutes |
//! | `host_pairs` | hosts with and without a service, and programs on them |
//! | `rounds` | the round loop, and the outcome of each row |
//! | `medians` | the figures of all rounds as one |
//! | `host_state` | load, steal time and what a wakeup costs |
//! | `verdict` | promises: what they bound, and whether they are kept |
//! | `conditions` | the conditions of a measurement, as text and JSON |
//! | `table` | tables for the terminal |
//! | `report` | prints the tables, writes the JSON file |

pub(super) mod conditions;
pub(super) mod host_pairs;
pub(crate) mod host_state;
pub(super) mod medians;
pub(super) mod report;
pub(super) mod rounds;
pub(super) mod selection;
pub(super) mod table;
pub(super) mod verdict;

pub(super) use conditions::Conditions;
pub(super) use medians::{Figures, median};
pub(super) use report::Report;
pub(super) use rounds::{Outcome, Rounds};
pub(super) use verdict::{Bound, Verdict};
