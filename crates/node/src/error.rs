//! Fatal errors of a node.

use crate::lines::LineError;
use crate::time::TimeError;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// A fatal error; its text is reported to the controller.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The input is not an order.
    #[error("what the controller said cannot be understood: {0}")]
    Line(#[from] LineError),
    /// An unexpected order.
    #[error("the controller said {said}, but {expected} was expected")]
    Order {
        /// The order received.
        said: &'static str,
        /// The order expected.
        expected: &'static str,
    },
    /// An order that cannot be executed.
    #[error("{0}")]
    Impossible(String),
    /// A stream's socket cannot be opened.
    #[error("stream {stream}: cannot {what} {to}: {source}")]
    Socket {
        /// The stream's number in the pattern.
        stream: u32,
        /// What failed.
        what: &'static str,
        /// The stream's destination.
        to: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The shared clock does not provide the time.
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
    /// The controller's end of the output is closed.
    #[error("cannot tell the controller anything: its end is closed")]
    Unheard,
}
