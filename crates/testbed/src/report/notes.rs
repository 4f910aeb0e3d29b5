//! Caveats of the figures.

use super::words::{counted, on, timing, total};
use crate::outcome::{Carrier, Experiment, Run, StreamFigures};

/// The caveats, one sentence each.
pub(super) fn notes(experiment: &Experiment) -> Vec<String> {
    let judged = experiment.judged();
    let all = experiment.runs.iter().chain(&experiment.timings).chain(&experiment.sweep);
    all.flat_map(|run| {
        // The verdict already includes these.
        let faults = if judged.is_some_and(|judged| std::ptr::eq(judged, run)) { &[][..] } else { &run.faults[..] };
        let faults = faults.iter().map(move |fault| format!("A run {} did not go as it should: {fault}.", name(run)));
        faults.chain(before_sent(run)).chain(on_the_lane(run))
    })
    .collect()
}

fn before_sent(run: &Run) -> Option<String> {
    let count = total(run, |stream: &StreamFigures| stream.before_sent);
    (count > 0).then(|| {
        format!(
            "In a run {} {count} of the messages seem to have come before they were sent: the clocks of two machines differ by more than a message takes, \
             so do not trust short latencies.",
            name(run)
        )
    })
}

fn on_the_lane(run: &Run) -> Option<String> {
    match (run.carrier, run.accelerated) {
        (Carrier::Tickwire, Some((lane, of))) if lane < of => Some(format!(
            "In a run {} only {lane} of the consumer's {} were on the fast path: the others were on the kernel (tickwire stat says why).",
            name(run),
            counted(of, "socket")
        )),
        _ => None,
    }
}

fn name(run: &Run) -> String {
    let rate = if run.rate == 1 { String::new() } else { format!(", at {} times the rate", run.rate) };
    format!("on {} ({}{rate})", on(run.carrier), timing(run.timing))
}
