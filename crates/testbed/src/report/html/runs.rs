//! Whole runs: stacks, timings, the sweep.

use crate::outcome::{Experiment, Run, Timing};
use crate::report::queueing::queueing;
use crate::report::sweep::steps;
use crate::report::words::{carrier, drops, megabits, ms, on, percent, seconds, share, timing, total};
use tickwire_report::{Axis, Figure, Plot, ReportPage, Series, Size, Tone, profile};

type Cell = (String, Tone);

/// The compared stacks, with the consumer's processor time and the proof of the path that the
/// messages took.
pub(super) fn stacks(page: &mut ReportPage, experiment: &Experiment) {
    if experiment.runs.is_empty() {
        return;
    }
    page.section("Stacks and processor time");
    let head = [
        "carried by",
        "seconds",
        "messages",
        "streams met",
        "lost",
        "late",
        "user s",
        "system s",
        "of one processor",
        "sockets on fast path",
        "packets diverted",
        "packets dropped",
    ];
    let row = |run: &Run| {
        let (messages, lost, late) = (total(run, |s| s.sent), total(run, |s| s.lost), total(run, |s| s.late));
        let unknown = || "-".to_owned();
        vec![
            plain(carrier(run.carrier)),
            plain(seconds(run.duration_ns)),
            plain(messages),
            met(run.met(), run.is_met()),
            wrong(lost),
            wrong(late),
            plain(format!("{:.3}", run.consumer.user_ns as f64 / 1e9)),
            plain(format!("{:.3}", run.consumer.system_ns as f64 / 1e9)),
            plain(share(&run.consumer).map_or_else(unknown, percent)),
            plain(run.accelerated.map_or_else(unknown, |(lane, of)| format!("{lane} of {of}"))),
            plain(run.diverted.map_or_else(unknown, |count| count.to_string())),
            plain(run.drops.iter().map(|(_, count)| count).sum::<u64>()),
        ]
    };
    page.table(&head, experiment.runs.iter().map(row));
    page.paragraph(
        "User, system and of one processor: the consumer's processor time, in its program and in the kernel for it. Packets diverted: what Tickwire's service took \
         from the network for the consumer; it proves that the messages took the fast path.",
    );
    let dropped = |run: &Run| Some(format!("Packets were dropped on {}: {}.", on(run.carrier), drops(run)?));
    page.list(experiment.runs.iter().filter_map(dropped));
}

/// Unscheduled, synchronised and scheduled sending.
pub(super) fn timings(page: &mut ReportPage, experiment: &Experiment) {
    if experiment.timings.is_empty() {
        return;
    }
    page.section("When messages are sent: what they wait for each other");
    page.paragraph(
        "If all send at once, messages wait in the switch for those before them; if each has a slot of its own, none waits. The queueing delay of a message is what it took \
         above the fastest message of its stream in all of these runs.",
    );
    let all = queueing(&experiment.timings);
    let series =
        all.iter().map(|one| Series { name: timing(one.timing).to_owned(), points: profile(&one.delays.pairs(), 1e6) });
    // Delays below a microsecond count as none.
    let longest = all.iter().map(|one| one.delays.summary().max_ns).max().unwrap_or(0).max(10_000);
    let x = Axis::logarithmic("queueing delay, ms").within((1e-3, longest as f64 / 1e6 * 1.3));
    let series = series.map(|one| Series { points: from(1e-3, &one.points), ..one }).collect();
    let plot = Plot { x, y: Axis::logarithmic("part of messages"), series };
    page.legend(&plot.legend());
    page.figures(Size::Half, [(plot, "all streams: which part of the messages waited at least so long".to_owned())]);
    let head = [
        "timing",
        "carried by",
        "messages",
        "p50 ms",
        "p99 ms",
        "worst ms",
        "p99 below synchronised",
        "streams met",
        "lost",
        "late",
    ];
    let rows = all.iter().zip(&experiment.timings).map(|(one, run)| {
        let times = one.delays.summary();
        let below = match one.below_synchronised.filter(|_| one.timing != Timing::Synchronised) {
            Some(ratio) => format!("{ratio:.1} times"),
            None => "-".to_owned(),
        };
        vec![
            plain(timing(one.timing)),
            plain(carrier(run.carrier)),
            plain(times.count),
            plain(ms(times.p50_ns)),
            plain(ms(times.p99_ns)),
            plain(ms(times.max_ns)),
            plain(below),
            met(run.met(), run.is_met()),
            wrong(total(run, |s| s.lost)),
            wrong(total(run, |s| s.late)),
        ]
    });
    page.table(&head, rows);
}

/// A profile from this value on: lower points merge into one point at it.
fn from(least: f64, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let below = points.iter().take_while(|(value, _)| *value < least).count();
    let first = (below > 0).then(|| (least, points.get(below).map_or(points[below - 1].1, |next| next.1)));
    first.into_iter().chain(points[below..].iter().copied()).collect()
}

/// Increasing multiples of the pattern's rate.
pub(super) fn sweep(page: &mut ReportPage, experiment: &Experiment) {
    let steps = steps(experiment);
    if steps.is_empty() {
        return;
    }
    page.section("More messages: where it breaks");
    let broken = steps.iter().find(|step| !step.met);
    page.paragraph(&match broken {
        None => format!(
            "It did not break: all streams were met up to {} times the pattern's rate.",
            steps.iter().map(|step| step.rate).max().unwrap_or(0)
        ),
        Some(step) => format!(
            "It breaks at {} times the pattern's rate ({} Mbit/s of messages). {}.",
            step.rate,
            megabits(step.offered_bps),
            step.why.as_deref().unwrap_or_default()
        ),
    });
    let head = [
        "times the rate",
        "messages, Mbit/s",
        "of the link",
        "sent",
        "streams met",
        "lost",
        "late",
        "consumer, of one processor",
    ];
    let unknown = || "-".to_owned();
    let rows = steps.iter().map(|step| {
        vec![
            plain(step.rate),
            plain(megabits(step.offered_bps)),
            plain(step.link_share.map_or_else(unknown, percent)),
            plain(step.sent),
            met(step.streams_met, step.met),
            wrong(step.lost),
            wrong(step.late),
            plain(step.consumer_cpu_share.map_or_else(unknown, percent)),
        ]
    });
    page.table(&head, rows);
    page.list(steps.iter().filter_map(|step| Some(format!("At {} times: {}.", step.rate, step.why.as_deref()?))));
}

fn plain(text: impl ToString) -> Cell {
    (text.to_string(), Tone::Plain)
}

fn wrong(count: u64) -> Cell {
    (count.to_string(), if count > 0 { Tone::Bad } else { Tone::Plain })
}

fn met(streams: usize, all: bool) -> Cell {
    (streams.to_string(), if all { Tone::Good } else { Tone::Bad })
}
