//! The lines of a record, as they are written.

use serde::{Deserialize, Serialize};
use tickclock::{Count, Leap, Nanos, Parameters, Scale, Status};
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::{Exchange, ServerState};

/// Increases when the meaning of any line changes, and with every change of the algorithm that
/// makes another page of the same exchanges.
pub(super) const VERSION: u32 = 5;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Begin(Begin),
    Exchange(ExchangeRecord),
    /// The silence timeout of a server from now on.
    SilenceTimeout {
        server: usize,
        ns: i64,
    },
    /// The counter had broken, and was at this value when that was found out.
    Disruption {
        at: u64,
    },
    Page(RecordedPage),
}

/// The clock's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    pub(super) version: u32,
    pub(super) counter: String,
    pub(super) nominal: [u64; 2],
    pub(super) rate_error: f64,
    pub(super) holdover_after_ns: i64,
    pub(super) fresh_for_ns: i64,
    pub(super) tai_offset_s: Option<i32>,
    pub(super) leap_seconds: Option<LeapSeconds>,
    /// How often the counter had broken, or the time was set, before; and since which value the
    /// counter was known not to have broken.
    pub(super) disruptions: u32,
    pub(super) since: u64,
    pub(super) servers: Vec<Server>,
}

/// The table of leap seconds: Unix time in s and offset for each entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeapSeconds {
    pub(super) entries: Vec<(i64, i32)>,
    pub(super) expires_s: i64,
}

/// One of the servers, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) asymmetry_ns: f64,
    pub(super) smeared: bool,
}

/// An exchange; times are Unix time, counts are the counter's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExchangeRecord {
    pub(super) server: usize,
    pub(super) sent: u64,
    pub(super) server_received_ns: i64,
    pub(super) server_sent_ns: i64,
    pub(super) received: u64,
    pub(super) stamp_error_ns: u32,
    pub(super) synchronised: bool,
    pub(super) stratum: u8,
    pub(super) reference: u32,
    pub(super) root_delay_ns: u64,
    pub(super) root_dispersion_ns: u64,
    pub(super) leap: i8,
}

/// The page as it was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPage {
    /// The clock's status flags (`Status`).
    pub status: u32,
    /// The counter when it was published.
    pub at: u64,
    /// The time then, in ns of TAI.
    pub tai_ns: i64,
    /// The local period in ns: numerator, and the denominator's power of two.
    pub local: [u64; 2],
    /// The long-term period, as `local`.
    pub difference: [u64; 2],
    /// Estimated error in ns.
    pub error_ns: u64,
    /// The most that the time could be wrong by, in ns.
    pub bound_ns: u64,
    /// By how much both grow, in 2^-32 ns per ns.
    pub growth: u32,
    /// Until when the page was good.
    pub fresh_until: u64,
    /// TAI - UTC in seconds, the announced leap, and its instant in ns of TAI.
    pub tai_utc_s: i32,
    /// See `tai_utc_s`.
    pub leap: i32,
    /// See `tai_utc_s`.
    pub leap_at_tai_ns: i64,
    /// How often the counter had broken, or the time was set.
    pub disruptions: u32,
    /// Since which value of the counter it was known not to have broken.
    pub since: u64,
}

pub(super) const fn scale(scale: Scale) -> [u64; 2] {
    [scale.mult, scale.shift as u64]
}

impl From<&Parameters> for RecordedPage {
    fn from(parameters: &Parameters) -> Self {
        let Parameters { status: Status(status), at, time, local, difference, error, bound, growth, .. } = *parameters;
        let Leap { offset, step, at: leap_at } = parameters.leap;
        Self {
            status,
            at: at.0,
            tai_ns: time.0,
            local: scale(local),
            difference: scale(difference),
            error_ns: error,
            bound_ns: bound,
            growth,
            fresh_until: parameters.fresh_until.0,
            tai_utc_s: offset,
            leap: step,
            leap_at_tai_ns: leap_at.0,
            disruptions: parameters.disruptions,
            since: parameters.since.0,
        }
    }
}

impl ExchangeRecord {
    pub(super) fn new(server: usize, exchange: &Exchange, announced: Announcement) -> Self {
        let Exchange { sent, server_received, server_sent, received, server: state, stamp_error } = *exchange;
        Self {
            server,
            sent: sent.0,
            server_received_ns: server_received.0,
            server_sent_ns: server_sent.0,
            received: received.0,
            stamp_error_ns: stamp_error,
            synchronised: state.synchronised,
            stratum: state.stratum,
            reference: state.reference,
            root_delay_ns: state.root_delay,
            root_dispersion_ns: state.root_dispersion,
            leap: match announced {
                Announcement::None => 0,
                Announcement::Insert => 1,
                Announcement::Delete => -1,
            },
        }
    }

    pub(super) const fn exchange(&self) -> Exchange {
        Exchange {
            sent: Count(self.sent),
            server_received: Nanos(self.server_received_ns),
            server_sent: Nanos(self.server_sent_ns),
            received: Count(self.received),
            server: ServerState {
                synchronised: self.synchronised,
                stratum: self.stratum,
                reference: self.reference,
                root_delay: self.root_delay_ns,
                root_dispersion: self.root_dispersion_ns,
            },
            stamp_error: self.stamp_error_ns,
        }
    }

    pub(super) fn announced(&self) -> Result<Announcement, String> {
        match self.leap {
            0 => Ok(Announcement::None),
            1 => Ok(Announcement::Insert),
            -1 => Ok(Announcement::Delete),
            other => Err(format!("a leap is 1, 0 or -1 second, not {other}")),
        }
    }
}
