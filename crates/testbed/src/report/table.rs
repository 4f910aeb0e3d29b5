//! The report for a terminal of 80 columns.

use super::comparison::{CARRIERS, compare, of};
use super::notes::notes;
use super::queueing::queueing;
use super::sweep::steps;
use super::verdict::verdict;
use super::words::{carrier, megabits, on, percent, plain_ms, seconds, share, short_ms, timing, total};
use crate::outcome::{Carrier, Experiment, Run, StreamFigures};
use crate::time::{TimeFigures, cells};
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;
use tickwire_show::sanitize_terminal::sanitized;

const WIDTH: usize = 80;

/// The experiment as text: the verdict, a line for each stream, then clock, timings and sweep if
/// there are any.
#[must_use]
pub fn table(experiment: &Experiment) -> String {
    let mut text = String::new();
    let verdict = verdict(experiment);
    let outcome = if verdict.met { "MET" } else { "NOT MET" };
    paragraph(&mut text, &format!("{outcome}: {}", verdict.sentence));
    if let Some(comparison) = compare(experiment) {
        let mut beside = format!(
            "Tickwire's slowest message was faster than the kernel's slowest in {} of {} streams.",
            comparison.tickwire_worst_lower, comparison.streams
        );
        if let Some(ratio) = comparison.consumer_cpu_ratio {
            beside += &format!(" Its consumer took {ratio:.2} times the processor time.");
        }
        paragraph(&mut text, &beside);
    }
    if !experiment.runs.is_empty() {
        let _ = writeln!(text, "\n{}", streams(experiment).trim_fmt());
        paragraph(&mut text, "Times are in ms. Lost and late are those of the last carrier shown.");
        for run in &experiment.runs {
            let used = share(&run.consumer).map_or_else(|| "unknown".to_owned(), percent);
            let line = format!(
                "On {}, {} s: {} streams met; consumer {used} of a processor",
                on(run.carrier),
                seconds(run.duration_ns),
                run.met()
            );
            let lane = run.accelerated.map(|(lane, of)| format!("; {lane} of {of} sockets on the fast path"));
            let waited = waiting(run).map(|waiting| format!("; {waiting}"));
            let parts = [lane, waited, ready(run)].into_iter().flatten();
            paragraph(&mut text, &format!("{line}{}.", parts.collect::<String>()));
        }
    }
    for note in notes(experiment) {
        paragraph(&mut text, &note);
    }
    if let Some(Ok(figures)) = &experiment.time {
        let _ = writeln!(
            text,
            "\nThe clock: reference - clock, us; and whether truth was within its own bound:\n{}",
            clock(figures).trim_fmt()
        );
    }
    if !experiment.timings.is_empty() {
        let _ = writeln!(text, "\nQueueing delay by timing, ms:\n{}", timings(experiment).trim_fmt());
    }
    if !experiment.sweep.is_empty() {
        let _ = writeln!(text, "\nSweep:\n{}", sweep(experiment).trim_fmt());
        for step in steps(experiment) {
            if let Some(why) = step.why {
                paragraph(&mut text, &format!("At {} times: {why}.", step.rate));
            }
        }
    }
    text
}

/// The share of the slowest messages' latency that was spent in the consumer's host, in words.
fn waiting(run: &Run) -> Option<String> {
    let mut shares: Vec<f64> = run.streams.iter().filter_map(StreamFigures::slowest_share).collect();
    shares.sort_by(f64::total_cmp);
    let (median, all) = (shares.get(shares.len() / 2)?, shares.len());
    let most = shares.iter().filter(|&&share| share > 0.5).count();
    Some(format!(
        "of the time of the streams' slowest messages {} was waiting in the consumer's host (median; more than half \
         in {most} of {all})",
        percent(*median)
    ))
}

/// How long the consumer was runnable without a processor: messages that arrive meanwhile wait.
fn ready(run: &Run) -> Option<String> {
    let time = run.consumer.ready_ns?;
    Some(format!("; it was ready to run and had no processor for {:.1} ms", time as f64 / 1e6))
}

fn streams(experiment: &Experiment) -> Table {
    let carriers: Vec<Carrier> = CARRIERS.into_iter().filter(|&which| of(experiment, which).is_some()).collect();
    let mut head = ["id", "transport", "bytes", "period", "limit"].map(str::to_owned).to_vec();
    for &which in &carriers {
        head.extend([format!("{}\np99.9", carrier(which)), "\nworst".to_owned()]);
    }
    head.extend(["lost", "late"].map(str::to_owned));
    let mut table = new(&head, 2);
    for (index, stream) in experiment.pattern.streams.iter().enumerate() {
        let figures = |which| of(experiment, which).and_then(|run| run.streams.get(index));
        let mut row = vec![
            stream.id.to_string(),
            stream.transport.to_string(),
            stream.size.to_string(),
            plain_ms(stream.period),
            plain_ms(stream.deadline),
        ];
        for &which in &carriers {
            let times = figures(which).map(|figures| figures.latency).filter(|times| times.count > 0);
            let shown = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), short_ms);
            row.extend([shown(times.map(|times| times.p999_ns)), shown(times.map(|times| times.max_ns))]);
        }
        let last = carriers.last().and_then(|&which| figures(which));
        let count = |count: fn(&StreamFigures) -> u64| {
            last.map_or_else(|| "-".to_owned(), |figures| count(figures).to_string())
        };
        row.extend([count(|figures| figures.lost), count(|figures| figures.late)]);
        table.add_row(row);
    }
    table
}

/// Without the median, for lack of room.
fn clock(figures: &TimeFigures) -> Table {
    let mut table = new(&["sync interval", "count", "min", "max", "mean", "p99", "bound", "within"], 1);
    for row in &figures.rows {
        let [name, count, min, max, mean, _, p99, bound, within] = cells(row);
        table.add_row([name, count, min, max, mean, p99, bound, within]);
    }
    table
}

fn timings(experiment: &Experiment) -> Table {
    let mut table = new(&["timing", "p50", "p99", "worst", "below\nsynchronised", "met", "lost", "late"], 1);
    for (one, run) in queueing(&experiment.timings).iter().zip(&experiment.timings) {
        let times = one.delays.summary();
        table.add_row([
            timing(one.timing).to_owned(),
            short_ms(times.p50_ns),
            short_ms(times.p99_ns),
            short_ms(times.max_ns),
            one.below_synchronised.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1} x")),
            run.met().to_string(),
            total(run, |stream| stream.lost).to_string(),
            total(run, |stream| stream.late).to_string(),
        ]);
    }
    table
}

fn sweep(experiment: &Experiment) -> Table {
    let mut table = new(&["rate", "Mbit/s", "of link", "met", "sent", "lost", "late", "consumer"], 0);
    let share = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), percent);
    for step in steps(experiment) {
        table.add_row([
            format!("{} x", step.rate),
            megabits(step.offered_bps),
            share(step.link_share),
            step.streams_met.to_string(),
            step.sent.to_string(),
            step.lost.to_string(),
            step.late.to_string(),
            share(step.consumer_cpu_share),
        ]);
    }
    table
}

/// A table without frames; all but the first `names` columns are figures.
fn new<T: AsRef<str>>(head: &[T], names: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head.iter().map(AsRef::as_ref));
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Adds a paragraph, wrapped at words.
fn paragraph(text: &mut String, sentence: &str) {
    let mut column = 0;
    // Host names and nodes' texts are untrusted: sanitizes them for the terminal.
    for word in sentence.split_whitespace().map(|word| sanitized(word, usize::MAX)) {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(&word);
        column += length;
    }
    text.push('\n');
}
