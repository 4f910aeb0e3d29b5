//! The rate at which the pattern fails, and why.

use super::words::{counted, drops, ms, percent, share, total};
use crate::outcome::{Experiment, Run, StreamFigures};
use crate::pattern::{Pattern, Stream};
use crate::schedule::{CableLink, wire_bytes};
use crate::units::nanos;
use serde::Serialize;

/// A link above this share of its rate counts as full: retransmissions and other traffic come on
/// top.
const FULL_LINK: f64 = 0.98;
/// A processor above this share counts as fully used.
const FULL_PROCESSOR: f64 = 0.95;

/// One step of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepStep {
    /// Multiple of the pattern's rate.
    pub rate: u32,
    /// The messages' bits per second, without headers.
    pub offered_bps: u64,
    /// Their share of the link's rate on the wire, with headers, preambles and gaps, if the rate is
    /// known.
    pub link_share: Option<f64>,
    /// Whether the step succeeded.
    pub met: bool,
    /// How many streams were met.
    pub streams_met: usize,
    /// Messages that were sent.
    pub sent: u64,
    /// Of these, how many were lost.
    pub lost: u64,
    /// How many missed their deadline.
    pub late: u64,
    /// The consumer's processor time relative to the measurement's duration: 1 is one processor all
    /// the time.
    pub consumer_cpu_share: Option<f64>,
    /// What failed, and the reason as far as the figures show it, in words; none if nothing failed.
    pub why: Option<String>,
}

/// The sweep, in the order in which it was measured.
#[must_use]
pub fn steps(experiment: &Experiment) -> Vec<SweepStep> {
    experiment.sweep.iter().map(|run| step(experiment, run)).collect()
}

fn step(experiment: &Experiment, run: &Run) -> SweepStep {
    let offered = bps(&experiment.pattern, |stream| u64::from(stream.size)) * f64::from(run.rate);
    let link_share = experiment.link_bps.map(|rate_bps| {
        let link = CableLink { rate_bps, ..CableLink::GIGABIT };
        let wire = bps(&experiment.pattern, |stream| wire_bytes(stream.transport, stream.size, &link, false));
        wire * f64::from(run.rate) / rate_bps as f64
    });
    let met = run.is_met() && run.streams.len() == experiment.pattern.streams.len();
    let consumer_cpu_share = share(&run.consumer);
    SweepStep {
        rate: run.rate,
        offered_bps: offered.round() as u64,
        link_share,
        met,
        streams_met: run.met(),
        sent: total(run, |stream| stream.sent),
        lost: total(run, |stream| stream.lost),
        late: total(run, |stream| stream.late),
        consumer_cpu_share,
        why: (!met).then(|| format!("{}: {}", what(run), why(experiment, run, link_share, consumer_cpu_share))),
    }
}

/// Bits per second of all streams, for `bytes` per message.
fn bps(pattern: &Pattern, bytes: impl Fn(&Stream) -> u64) -> f64 {
    pattern.streams.iter().map(|stream| bytes(stream) as f64 * 8.0 / stream.period.as_secs_f64()).sum()
}

/// What failed.
fn what(run: &Run) -> String {
    let counts = [
        (total(run, |s| s.lost), "lost"),
        (total(run, |s| s.late), "late"),
        (total(run, |s| s.duplicates), "doubled"),
        (total(run, |s| s.reordered), "out of order"),
        (total(run, |s| s.corrupt), "corrupt"),
    ];
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let said: Vec<String> = some.map(|&(count, word)| format!("{} {word}", counted(count, "message"))).collect();
    if said.is_empty() { format!("{} met", counted(run.met() as u64, "stream")) } else { said.join(", ") }
}

/// The first reason that the figures show, and the places of drops.
fn why(experiment: &Experiment, run: &Run, link: Option<f64>, consumer: Option<f64>) -> String {
    let reason = reason(experiment, run, link, consumer);
    match drops(run) {
        Some(drops) => format!("{reason}; packets were dropped: {drops}"),
        None => reason,
    }
}

fn reason(experiment: &Experiment, run: &Run, link: Option<f64>, consumer: Option<f64>) -> String {
    // The link first: no host can change it, and the nodes' faults follow from it.
    let full = link.filter(|&link| link > FULL_LINK).map(|link| {
        format!("the messages with their headers are {} of what the link to the consumer carries", percent(link))
    });
    let reasons: Vec<String> = full.into_iter().chain(run.faults.iter().cloned()).collect();
    if !reasons.is_empty() {
        return reasons.join("; ");
    }
    if let Some(consumer) = consumer.filter(|&share| share > FULL_PROCESSOR) {
        return format!("the consumer has no processor time left (it takes {} of one)", percent(consumer));
    }
    let unmet = || experiment.pattern.streams.iter().zip(&run.streams).filter(|(_, figures)| !figures.is_met());
    let held_up = |(stream, figures): &(&Stream, &StreamFigures)| figures.release.max_ns >= nanos(stream.deadline);
    let (all, producers) = (unmet().count(), unmet().filter(held_up).count());
    if all > 0 && producers * 2 > all {
        let latest = unmet().map(|(_, figures)| figures.release.max_ns).max().unwrap_or(0);
        return format!(
            "producers could not send when messages were due (up to {} ms later): their machine has no time left, or the call for the message \
             before had not returned, because the receiver takes no more",
            ms(latest)
        );
    }
    let room = match (link, consumer) {
        (Some(link), Some(consumer)) => {
            format!(
                " (on average the link is {} full and the consumer takes {} of a processor)",
                percent(link),
                percent(consumer)
            )
        }
        _ => String::new(),
    };
    if unmet().any(|(stream, figures)| figures.lost > 0 && !stream.transport.is_tcp()) {
        return format!(
            "datagrams were dropped on the way, as a queue of the switch or of the receiver was full for a moment{room}"
        );
    }
    format!("messages waited for others before them for longer than is allowed{room}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Carrier, Timing, Usage};
    use crate::pattern::{Pattern, Transport};
    use std::time::Duration;

    fn experiment(rate: u32, figures: StreamFigures, busy: u64) -> Experiment {
        let stream = Stream {
            id: 1,
            producer: 1,
            transport: Transport::Udp,
            size: 1_000,
            period: Duration::from_millis(10),
            deadline: Duration::from_millis(10),
            phase: None,
        };
        let run = Run {
            carrier: Carrier::Tickwire,
            timing: Timing::Pattern,
            rate,
            duration_ns: 1_000_000_000,
            streams: vec![figures],
            consumer: Usage { user_ns: busy, system_ns: 0, elapsed_ns: 1_000, ready_ns: None },
            diverted: None,
            accelerated: None,
            drops: Vec::new(),
            faults: Vec::new(),
        };
        Experiment {
            pattern: Pattern { name: "one".to_owned(), streams: vec![stream] },
            command: Vec::new(),
            machines: Vec::new(),
            link_bps: Some(8_000_000),
            clock: String::new(),
            runs: Vec::new(),
            timings: Vec::new(),
            time: None,
            sweep: vec![run],
        }
    }

    fn why(rate: u32, figures: StreamFigures, busy: u64) -> String {
        steps(&experiment(rate, figures, busy))[0].why.clone().unwrap_or_default()
    }

    #[test]
    fn a_step_tells_what_was_offered_and_why_it_broke() {
        let good = StreamFigures { sent: 10, received: 10, ..StreamFigures::default() };
        let lossy = StreamFigures { received: 9, lost: 1, ..good.clone() };
        let late = StreamFigures { late: 2, ..good.clone() };
        let mut held_up = late.clone();
        held_up.release.max_ns = 15_000_000;
        let held = steps(&experiment(2, good.clone(), 500));
        assert_eq!((held[0].offered_bps, held[0].why.as_deref()), (1_600_000, None));
        // 1000 bytes with the headers of UDP (8), IP (20) and Ethernet (38).
        assert!((held[0].link_share.unwrap() - 1_066.0 * 8.0 * 200.0 / 8e6).abs() < 1e-9);
        assert_eq!(
            why(10, lossy.clone(), 500),
            "1 message lost: the messages with their headers are 106.6 % of what the link to the consumer carries"
        );
        assert_eq!(
            why(1, late.clone(), 990),
            "2 messages late: the consumer has no processor time left (it takes 99.0 % of one)"
        );
        assert!(
            why(1, held_up, 500).contains("producers could not send when messages were due (up to 15.000 ms later)")
        );
        assert!(
            why(1, lossy.clone(), 500).contains("datagrams were dropped on the way")
                && why(1, late, 500).contains("the link is 10.7 % full")
        );
        assert_eq!(why(1, StreamFigures { received: 9, ..good.clone() }, 1).split(':').next(), Some("0 streams met"));
        let mut broken = experiment(1, good, 1);
        broken.sweep[0].faults.push("node 3 ended".to_owned());
        broken.sweep[0].drops.push(("switch, port to c".to_owned(), 7));
        assert_eq!(
            steps(&broken)[0].why.as_deref(),
            Some("1 stream met: node 3 ended; packets were dropped: 7 at switch, port to c")
        );
        let mut behind = experiment(10, lossy, 500);
        behind.sweep[0].faults.push("p2: it was behind".to_owned());
        let why = steps(&behind)[0].why.clone().unwrap_or_default();
        assert!(why.ends_with("% of what the link to the consumer carries; p2: it was behind"), "{why}");
    }
}
