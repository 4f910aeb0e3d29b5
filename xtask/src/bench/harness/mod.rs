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

pub(crate) mod conditions;
pub(crate) mod host_pairs;
pub(crate) mod host_state;
pub(crate) mod medians;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod selection;
pub(crate) mod table;
pub(crate) mod verdict;

pub(crate) use conditions::Conditions;
pub(crate) use medians::{Figures, median};
pub(crate) use report::Report;
pub(crate) use rounds::{Outcome, Rounds};
pub(crate) use verdict::{Bound, Verdict};
