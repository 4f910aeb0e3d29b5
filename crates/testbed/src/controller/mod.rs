//! The controller: starts a node on each host, lets them send and receive, and collects the
//! results.
//!
//! | module | purpose |
//! |---|---|
//! | `host` | a host on which a node can be started: of the lab, or over `ssh` |
//! | `topology` | the lab on one machine: consumer, producers, a switch |
//! | `starter` | other programs than `tickwire` that start nodes of the lab |
//! | `inventory` | the machines that a file names |
//! | `remote` | a running node: orders to it, reports from it |
//! | `plan` | traffic plan: destination and phase of each stream |
//! | `experiment` | the sequence of runs, and where they are made |
//! | `run` | one run, from starting the nodes to the figures |
//! | `node_session` | one node in its role in a run: orders and reports |
//! | `validation` | validation of a node's figures |
//! | `stderr_tail` | the end of a program's standard error |
//! | `timeouts` | timeouts of nodes |
//! | `measured` | the measurements of a run |
//! | `proof` | the consumer's sockets on a lane, and the packets diverted to it |

mod experiment;
mod host;
#[cfg(test)]
mod hostile;
mod inventory;
mod measured;
mod node_session;
mod plan;
mod proof;
mod remote;
mod run;
mod starter;
mod stderr_tail;
#[cfg(test)]
mod testing;
mod timeouts;
mod topology;
mod validation;

use crate::error::TestbedError;
pub use experiment::{ExperimentPlan, Ground, RunProgress};
pub use host::{Hosts, NodeHost};
pub use inventory::{Inventory, InventoryError};
pub use measured::{Live, LiveStream};
pub use proof::Proof;
pub use starter::{LANE, LabNodes};
