//! The report for Prometheus.

use super::{Report, SourceReport};
use std::collections::BTreeMap;
use tickwire_metrics::{Exposition, Labels, MetricKind};

impl Report {
    /// The report as metrics for Prometheus. What is not known is left out.
    #[must_use]
    pub fn metrics(&self) -> Exposition {
        let mut metrics = Exposition::new("tickwire_clock_");
        self.clock(&mut metrics);
        self.system(&mut metrics);
        let sources = Sources(self.distinct().collect());
        sources.clocks(&mut metrics);
        sources.standings(&mut metrics);
        sources.exchanges(&mut metrics);
        sources.keys(&mut metrics);
        metrics
    }

    fn clock(&self, metrics: &mut Exposition) {
        let mut one = |name: &str, help: &str, value: Option<f64>| metrics.single(name, MetricKind::Gauge, help, value);
        let has = |word: &str| Some(truth(self.status.iter().any(|fact| fact == word)));
        let seconds = |ns: u64| ns as f64 / 1e9;
        one("synchronised", "Whether the time is known.", has("synchronised"));
        one("holdover", "Whether the clock runs without servers.", has("holdover"));
        one("warming_up", "Whether the rate is not yet known well.", has("warming up"));
        one("stratum", "How far the reference is.", self.stratum.map(f64::from));
        one("skew_ppm", "The most that the counter's period can be wrong by.", self.skew_ppm);
        one("error_seconds", "Estimated error.", self.error_ns.map(seconds));
        one("bound_seconds", "The most that the time can be wrong by.", self.bound_ns.map(seconds));
        one("period_seconds", "The counter's period.", self.period_ns.map(|ns| ns / 1e9));
        let help = "How often the counter has broken, or the time was set.";
        metrics.single("disruptions_total", MetricKind::Counter, help, Some(self.disruptions.into()));
    }

    fn system(&self, metrics: &mut Exposition) {
        let Some(system) = &self.system_clock else { return };
        let mut one = |name: &str, help: &str, value: Option<f64>| metrics.single(name, MetricKind::Gauge, help, value);
        one("system_clock_steered", "Whether the system clock is steered.", Some(truth(system.steered)));
        one(
            "system_clock_ahead_seconds",
            "By how much the system clock is ahead of the published time.",
            system.ahead_ns.map(|ns| ns / 1e9),
        );
    }

    /// The servers. One that is configured twice under one name has one set of metrics: Prometheus
    /// rejects duplicate labels.
    fn distinct(&self) -> impl Iterator<Item = &SourceReport> {
        let twice = |source: &SourceReport| {
            let other = |other: &SourceReport| other.name == source.name && other.standing != "duplicate";
            source.standing == "duplicate" && self.sources.iter().any(other)
        };
        self.sources.iter().filter(move |source| !twice(source))
    }
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Servers with different names.
struct Sources<'a>(Vec<&'a SourceReport>);

impl Sources<'_> {
    /// A gauge with a sample for each server of which it is known.
    fn each(&self, metrics: &mut Exposition, name: &str, help: &str, of: fn(&SourceReport) -> Option<f64>) {
        self.all(metrics, name, MetricKind::Gauge, help, of);
    }

    /// A counter with a sample for each server that has it.
    fn count(&self, metrics: &mut Exposition, name: &str, help: &str, of: fn(&SourceReport) -> Option<f64>) {
        self.all(metrics, name, MetricKind::Counter, help, of);
    }

    fn all(
        &self,
        metrics: &mut Exposition,
        name: &str,
        kind: MetricKind,
        help: &str,
        of: fn(&SourceReport) -> Option<f64>,
    ) {
        let samples = self.0.iter().filter_map(|source| Some((labels(source, None), of(source)?)));
        metrics.family(name, kind, help, samples);
    }

    /// A counter with a sample for each server and each key of a map of it.
    fn split(
        &self,
        metrics: &mut Exposition,
        name: &str,
        help: &str,
        label: &'static str,
        of: fn(&SourceReport) -> Option<&BTreeMap<String, u64>>,
    ) {
        let samples = self.0.iter().flat_map(|source| {
            let counts = of(source).into_iter().flatten();
            counts.map(move |(value, count)| (labels(source, Some((label, value))), *count as f64))
        });
        metrics.family(name, MetricKind::Counter, help, samples);
    }

    fn clocks(&self, metrics: &mut Exposition) {
        self.each(metrics, "source_offset_seconds", "A server's clock minus the published one.", |s| {
            s.offset_ns.map(|ns| ns / 1e9)
        });
        self.each(metrics, "source_round_trip_seconds", "The shortest round trip.", |s| {
            s.round_trip_ns.map(|ns| ns / 1e9)
        });
        self.each(metrics, "source_noise_seconds", "How much the quickest round trips differ.", |s| {
            s.noise_ns.map(|ns| ns / 1e9)
        });
        self.each(metrics, "source_bound_seconds", "The most that a server's clock can be wrong by.", |s| {
            s.bound_ns.map(|ns| ns / 1e9)
        });
        let help = "How uncertain a server's clock is, one standard deviation.";
        self.each(metrics, "source_error_seconds", help, |s| s.error_ns.map(|ns| ns / 1e9));
        self.each(metrics, "source_frequency_ppm", "A server's rate minus the published one.", |s| s.frequency_ppm);
        self.each(metrics, "source_stratum", "A server's stratum.", |s| s.stratum.map(f64::from));
        self.each(metrics, "source_poll_seconds", "How often a server is asked.", |s| Some(s.poll_s));
        let help = "How long ago a server told something usable.";
        self.each(metrics, "source_last_seconds", help, |s| s.last_s);
    }

    fn standings(&self, metrics: &mut Exposition) {
        let standing = |source: &&SourceReport| (labels(source, Some(("standing", &source.standing))), 1.0);
        let help = "How a server stands: 1 with the label that is true.";
        metrics.family("source_standing", MetricKind::Gauge, help, self.0.iter().map(standing));
        self.each(metrics, "source_followed", "Whether a server is followed.", |s| {
            Some(truth(s.standing == "followed"))
        });
        self.each(metrics, "source_reachable", "Whether one of the last eight requests was answered.", |s| {
            Some(truth(s.reach != 0))
        });
    }

    fn exchanges(&self, metrics: &mut Exposition) {
        self.count(metrics, "source_exchanges_used_total", "Exchanges that were used.", |s| Some(s.used as f64));
        let help = "Exchanges that the clock was told, by the kind of their stamps.";
        self.split(metrics, "source_exchanges_stamped_total", help, "stamps", |s| Some(&s.stamped));
        let help = "Exchanges that the network card should have stamped and did not.";
        self.split(metrics, "source_hardware_stamps_lacking_total", help, "reason", |s| Some(&s.lacking));
        let help = "Answers and exchanges that were not used.";
        self.split(metrics, "source_exchanges_refused_total", help, "reason", |s| Some(&s.refused));
    }

    /// The keys of NTS.
    fn keys(&self, metrics: &mut Exposition) {
        let help = "Cookies that are left for requests; none without keys.";
        self.each(metrics, "source_nts_cookies", help, |s| s.nts.as_ref().map(|nts| nts.cookies.unwrap_or(0) as f64));
        self.count(metrics, "source_nts_agreements_total", "How often keys were agreed on.", |s| {
            s.nts.as_ref().map(|nts| nts.agreed as f64)
        });
        let help = "How often no keys were agreed on.";
        self.split(metrics, "source_nts_failures_total", help, "reason", |s| s.nts.as_ref().map(|nts| &nts.failed));
    }
}

/// The labels of a server's sample: its name, and another one that distinguishes its series.
fn labels(source: &SourceReport, other: Option<(&'static str, &str)>) -> Labels {
    let server = ("server", source.name.clone());
    std::iter::once(server).chain(other.map(|(name, value)| (name, value.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::NtsReport;

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
        let metrics = report.metrics();
        let text = metrics.text();
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
