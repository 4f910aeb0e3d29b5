//! The daemon's status report: one object, as JSON on its socket and as Prometheus metrics
//! (`metrics`).

mod metrics;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Unix time in ns when this report was made, by the published clock; null before the time is
    /// known.
    pub utc_ns: Option<i64>,
    /// The clock's status flags in words; the first is `synchronised` or `unknown`.
    pub status: Vec<String>,
    /// TAI - UTC in seconds; null before it is known.
    pub tai_utc_s: Option<i32>,
    /// The leap second that is announced, or was applied last: +1, -1, or 0 for none; and when:
    /// Unix time in ns, null for none.
    pub leap: i32,
    /// See `leap`.
    pub leap_at_utc_ns: Option<i64>,
    /// Estimated error in ns: one standard deviation; null before it is known.
    pub error_ns: Option<u64>,
    /// The most that the time can be wrong by, in ns; null before it is known.
    pub bound_ns: Option<u64>,
    /// The counter's name.
    pub counter: String,
    /// The counter's period in ns: as assumed at the start, now, and over the long term; null
    /// before it is known.
    pub nominal_period_ns: f64,
    /// See `nominal_period_ns`.
    pub period_ns: Option<f64>,
    /// See `nominal_period_ns`.
    pub long_period_ns: Option<f64>,
    /// How far the period may be from the true one at most, in ppm; null before it is known.
    pub skew_ppm: Option<f64>,
    /// The stratum of the followed server, and the round trip to the reference including the path
    /// to that server, in ns; null while none is followed.
    pub stratum: Option<u8>,
    /// See `stratum`.
    pub root_delay_ns: Option<u64>,
    /// How often the counter has broken, or the time was set.
    pub disruptions: u32,
    /// The steering of the system clock, if it is configured.
    #[serde(default)]
    pub system_clock: Option<SystemClockReport>,
    /// The page's path.
    pub page: String,
    /// The servers.
    pub sources: Vec<SourceReport>,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Its name as configured, with the port if that is not 123.
    pub name: String,
    /// Its address and port, once known.
    pub address: Option<String>,
    /// `followed`, `agrees`, `outvoted`, `disputed`, `smeared`, `far` (from the reference),
    /// `silent`, or `duplicate` if it is another name of one of the others. While one is `disputed`
    /// it cannot be decided which server is right, so the one that is `followed` all the same is
    /// disputed, too.
    pub standing: String,
    /// A set bit for each of the last eight requests that was answered; the lowest bit is the last
    /// request.
    pub reach: u8,
    /// Seconds between requests.
    pub poll_s: f64,
    /// Whether it is polled; not for some time after DENY or RSTR.
    pub asked: bool,
    /// If not, the seconds until it is polled again.
    #[serde(default)]
    pub denied_s: Option<f64>,
    /// Seconds until it may be polled twice as often as now, if it has limited the rate (RATE).
    #[serde(default)]
    pub slowed_s: Option<f64>,
    /// Seconds since the last usable exchange.
    pub last_s: Option<f64>,
    /// Its stratum.
    pub stratum: Option<u8>,
    /// Its clock minus the published one, in ns.
    pub offset_ns: Option<f64>,
    /// How uncertain its clock alone is, in ns: one standard deviation.
    pub error_ns: Option<f64>,
    /// How much faster its clock runs than the published one, in ppm.
    pub frequency_ppm: Option<f64>,
    /// How far that may be wrong at most, in ppm.
    pub skew_ppm: Option<f64>,
    /// The most that its clock alone can be wrong by, in ns.
    pub bound_ns: Option<f64>,
    /// The shortest round trip, in ns.
    pub round_trip_ns: Option<f64>,
    /// How much the quickest round trips differ, in ns.
    pub noise_ns: Option<f64>,
    /// How much longer requests are estimated to take than replies, in ns.
    pub asymmetry_ns: f64,
    /// Its own statement of its error: root delay and root dispersion, in ns.
    pub root_delay_ns: Option<u64>,
    /// See `root_delay_ns`.
    pub root_dispersion_ns: Option<u64>,
    /// `hardware` (by the network card), `kernel` or `program`: where the last exchange's
    /// timestamps were taken.
    pub stamps: Option<String>,
    /// Exchanges passed to the clock, by the kind of their timestamps.
    #[serde(default)]
    pub stamped: BTreeMap<String, u64>,
    /// Why no hardware timestamps are requested; null if they are.
    #[serde(default)]
    pub no_card: Option<String>,
    /// Exchanges that a card should have timestamped but did not, by reason.
    #[serde(default)]
    pub lacking: BTreeMap<String, u64>,
    /// Whether it answers in interleaved mode (RFC 9769); null before the first reply.
    pub interleaved: Option<bool>,
    /// Its NTS statistics, if it is authenticated.
    #[serde(default)]
    pub nts: Option<NtsReport>,
    /// Exchanges that were used.
    pub used: u64,
    /// Replies and exchanges that were not used, by reason.
    pub refused: BTreeMap<String, u64>,
}

/// NTS (RFC 8915) with one server, whose exchanges are all authenticated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NtsReport {
    /// Cookies that are left, one for each request; null: there are no keys.
    pub cookies: Option<usize>,
    /// How often keys were established.
    pub agreed: u64,
    /// How often key establishment failed, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// The steering of the system clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemClockReport {
    /// Whether it is steered now.
    pub steered: bool,
    /// Why not; or what is wrong with it.
    pub why: Option<String>,
    /// By how much it is ahead of the published time, in ns; null before that is known.
    pub ahead_ns: Option<f64>,
    /// By how much faster it runs than it would by itself, in ppm; null while it is not steered.
    pub frequency_ppm: Option<f64>,
}
