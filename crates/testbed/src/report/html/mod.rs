//! The report as one page, a summary.
//!
//! | module | purpose |
//! |---|---|
//! | `streams` | each stream: worst latency against its deadline, percentiles, profile |
//! | `runs` | whole runs: stacks, timings, the sweep |

mod runs;
mod streams;

use super::comparison::{Comparison, compare, of};
use super::notes::notes;
use super::verdict::verdict;
use super::words::{counted, ms, seconds, timing};
use crate::outcome::{Carrier, Experiment};
use crate::time;
use tickwire_report::{ReportPage, Tone};

/// Explanations of the page's terms and figures.
const READING: [&str; 5] = [
    "Latency: from the producer's program calling send to the consumer's program having the whole message. Everything between is in it: both stacks, both \
     machines, the switch.",
    "A stream is met if each of its messages came once, whole, in order, and within its deadline. One message that was lost or late is enough to fail.",
    "p50, p99, p99.9: of 1000 messages, 500, 990 and 999 took at most this long. For control and test the worst message counts, not the median.",
    "A latency profile shows for each latency which part of the messages took at least that long, down to the one that took longest. Further left and lower is \
     better; a line that goes down steeply stands for little jitter.",
    "Scales of latency are logarithmic: from one grid line to the next it is ten times as long.",
];

/// The experiment as one self-contained HTML file.
#[must_use]
pub fn html(experiment: &Experiment) -> String {
    let mut page = ReportPage::new(&format!("Testbed report: pattern {}", experiment.pattern.name));
    let verdict = verdict(experiment);
    page.verdict(if verdict.met { Tone::Good } else { Tone::Bad }, &verdict.sentence);
    if let Some(comparison) = compare(experiment) {
        page.paragraph(&beside(experiment, &comparison));
    }
    page.list(notes(experiment));
    streams::against_deadlines(&mut page, experiment);
    streams::percentiles(&mut page, experiment);
    streams::profiles(&mut page, experiment);
    if let Some(Ok(figures)) = &experiment.time {
        time::section(figures, &mut page);
    }
    runs::timings(&mut page, experiment);
    runs::sweep(&mut page, experiment);
    runs::stacks(&mut page, experiment);
    page.section("Where and with what");
    page.definitions(setting(experiment));
    page.section("To repeat it");
    page.command(&experiment.command);
    page.section("How to read it");
    page.list(READING);
    streams::counts(&mut page, experiment);
    page.finish()
}

/// Tickwire compared with the kernel, in words.
fn beside(experiment: &Experiment, comparison: &Comparison) -> String {
    let met = of(experiment, Carrier::Kernel).map_or(0, |run| run.met());
    let mut text = format!("On the kernel {met} of {} streams met their deadlines.", experiment.pattern.streams.len());
    text += &format!(
        " Tickwire's slowest message was faster than the kernel's slowest in {} of {}.",
        comparison.tickwire_worst_lower,
        counted(comparison.streams as u64, "stream")
    );
    if let (Some(ours), Some(theirs)) = (comparison.small_tickwire_p999_ns, comparison.small_kernel_p999_ns) {
        text += &format!(
            " Of small messages (up to 1 KiB) 999 of 1000 took at most {} ms on Tickwire and {} ms on the kernel, in the worst of their streams.",
            ms(ours),
            ms(theirs)
        );
    }
    if let Some(ratio) = comparison.consumer_cpu_ratio {
        text += &format!(" The consumer took {ratio:.2} times the processor time that it took on the kernel.");
    }
    text
}

fn setting(experiment: &Experiment) -> Vec<(&'static str, Vec<String>)> {
    let pattern = &experiment.pattern;
    let sent = format!(
        "{}: {} from {}",
        pattern.name,
        counted(pattern.streams.len() as u64, "stream"),
        counted(pattern.producers().len() as u64, "producer")
    );
    let measured = experiment.judged().map(|run| {
        let rate = if run.rate == 1 { String::new() } else { format!(", at {} times the pattern's rate", run.rate) };
        format!("{} s after the warm-up; messages were sent {}{rate}", seconds(run.duration_ns), timing(run.timing))
    });
    vec![
        ("pattern", vec![sent]),
        ("measured", measured.into_iter().collect()),
        ("machines", experiment.machines.clone()),
        ("links", experiment.link_bps.map(|bps| format!("{} Mbit/s", bps as f64 / 1e6)).into_iter().collect()),
        ("timed by", vec![experiment.clock.clone()]),
        ("program", vec![format!("Tickwire {}", env!("CARGO_PKG_VERSION"))]),
    ]
}
