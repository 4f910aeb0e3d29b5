//! Figures of many connections.

use crate::latency::Latency;
use serde::{Deserialize, Serialize};

/// Messages and their answers over many connections, as a measuring program prints them in one line
/// of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeFigures {
    /// Connections that were open all the time.
    pub connections: u32,
    /// Those of them that carried messages; the others were idle.
    pub active: u32,
    /// From a message's write until its answer has arrived, with other messages in flight on other
    /// connections.
    pub latency: Latency,
    /// Messages answered in a second.
    pub per_second: f64,
    /// Messages answered since the first connection was opened, including those that were not
    /// measured.
    pub answered: u64,
}

/// Connections that were opened and closed, as a measuring program prints them in one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// How many.
    pub connections: u64,
    /// How long it took.
    pub seconds: f64,
    /// Connections a second.
    pub per_second: f64,
}

/// What a program's first socket cost, as a measuring program prints it in one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstSocket {
    /// From the call that made the socket until it was bound, in nanoseconds.
    pub ns: u64,
}
