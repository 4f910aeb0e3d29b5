//! Why a node cannot go on.

use super::lines::LineError;
use super::time::TimeError;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a node cannot go on: the sentence that it tells the controller.
#[derive(Debug, Error)]
pub enum NodeError {
    /// What came is no order.
    #[error("what the controller said cannot be understood: {0}")]
    Line(#[from] LineError),
    /// An order came when another one was expected.
    #[error("the controller said {said}, but {expected} was expected")]
    Order {
        /// What it said.
        said: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// An order asks for what cannot be.
    #[error("{0}")]
    Impossible(String),
    /// A stream's socket cannot be opened.
    #[error("stream {stream}: cannot {what} {to}: {source}")]
    Socket {
        /// The stream's number in the pattern.
        stream: u32,
        /// What failed.
        what: &'static str,
        /// Where the stream goes.
        to: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The shared clock does not tell the time.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// The system refuses something that every node needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What failed.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Nobody takes what the node says.
    #[error("cannot tell the controller anything: its end is closed")]
    Unheard,
}
