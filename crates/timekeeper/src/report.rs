//! The daemon's status report: one object, as JSON on its socket and as Prometheus metrics.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

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

impl Report {
    /// Prometheus' text format (version 0.0.4).
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let mut gauge = |name: &str, help: &str, kind: &str, values: &mut dyn Iterator<Item = (String, f64)>| {
            let mut values = values.peekable();
            if values.peek().is_none() {
                return;
            }
            // Writing to a string does not fail.
            let _ = writeln!(text, "# HELP tickwire_clock_{name} {help}\n# TYPE tickwire_clock_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "tickwire_clock_{name}{labels} {value}");
            }
        };
        let one = |value: Option<f64>| value.into_iter().map(|value| (String::new(), value));
        let has = |word: &str| f64::from(u8::from(self.status.iter().any(|fact| fact == word)));
        let seconds = |ns: u64| ns as f64 / 1e9;
        gauge("synchronised", "Whether the time is known.", "gauge", &mut one(Some(has("synchronised"))));
        gauge("holdover", "Whether the clock runs without servers.", "gauge", &mut one(Some(has("holdover"))));
        gauge("warming_up", "Whether the rate is not yet known well.", "gauge", &mut one(Some(has("warming up"))));
        gauge("stratum", "How far the reference is.", "gauge", &mut one(self.stratum.map(f64::from)));
        gauge("skew_ppm", "The most that the counter's period can be wrong by.", "gauge", &mut one(self.skew_ppm));
        gauge("error_seconds", "Estimated error.", "gauge", &mut one(self.error_ns.map(seconds)));
        gauge(
            "bound_seconds",
            "The most that the time can be wrong by.",
            "gauge",
            &mut one(self.bound_ns.map(seconds)),
        );
        gauge("period_seconds", "The counter's period.", "gauge", &mut one(self.period_ns.map(|ns| ns / 1e9)));
        gauge(
            "disruptions_total",
            "How often the counter has broken, or the time was set.",
            "counter",
            &mut one(Some(self.disruptions.into())),
        );
        let system = self.system_clock.as_ref();
        gauge(
            "system_clock_steered",
            "Whether the system clock is steered.",
            "gauge",
            &mut one(system.map(|system| f64::from(u8::from(system.steered)))),
        );
        gauge(
            "system_clock_ahead_seconds",
            "By how much the system clock is ahead of the published time.",
            "gauge",
            &mut one(system.and_then(|system| system.ahead_ns).map(|ns| ns / 1e9)),
        );
        // A server that is configured twice under one name has one set of metrics: Prometheus
        // rejects duplicate labels.
        let twice = |source: &SourceReport| {
            let other = |other: &SourceReport| other.name == source.name && other.standing != "duplicate";
            source.standing == "duplicate" && self.sources.iter().any(other)
        };
        let sources = || self.sources.iter().filter(|source| !twice(source));
        let each = |of: fn(&SourceReport) -> Option<f64>| {
            sources().filter_map(move |source| of(source).map(|value| (label(source, None), value)))
        };
        gauge(
            "source_offset_seconds",
            "A server's clock minus the published one.",
            "gauge",
            &mut each(|s| s.offset_ns.map(|ns| ns / 1e9)),
        );
        gauge(
            "source_round_trip_seconds",
            "The shortest round trip.",
            "gauge",
            &mut each(|s| s.round_trip_ns.map(|ns| ns / 1e9)),
        );
        gauge(
            "source_noise_seconds",
            "How much the quickest round trips differ.",
            "gauge",
            &mut each(|s| s.noise_ns.map(|ns| ns / 1e9)),
        );
        gauge(
            "source_bound_seconds",
            "The most that a server's clock can be wrong by.",
            "gauge",
            &mut each(|s| s.bound_ns.map(|ns| ns / 1e9)),
        );
        gauge(
            "source_error_seconds",
            "How uncertain a server's clock is, one standard deviation.",
            "gauge",
            &mut each(|s| s.error_ns.map(|ns| ns / 1e9)),
        );
        gauge(
            "source_frequency_ppm",
            "A server's rate minus the published one.",
            "gauge",
            &mut each(|s| s.frequency_ppm),
        );
        gauge("source_stratum", "A server's stratum.", "gauge", &mut each(|s| s.stratum.map(f64::from)));
        gauge("source_poll_seconds", "How often a server is asked.", "gauge", &mut each(|s| Some(s.poll_s)));
        gauge("source_last_seconds", "How long ago a server told something usable.", "gauge", &mut each(|s| s.last_s));
        let mut standings = sources().map(|source| {
            let labels = format!("{{server=\"{}\",standing=\"{}\"}}", quoted(&source.name), quoted(&source.standing));
            (labels, 1.0)
        });
        gauge("source_standing", "How a server stands: 1 with the label that is true.", "gauge", &mut standings);
        gauge(
            "source_followed",
            "Whether a server is followed.",
            "gauge",
            &mut each(|s| Some(f64::from(u8::from(s.standing == "followed")))),
        );
        gauge(
            "source_reachable",
            "Whether one of the last eight requests was answered.",
            "gauge",
            &mut each(|s| Some(f64::from(u8::from(s.reach != 0)))),
        );
        gauge(
            "source_exchanges_used_total",
            "Exchanges that were used.",
            "counter",
            &mut each(|s| Some(s.used as f64)),
        );
        let mut stamped = sources().flat_map(|source| {
            source.stamped.iter().map(move |(kind, count)| (label(source, Some(("stamps", kind))), *count as f64))
        });
        gauge(
            "source_exchanges_stamped_total",
            "Exchanges that the clock was told, by the kind of their stamps.",
            "counter",
            &mut stamped,
        );
        let mut lacking = sources().flat_map(|source| {
            source.lacking.iter().map(move |(reason, count)| (label(source, Some(("reason", reason))), *count as f64))
        });
        gauge(
            "source_hardware_stamps_lacking_total",
            "Exchanges that the network card should have stamped and did not.",
            "counter",
            &mut lacking,
        );
        let mut refused = sources().flat_map(|source| {
            source.refused.iter().map(move |(reason, count)| (label(source, Some(("reason", reason))), *count as f64))
        });
        gauge("source_exchanges_refused_total", "Answers and exchanges that were not used.", "counter", &mut refused);
        gauge(
            "source_nts_cookies",
            "Cookies that are left for requests; none without keys.",
            "gauge",
            &mut each(|s| s.nts.as_ref().map(|nts| nts.cookies.unwrap_or(0) as f64)),
        );
        gauge(
            "source_nts_agreements_total",
            "How often keys were agreed on.",
            "counter",
            &mut each(|s| s.nts.as_ref().map(|nts| nts.agreed as f64)),
        );
        let mut failed = sources().filter_map(|source| Some((source, source.nts.as_ref()?)));
        let mut failed = failed.by_ref().flat_map(|(source, nts)| {
            nts.failed.iter().map(move |(reason, count)| (label(source, Some(("reason", reason))), *count as f64))
        });
        gauge("source_nts_failures_total", "How often no keys were agreed on.", "counter", &mut failed);
        text
    }
}

/// The labels of a server's metric: its name, and another one that distinguishes its series.
fn label(source: &SourceReport, other: Option<(&str, &str)>) -> String {
    let other = other.map(|(name, value)| format!(",{name}=\"{}\"", quoted(value))).unwrap_or_default();
    format!("{{server=\"{}\"{other}}}", quoted(&source.name))
}

/// A label's value.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_prometheus_text() {
        let source = SourceReport {
            name: "a\"b".into(),
            standing: "followed".into(),
            round_trip_ns: Some(1e5),
            refused: [("too long".to_owned(), 3)].into(),
            stamped: [("hardware".to_owned(), 7)].into(),
            nts: Some(NtsReport { cookies: Some(8), agreed: 1, failed: [("late".to_owned(), 2)].into() }),
            ..SourceReport::default()
        };
        let report = Report {
            utc_ns: Some(1),
            status: vec!["synchronised".into()],
            tai_utc_s: Some(37),
            leap: 0,
            leap_at_utc_ns: None,
            error_ns: Some(100),
            bound_ns: None,
            counter: "TSC".into(),
            nominal_period_ns: 0.5,
            period_ns: Some(0.5),
            long_period_ns: None,
            skew_ppm: Some(0.5),
            stratum: Some(2),
            root_delay_ns: None,
            disruptions: 0,
            system_clock: None,
            page: "/run".into(),
            sources: vec![
                SourceReport { name: "a\"b".into(), standing: "duplicate".into(), ..SourceReport::default() },
                source,
                SourceReport { name: "c".into(), standing: "duplicate".into(), ..SourceReport::default() },
            ],
        };
        let text = report.metrics();
        assert!(text.contains("# TYPE tickwire_clock_synchronised gauge\ntickwire_clock_synchronised 1\n"), "{text}");
        assert!(text.contains("tickwire_clock_error_seconds 0.0000001\n"), "{text}");
        assert!(!text.contains("bound_seconds "), "what is not known is left out: {text}");
        assert!(text.contains("source_standing{server=\"a\\\"b\",standing=\"followed\"} 1\n"), "{text}");
        assert!(text.contains("tickwire_clock_stratum 2\n"), "{text}");
        assert!(text.contains("source_round_trip_seconds{server=\"a\\\"b\"} 0.0001\n"), "{text}");
        assert!(text.contains("stamped_total{server=\"a\\\"b\",stamps=\"hardware\"} 7\n"), "{text}");
        assert!(text.contains("refused_total{server=\"a\\\"b\",reason=\"too long\"} 3\n"), "{text}");
        assert!(text.contains("nts_failures_total{server=\"a\\\"b\",reason=\"late\"} 2\n"), "{text}");
        assert!(text.contains("source_nts_cookies{server=\"a\\\"b\"} 8\n"), "{text}");
        assert!(text.contains("source_standing{server=\"c\",standing=\"duplicate\"} 1\n"), "{text}");
        let named: Vec<_> = text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name).collect();
        let different: std::collections::BTreeSet<_> = named.iter().collect();
        assert_eq!(named.len(), different.len(), "what is named twice is two metrics of one name: {text}");
        assert!(!text.contains("a\\\"b\",standing=\"duplicate"), "{text}");
        assert!(serde_json::to_string(&report).unwrap().contains("\"bound_ns\":null"));
    }
}
