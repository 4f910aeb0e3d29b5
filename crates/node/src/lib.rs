//! A node of the testbed: the program that sends or receives on one host, over plain sockets, and
//! its protocol with the controller (`tickwire-testbed`).
//!
//! A node knows nothing of lanes: the same program measures the kernel and Tickwire.
//!
//! | module | purpose |
//! |---|---|
//! | `stream` | a stream of messages, and its limits |
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
//! | `times` | histograms of times |
//! | `usage` | the node's processor time |
//! | `os` | what differs between operating systems: sockets, waiting, the process |
//! | `units` | conversion of times |
//!
//! Allowed dependencies: `tickclock` and the operating system's sockets. `unsafe` is in
//! `os::windows` only, for calls of Windows.
#![cfg_attr(not(windows), forbid(unsafe_code))]
#![deny(unsafe_code)]

mod check;
mod consumer;
mod error;
pub mod lines;
mod message;
mod os;
mod producer;
pub mod protocol;
mod serve;
mod sockets;
pub mod stream;
mod stream_receiver;
mod talk;
mod tally;
mod time;
pub mod times;
pub mod units;
pub mod usage;

pub use error::NodeError;
pub use serve::serve;
pub use time::{NodeClock, TimeError, Timepiece};

use std::time::Duration;

/// How often a node reports its progress.
const PROGRESS: Duration = Duration::from_millis(500);
