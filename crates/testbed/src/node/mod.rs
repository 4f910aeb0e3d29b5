//! The programs that send and receive, one on each host, over plain sockets, and their protocol
//! with the controller.
//!
//! | module | purpose |
//! |---|---|
//! | `protocol` | the messages between controller and node |
//! | `lines` | their encoding: JSON lines of bounded length |
//! | `check` | validation of orders |
//! | `error` | fatal errors of a node |
//! | `serve` | the life of a node |
//! | `talk` | I/O with the controller during a measurement |
//! | `time` | the clock that all nodes of an experiment share |
//! | `message` | the format of a message |
//! | `sockets` | the sockets of streams |
//! | `producer` | sends streams when they are due |
//! | `consumer` | receives all streams |
//! | `stream_receiver` | the receiver of one stream |
//! | `tally` | counts of a stream's messages: received, lost, late |
//! | `usage` | the node's processor time |

mod check;
mod consumer;
mod error;
pub mod lines;
mod message;
mod producer;
pub mod protocol;
mod serve;
mod sockets;
mod stream_receiver;
mod talk;
mod tally;
mod time;
mod usage;

pub use error::NodeError;
pub use serve::serve;
pub use time::{NodeClock, TimeError, Timepiece};

use std::time::Duration;

/// How often a node reports its progress.
const PROGRESS: Duration = Duration::from_millis(500);
