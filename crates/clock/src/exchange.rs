//! One request and its reply: the only input of the algorithm.

use tickwire_clockpage::{Count, Nanos};

/// The four timestamps of an exchange, and the server state in the reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// Ta: the counter when the request left.
    pub sent: Count,
    /// Tb: the server's clock when the request arrived.
    pub server_received: Nanos,
    /// Te: the server's clock when the reply left.
    pub server_sent: Nanos,
    /// Tf: the counter when the reply arrived.
    pub received: Count,
    /// The server state in the reply.
    pub server: ServerState,
    /// Random error of the client's own timestamps in ns, beyond what the round trip shows. It is 0
    /// for kernel timestamps, and microseconds for timestamps that a program takes around its
    /// system calls.
    pub stamp_error: u32,
}

/// The server state that each reply carries (RFC 5905 §7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Whether it is synchronised: leap indicator not 3, stratum 1 to 15.
    pub synchronised: bool,
    /// Stratum: hops from the reference clock.
    pub stratum: u8,
    /// Reference ID: an address or a name.
    pub reference: u32,
    /// Root delay: round trip to the reference, in nanoseconds.
    pub root_delay: u64,
    /// Root dispersion: the server's maximum error in nanoseconds, without `root_delay`.
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
    /// The round trip in counts, RTT = Tf - Ta, which is independent of any clock error.
    /// ([`crate::sync`], which knows the period, subtracts the server's processing time in
    /// nanoseconds.)
    #[must_use]
    pub const fn round_trip(&self) -> i64 {
        self.received.since(self.sent)
    }

    /// The server's processing time in nanoseconds: Te - Tb.
    #[must_use]
    pub const fn at_server(&self) -> i64 {
        self.server_sent.since(self.server_received)
    }
}
