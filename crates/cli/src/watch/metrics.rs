//! A snapshot in Prometheus' text format (version 0.0.4): the figures of the dashboard, and the
//! clock daemon's own metrics.

use super::draw::longest_round_trip_us;
use super::dropped::{self, KINDS};
use super::snapshot::Snapshot;
use std::collections::BTreeMap;
use tickwire_metrics::{Exposition, Labels, MetricKind};
use tickwire_show::sanitize_terminal::sanitized;
use tickwire_show::stat::{Lane, StatReading};
use tickwire_testbed::controller::{Live, LiveStream};
use tickwire_testbed::live::Shown;
use tickwire_testbed::outcome::{Carrier, StreamDescription, Timing};

/// The longest value of a label, in characters.
const LONGEST: usize = 200;

/// All metrics of a snapshot.
pub(super) fn of(snapshot: &Snapshot) -> Exposition {
    let mut metrics = Exposition::new("tickwire_");
    let up = |part: &str, is: bool| (vec![("part", part.to_owned())], f64::from(u8::from(is)));
    let parts = [
        up("clock", snapshot.clock.is_ok()),
        up("service", snapshot.service.is_ok()),
        up("testbed", snapshot.testbed.is_ok()),
    ];
    metrics.family("up", MetricKind::Gauge, "Whether a part of Tickwire is there and may be watched.", parts);
    if let Ok(watched) = &snapshot.testbed {
        testbed(&mut metrics, &watched.shown);
    }
    if let Ok(reading) = &snapshot.service {
        host(&mut metrics, reading);
        lanes(&mut metrics, &reading.lanes);
    }
    if let Ok(report) = &snapshot.clock {
        metrics.append(&report.metrics());
    }
    metrics
}

/// A label with a value that may be anything.
fn label(name: &'static str, value: &str) -> (&'static str, String) {
    (name, sanitized(value, LONGEST))
}

fn testbed(metrics: &mut Exposition, shown: &Shown) {
    let Some(live) = &shown.live else { return };
    let info = vec![
        label("pattern", &shown.pattern),
        ("carrier", carrier(live).to_owned()),
        ("timing", timing(live).to_owned()),
        ("pid", shown.pid.to_string()),
    ];
    metrics.family("testbed_info", MetricKind::Gauge, "The testbed's run at this moment: 1.", [(info, 1.0)]);
    let mut one = |name: &str, help: &str, value: f64| metrics.single(name, MetricKind::Gauge, help, Some(value));
    if let Some(step) = shown.step {
        one("testbed_run_number", "Which of its runs the testbed is at.", step.number as f64);
        one("testbed_runs", "How many runs the testbed makes.", step.of as f64);
    }
    one("testbed_rate", "How many times the pattern's rate is sent.", live.rate.into());
    one("testbed_elapsed_seconds", "Since messages count; negative during the warm-up.", live.elapsed_s);
    one("testbed_duration_seconds", "How long messages count in this run.", live.duration_s);
    if let Some(clock) = &shown.clock {
        one("testbed_clock_row", "Which row of the clock's table is measured, after the runs.", clock.row as f64);
        one("testbed_clock_rows", "How many rows there are.", clock.rows as f64);
        one("testbed_clock_elapsed_seconds", "Since this row began.", clock.passed_s);
        one("testbed_clock_duration_seconds", "How long this row takes.", clock.whole_s);
    }
    streams(metrics, shown, live);
}

fn streams(metrics: &mut Exposition, shown: &Shown, live: &Live) {
    let known: BTreeMap<u32, &StreamDescription> = shown.streams.iter().map(|what| (what.id, what)).collect();
    let labels = |id: u32| {
        let mut labels = vec![("stream", id.to_string())];
        if let Some(what) = known.get(&id) {
            labels.push(("producer", what.producer.to_string()));
            labels.push(("transport", what.transport.name().to_owned()));
        }
        labels.push(("carrier", carrier(live).to_owned()));
        labels
    };
    let labelled: Vec<(Labels, &LiveStream)> = live.streams.iter().map(|stream| (labels(stream.id), stream)).collect();
    let mut each = |name: &str, kind, help: &str, of: &dyn Fn(&LiveStream) -> Option<f64>| {
        let values = labelled.iter().filter_map(|(labels, stream)| Some((labels.clone(), of(stream)?)));
        metrics.family(name, kind, help, values);
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let described = |stream: &LiveStream, of: fn(&StreamDescription) -> f64| known.get(&stream.id).map(|what| of(what));
    each("stream_size_bytes", MetricKind::Gauge, "Bytes of a message.", &|s| {
        described(s, |what| what.size_bytes.into())
    });
    each("stream_period_seconds", MetricKind::Gauge, "From one message to the next, at the pattern's rate.", &|s| {
        described(s, |what| what.period_ms / 1e3)
    });
    each("stream_deadline_seconds", MetricKind::Gauge, "How long a message may take.", &|s| {
        Some(seconds(s.deadline_ns))
    });
    // There is no latency before the first message.
    each("stream_latency_recent_worst_seconds", MetricKind::Gauge, "The longest that a message took lately.", &|s| {
        (s.worst_ns > 0).then(|| seconds(s.worst_ns))
    });
    each("stream_latency_worst_seconds", MetricKind::Gauge, "The longest that a message took in this run.", &|s| {
        (s.worst_ever_ns > 0).then(|| seconds(s.worst_ever_ns))
    });
    each("stream_sent_total", MetricKind::Counter, "Messages sent in this run.", &|s| Some(s.sent as f64));
    each("stream_received_total", MetricKind::Counter, "Messages received in this run.", &|s| Some(s.received as f64));
    each("stream_late_total", MetricKind::Counter, "Messages later than their deadline in this run.", &|s| {
        Some(s.late as f64)
    });
}

/// As in JSON.
const fn carrier(live: &Live) -> &'static str {
    match live.carrier {
        Carrier::Kernel => "kernel",
        Carrier::Tickwire => "tickwire",
    }
}

const fn timing(live: &Live) -> &'static str {
    match live.timing {
        Timing::Pattern => "pattern",
        Timing::Synchronised => "synchronised",
        Timing::Unscheduled => "unscheduled",
        Timing::Scheduled => "scheduled",
    }
}

fn host(metrics: &mut Exposition, reading: &StatReading) {
    let interfaces = reading.host.interfaces.iter().map(|interface| {
        let labels = vec![label("interface", &interface.name), ("mode", interface.mode.to_owned())];
        (labels, f64::from(u8::from(interface.reason.is_none())))
    });
    metrics.family(
        "interface_accelerated",
        MetricKind::Gauge,
        "Whether packets of an interface are diverted.",
        interfaces,
    );
    let counters =
        reading.host.counters.iter().map(|(name, value)| (vec![("kind", (*name).to_owned())], *value as f64));
    let help = "Packets of all interfaces, by what became of them (`tickwire stat`).";
    metrics.family("host_packets_total", MetricKind::Counter, help, counters);
}

fn lanes(metrics: &mut Exposition, lanes: &[Lane]) {
    let labels = |lane: &Lane| {
        vec![("lane", lane.lane.to_string()), label("program", &lane.program), ("pid", lane.pid.to_string())]
    };
    let labelled: Vec<(Labels, &Lane)> = lanes.iter().map(|lane| (labels(lane), lane)).collect();
    let mut each = |name: &str, kind, help: &str, of: &dyn Fn(&Lane) -> Option<f64>| {
        let values = labelled.iter().filter_map(|(labels, lane)| Some((labels.clone(), of(lane)?)));
        metrics.family(name, kind, help, values);
    };
    each("lane_accelerated", MetricKind::Gauge, "Whether a program has a lane.", &|lane| {
        Some(f64::from(u8::from(lane.accelerated)))
    });
    each("lane_memory_bytes", MetricKind::Gauge, "Memory of a lane.", &|lane| {
        lane.accelerated.then_some(lane.memory_bytes as f64)
    });
    each(
        "lane_round_trip_seconds",
        MetricKind::Gauge,
        "The longest smoothed round trip of its connections.",
        &|lane| longest_round_trip_us(lane).map(|us| f64::from(us) / 1e6),
    );
    each("lane_receive_queue_bytes", MetricKind::Gauge, "Bytes that wait for the program.", &|lane| {
        Some(lane.sockets.iter().filter_map(|socket| socket.rx_queue).map(f64::from).sum())
    });
    each("lane_send_queue_bytes", MetricKind::Gauge, "Bytes that wait to be sent or acknowledged.", &|lane| {
        Some(lane.sockets.iter().filter_map(|socket| socket.tx_queue).map(f64::from).sum())
    });
    each("lane_retransmitted_segments_total", MetricKind::Counter, "TCP segments sent again.", &|lane| {
        lane.counters.get("TcpRetransSegs").map(|count| *count as f64)
    });
    let mut split =
        |name: &str, kind, help: &str, label: &'static str, of: &dyn Fn(&Lane) -> Vec<(&'static str, f64)>| {
            let all = |(labels, lane): &(Labels, &Lane)| {
                let labels = labels.clone();
                of(lane)
                    .into_iter()
                    .map(move |(value, number)| ([labels.clone(), vec![(label, value.to_owned())]].concat(), number))
            };
            metrics.family(name, kind, help, labelled.iter().flat_map(all));
        };
    split("lane_sockets", MetricKind::Gauge, "Sockets of a program, by what carries them.", "on", &|lane| {
        let on = |lanes: bool| lane.sockets.iter().filter(|socket| socket.accelerated == lanes).count() as f64;
        vec![("lane", on(true)), ("kernel", on(false))]
    });
    let guard = |lane: &Lane, names: [(&'static str, &str); 2]| {
        names.into_iter().filter_map(|(way, name)| Some((way, *lane.guard.get(name)? as f64))).collect::<Vec<_>>()
    };
    split("lane_packets_total", MetricKind::Counter, "Packets to and from a lane.", "direction", &|lane| {
        guard(lane, [("in", "in_packets"), ("out", "out_packets")])
    });
    split("lane_bytes_total", MetricKind::Counter, "Bytes to and from a lane.", "direction", &|lane| {
        guard(lane, [("in", "in_bytes"), ("out", "out_bytes")])
    });
    split("lane_dropped_total", MetricKind::Counter, "What a lane has lost, by reason.", "reason", &|lane| {
        if !lane.accelerated {
            return Vec::new();
        }
        KINDS.iter().zip(dropped::of(lane)).map(|(kind, count)| (kind.name, count as f64)).collect()
    });
}

#[cfg(test)]
mod tests {
    use super::super::draw::testing;
    use super::*;
    use std::collections::BTreeSet;

    fn told(snapshot: &Snapshot) -> String {
        of(snapshot).text().to_owned()
    }

    #[test]
    fn figures_have_units_types_and_labels() {
        let text = told(&testing::snapshot());
        for line in [
            "# TYPE tickwire_up gauge",
            "tickwire_up{part=\"service\"} 1",
            "tickwire_testbed_info{pattern=\"2015\",carrier=\"tickwire\",timing=\"scheduled\",pid=\"77\"} 1",
            "tickwire_testbed_run_number 2",
            "# HELP tickwire_stream_latency_worst_seconds The longest that a message took in this run.",
            "# TYPE tickwire_stream_latency_worst_seconds gauge",
            "tickwire_stream_latency_worst_seconds{stream=\"13\",producer=\"1\",transport=\"low-latency-tcp\",carrier=\"tickwire\"} 0.012",
            "tickwire_stream_deadline_seconds{stream=\"10\",producer=\"1\",transport=\"tcp\",carrier=\"tickwire\"} 0.005",
            "# TYPE tickwire_stream_received_total counter",
            "tickwire_stream_received_total{stream=\"10\",producer=\"1\",transport=\"tcp\",carrier=\"tickwire\"} 1200",
            "tickwire_stream_late_total{stream=\"13\",producer=\"1\",transport=\"low-latency-tcp\",carrier=\"tickwire\"} 3",
            "tickwire_host_packets_total{kind=\"diverted\"} 123456",
            "tickwire_interface_accelerated{interface=\"eth0\",mode=\"native\"} 1",
            "tickwire_lane_sockets{lane=\"3\",program=\"daq-consumer\",pid=\"4242\",on=\"kernel\"} 1",
            "tickwire_lane_round_trip_seconds{lane=\"3\",program=\"daq-consumer\",pid=\"4242\"} 0.000485",
            "tickwire_lane_dropped_total{lane=\"3\",program=\"daq-consumer\",pid=\"4242\",reason=\"receive_buffer\"} 5",
            "tickwire_lane_dropped_total{lane=\"3\",program=\"daq-consumer\",pid=\"4242\",reason=\"memory\"} 0",
            "tickwire_clock_bound_seconds 0.0000214",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_clocks_part_of_a_run_has_its_progress() {
        let text = told(&testing::clock_measured());
        for line in [
            "tickwire_testbed_clock_row 1",
            "tickwire_testbed_clock_rows 2",
            "tickwire_testbed_clock_elapsed_seconds 3.2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(!told(&testing::snapshot()).contains("testbed_clock_"), "messages are sent");
    }

    /// What each line of a text is: a comment, or a name with labels and a value.
    fn check(text: &str) {
        let (mut described, mut named) = (BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.split(' ');
                let (what, name) = (words.next().unwrap(), words.next().unwrap());
                assert!(["HELP", "TYPE"].contains(&what) && described.insert((what, name.to_owned())), "once: {line}");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            let name = series.split('{').next().unwrap();
            assert!(described.contains(&("TYPE", name.to_owned())), "{line}");
            assert!(named.insert(series.to_owned()), "twice: {line}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn nothing_that_others_say_breaks_the_text() {
        for snapshot in
            [testing::snapshot(), testing::nothing(), testing::idle(), testing::clock_measured(), testing::hostile()]
        {
            check(&told(&snapshot));
        }
        let hostile = told(&testing::hostile());
        assert!(hostile.contains(r#"program="\\u{1b}[2J\\u{202e}\"\\\\u{a}日本""#), "{hostile}");
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        let none = told(&testing::nothing());
        assert!(none.contains("tickwire_up{part=\"clock\"} 0\n") && none.contains("tickwire_up{part=\"testbed\"} 0\n"));
        assert_eq!(none.lines().count(), 5, "{none}");
        assert!(!told(&testing::idle()).contains("tickwire_stream_"), "no run has begun");
    }

    const DASHBOARD: &str = include_str!("../../../../packaging/grafana-dashboard.json");

    /// All metric names in the queries of a dashboard.
    fn asked(value: &serde_json::Value, names: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        serde_json::Value::String(query) if name == "expr" || name == "query" => {
                            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                            names.extend(words.filter(|word| word.starts_with("tickwire_")).map(str::to_owned));
                        }
                        value => asked(value, names),
                    }
                }
            }
            serde_json::Value::Array(all) => all.iter().for_each(|value| asked(value, names)),
            _ => {}
        }
    }

    #[test]
    fn the_dashboard_asks_for_what_is_exported_and_for_nothing_else() {
        let mut names = BTreeSet::new();
        asked(&serde_json::from_str(DASHBOARD).unwrap(), &mut names);
        let text = told(&testing::snapshot());
        let unknown: Vec<_> = names.iter().filter(|name| !text.contains(&format!("# TYPE {name} "))).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        for part in ["tickwire_stream_", "tickwire_lane_", "tickwire_clock_", "tickwire_host_"] {
            assert!(names.iter().any(|name| name.starts_with(part)), "{part}: {names:?}");
        }
    }

    #[test]
    fn the_manual_names_every_metric() {
        let manual = include_str!("../manual/watch.txt");
        let words: BTreeSet<_> = manual.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let text = told(&testing::snapshot());
        let all = text.lines().filter_map(|line| line.strip_prefix("# TYPE tickwire_")?.split(' ').next());
        let unnamed: Vec<_> = all.filter(|name| !name.starts_with("clock_") && !words.contains(name)).collect();
        assert!(unnamed.is_empty(), "{unnamed:?}");
    }
}
