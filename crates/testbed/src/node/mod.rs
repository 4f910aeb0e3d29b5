//! The programs that send and receive, one on each host, over plain sockets; and how they talk with
//! the controller.
//!
//! | module | purpose |
//! |---|---|
//! | `protocol` | what controller and node say to each other |
//! | `lines` | a line of JSON for each of that, of a greatest length |
//! | `check` | what no order may ask for |
//! | `error` | why a node cannot go on |
//! | `serve` | a node from its start to its end |
//! | `talk` | how it hears and speaks while it measures |
//! | `time` | the clock that all nodes of an experiment share |
//! | `message` | what stands in a message |
//! | `sockets` | the sockets of streams |
//! | `producer` | sends streams when they are due |
//! | `consumer` | receives all streams |
//! | `inlet` | where one stream comes in |
//! | `tally` | what has come of a stream, what not, and how late |
//! | `usage` | the processor time that this takes |

mod check;
mod consumer;
mod error;
mod inlet;
pub mod lines;
mod message;
mod producer;
pub mod protocol;
mod serve;
mod sockets;
mod talk;
mod tally;
mod time;
mod usage;

pub use error::NodeError;
pub use serve::serve;
pub use time::{Time, TimeError, Timepiece};

use std::time::Duration;

/// How often a node tells how far it is.
const PROGRESS: Duration = Duration::from_millis(500);
