//! Admission: which exchanges are accepted.

use crate::exchange::{Exchange, ServerState};
use core::fmt;

/// Why an exchange was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExchangeRefusal {
    /// The server says that it is not synchronised.
    Unsynchronised,
    /// The exchange is a duplicate of the one before, or older.
    Old,
    /// The timestamps are out of order, or the server's processing time exceeds the round trip.
    Backwards,
    /// The round trip exceeds one second.
    TooSlow,
    /// The reference or stratum of the server differs from the exchange before; accepted if the
    /// next exchange confirms it.
    ServerChanged,
    /// The round trip is clearly shorter than any before; accepted if the next ones confirm it.
    PathChanging,
    /// The offset is far from the forecast.
    Outlier,
    /// The server smears a leap second over this day, and others do not.
    Smeared,
    /// This exchange shows that the counter has broken.
    CounterBroke,
    /// So near to a leap second that a server timestamp is ambiguous, or the server has not applied
    /// it yet.
    Leaping,
}

impl ExchangeRefusal {
    /// All refusals, for statistics.
    pub const ALL: [Self; 10] = [
        Self::Unsynchronised,
        Self::Old,
        Self::Backwards,
        Self::TooSlow,
        Self::ServerChanged,
        Self::PathChanging,
        Self::Outlier,
        Self::Smeared,
        Self::CounterBroke,
        Self::Leaping,
    ];
}

impl fmt::Display for ExchangeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsynchronised => "the server is not synchronised",
            Self::Old => "older than the exchange before",
            Self::Backwards => "stamps out of order",
            Self::TooSlow => "round trip too long",
            Self::ServerChanged => "the server has changed its reference",
            Self::PathChanging => "round trips shorter than ever: the path may be another",
            Self::Outlier => "far from all that is known",
            Self::Smeared => "the server spreads a leap second",
            Self::CounterBroke => "the counter has broken",
            Self::Leaping => "too near to a leap second, or late with it",
        })
    }
}

/// The longest round trip in ns: a longer one gives no useful offset (RFC 5905 MAXDIST is 1.5 s; a
/// LAN has microseconds).
const LONGEST: i64 = 1_000_000_000;

/// Checks an exchange alone and against the one before. `round_trip` is in nanoseconds, and
/// includes the server's processing time.
pub(crate) fn check(exchange: &Exchange, before: Option<&Exchange>, round_trip: i64) -> Result<(), ExchangeRefusal> {
    let ServerState { synchronised, stratum, .. } = exchange.server;
    if !synchronised || !(1..16).contains(&stratum) {
        return Err(ExchangeRefusal::Unsynchronised);
    }
    if before
        .is_some_and(|before| exchange.sent.since(before.sent) <= 0 || exchange.received.since(before.received) <= 0)
    {
        return Err(ExchangeRefusal::Old);
    }
    let at_server = exchange.at_server();
    if exchange.round_trip() <= 0 || at_server < 0 || at_server > round_trip {
        return Err(ExchangeRefusal::Backwards);
    }
    if round_trip - at_server > LONGEST {
        return Err(ExchangeRefusal::TooSlow);
    }
    let changed = |before: &Exchange| {
        (before.server.reference, before.server.stratum) != (exchange.server.reference, exchange.server.stratum)
    };
    if before.is_some_and(changed) {
        return Err(ExchangeRefusal::ServerChanged);
    }
    Ok(())
}
