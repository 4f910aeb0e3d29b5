//! One request and its answer: all that the algorithm ever learns.

use crate::time::{Count, Nanos};

/// The four stamps of an exchange, and what the server said of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// Ta: the counter when the request left.
    pub sent: Count,
    /// Tb: the server's clock when the request arrived.
    pub server_received: Nanos,
    /// Te: the server's clock when the answer left.
    pub server_sent: Nanos,
    /// Tf: the counter when the answer arrived.
    pub received: Count,
    /// What the server said of itself.
    pub server: ServerState,
    /// How far the client's own stamps may be off at random, in ns, beyond what shows in the round
    /// trip: nothing for the kernel's, microseconds for those that a program took beside its system
    /// calls.
    pub stamp_error: u32,
}

/// What a server says of itself in each answer (RFC 5905 §7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Whether it is synchronised: leap indicator not 3, stratum 1 to 15.
    pub synchronised: bool,
    /// Distance from the reference.
    pub stratum: u8,
    /// Its own reference: an address or a name.
    pub reference: u32,
    /// Round trip to the reference, in nanoseconds.
    pub root_delay: u64,
    /// What it thinks its error is at most, in nanoseconds, without `root_delay`.
    pub root_dispersion: u64,
}

impl ServerState {
    /// The root distance in nanoseconds: how far from its reference the server may be, root
    /// dispersion + root delay / 2.
    #[must_use]
    pub const fn distance(&self) -> f64 {
        self.root_dispersion as f64 + self.root_delay as f64 / 2.0
    }
}

impl Exchange {
    /// The round trip in counts, which no clock's error touches: RTT = Tf - Ta. (The server's own
    /// time is taken out in nanoseconds, by [`crate::sync`], where the period is known.)
    #[must_use]
    pub const fn round_trip(&self) -> i64 {
        self.received.since(self.sent)
    }

    /// The server's own time in nanoseconds: Te - Tb.
    #[must_use]
    pub const fn at_server(&self) -> i64 {
        self.server_sent.since(self.server_received)
    }
}
