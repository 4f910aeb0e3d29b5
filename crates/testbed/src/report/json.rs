//! The report for programs: one JSON object. All times are in nanoseconds, except periods and
//! deadlines, which a pattern gives in milliseconds.
//!
//! | field | meaning |
//! |---|---|
//! | `version` | [`VERSION`] |
//! | `verdict` | `met`, `streams_met` of `streams`, `clock`, and all that as a `sentence` |
//! | `pattern`, `command` | the traffic, and the command that repeats it |
//! | `machines`, `clock`, `link_bps` | where and with what it was measured |
//! | `comparison` | Tickwire and the kernel ([`super::Comparison`]); null without both |
//! | `streams` | each stream of the pattern: whether it was `met`, and its figures |
//! | `runs` | each stack's run: processor time, sockets on the lane, packets lost, faults |
//! | `timings` | the same of each timing, with its `queueing` delay |
//! | `sweep` | [`super::SweepStep`] |
//! | `time` | accuracy of the clock ([`crate::time::TimeFigures`]); null if not measured |
//!
//! * `clock` in the verdict: whether the clock stayed within its own bound, or null if that was not
//!   requested.
//! * A stream has its description, also if nothing was measured. Its figures are those of the run
//!   that determines the verdict; `kernel` and `tickwire` are the same of each stack, or null.
//! * A timing's queueing delay says how many times it is `below_synchronised` at the 99th
//!   percentile.
//! * A run counts packets that were diverted and those that were dropped.

use super::comparison::{compare, of};
use super::queueing::queueing;
use super::sweep::steps;
use super::verdict::verdict;
use super::words::{share, total};
use crate::outcome::{Carrier, Experiment, Run, StreamDescription, StreamFigures};
use crate::pattern::Stream;
use serde::Serialize;
use serde_json::{Value, json};

/// The version of this format. It changes if a field is removed or changes its meaning; new fields
/// do not change it.
pub const VERSION: u32 = 1;

/// One stream: its description, its results in the run that determines the verdict, and on each
/// stack.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    description: StreamDescription,
    #[serde(flatten)]
    judged: Figures,
    kernel: Option<Figures>,
    tickwire: Option<Figures>,
}

#[derive(Serialize)]
struct Figures {
    met: bool,
    #[serde(flatten)]
    figures: StreamFigures,
}

/// The experiment as one object. `histograms` adds each stream's histogram on each stack, as pairs
/// of a time and the number of messages at about that time.
#[must_use]
pub fn json(experiment: &Experiment, histograms: bool) -> Value {
    let streams: Vec<Entry> =
        experiment.pattern.streams.iter().enumerate().map(|each| entry(experiment, each, histograms)).collect();
    json!({
        "version": VERSION,
        "verdict": verdict(experiment),
        "pattern": experiment.pattern.name,
        "command": experiment.command,
        "machines": experiment.machines,
        "clock": experiment.clock,
        "link_bps": experiment.link_bps,
        "comparison": compare(experiment),
        "streams": streams,
        "runs": experiment.runs.iter().map(run).collect::<Vec<_>>(),
        "timings": timings(experiment),
        "sweep": steps(experiment),
        "time": experiment.time.as_ref().and_then(|time| time.as_ref().ok()),
    })
}

fn entry(experiment: &Experiment, (index, stream): (usize, &Stream), histograms: bool) -> Entry {
    let figures = |run: Option<&Run>, histogram: bool| {
        let figures = run?.streams.get(index)?;
        Some(Figures {
            met: figures.is_met(),
            figures: if histogram { figures.clone() } else { figures.without_histogram() },
        })
    };
    Entry {
        description: stream.into(),
        judged: figures(experiment.judged(), false)
            .unwrap_or_else(|| Figures { met: false, figures: StreamFigures::default() }),
        kernel: figures(of(experiment, Carrier::Kernel), histograms),
        tickwire: figures(of(experiment, Carrier::Tickwire), histograms),
    }
}

fn run(run: &Run) -> Value {
    json!({
        "carrier": run.carrier,
        "timing": run.timing,
        "rate": run.rate,
        "duration_ns": run.duration_ns,
        "met": run.is_met(),
        "streams_met": run.met(),
        "sent": total(run, |stream| stream.sent),
        "lost": total(run, |stream| stream.lost),
        "late": total(run, |stream| stream.late),
        "consumer": run.consumer,
        "consumer_cpu_share": share(&run.consumer),
        "diverted": run.diverted,
        "accelerated": run.accelerated.map(|(lane, of)| json!({ "sockets": lane, "of": of })),
        "drops": run.drops.iter().map(|(place, count)| json!({ "place": place, "packets": count })).collect::<Vec<_>>(),
        "faults": run.faults,
    })
}

fn timings(experiment: &Experiment) -> Vec<Value> {
    let one = |(queueing, measured): (super::Queueing, &Run)| {
        let mut object = run(measured);
        object["queueing"] = json!(queueing.delays.summary());
        object["below_synchronised"] = json!(queueing.below_synchronised);
        object
    };
    queueing(&experiment.timings).into_iter().zip(&experiment.timings).map(one).collect()
}
