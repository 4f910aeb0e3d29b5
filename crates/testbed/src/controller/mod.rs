//! The controller: starts a node on each host, has them send and receive, and gathers what became
//! of it.
//!
//! | module | purpose |
//! |---|---|
//! | `place` | a host on which a node can be started: of the lab, or over `ssh` |
//! | `bed` | the lab on one machine: consumer, producers, a switch |
//! | `site` | the machines that a file names |
//! | `remote` | a node that runs: orders to it, news from it |
//! | `plan` | who sends what to which address and port, and when |
//! | `experiment` | which runs, one after the other, and where |
//! | `run` | one run, from starting the nodes to the figures |
//! | `member` | one node with its part in a run: what it is told, and what it says |
//! | `believable` | what no node can have measured |
//! | `last_words` | what a program says on standard error, of which the end is kept |
//! | `patience` | how long nodes are waited for |
//! | `measured` | what is gathered from the nodes of a run |
//! | `proof` | which of the consumer's sockets are on a lane, and what was diverted to it |

mod bed;
mod believable;
mod experiment;
#[cfg(test)]
mod hostile;
mod last_words;
mod measured;
mod member;
mod patience;
mod place;
mod plan;
mod proof;
mod remote;
mod run;
mod site;
#[cfg(test)]
mod testing;

pub use experiment::{Ground, Plan, Step};
pub use measured::{Live, LiveStream};
pub use place::{Hosts, Place};
pub use site::{Site, SiteError};

use crate::pattern::PatternError;
use thiserror::Error;

/// Why nothing could be measured.
#[derive(Debug, Error)]
pub enum Error {
    /// What the user gave cannot be meant, or what it needs is not so: nothing was sent. For a
    /// person who can change that.
    #[error("{0}")]
    Refused(String),
    /// It broke.
    #[error(transparent)]
    Broken(#[from] anyhow::Error),
}

impl From<PatternError> for Error {
    fn from(error: PatternError) -> Self {
        Self::Refused(error.to_string())
    }
}
