//! Progress on standard error: a bar on a terminal, a line for each run elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use tickwire_show::sanitize_terminal::sanitized;
use tickwire_testbed::controller::{ExperimentPlan, Live, RunProgress};
use tickwire_testbed::outcome::{Carrier, Timing};
use tickwire_testbed::time::{self, Moment};

/// The bar.
pub(super) struct Progress {
    /// Printed when the first step begins, not before: a refused plan prints only its error.
    length: String,
    /// None if standard error is no terminal.
    bar: Option<ProgressBar>,
    /// The step that was shown last: a run, or, after the runs, a row of the clock's table.
    shown: Cell<usize>,
    /// How many of these rows there will be.
    rows: usize,
    /// How many runs.
    runs: Cell<usize>,
}

impl Progress {
    pub(super) fn new(plan: &ExperimentPlan, clock: Option<&time::ClockPlan>) -> Self {
        let streams = match plan.pattern.streams.len() {
            1 => "1 stream".to_owned(),
            number => format!("{number} streams"),
        };
        let sending = seconds(plan.length().as_secs_f64());
        let (rows, compared) = clock.map(time::ClockPlan::length).unwrap_or_default();
        let compared =
            if rows > 0 { format!(" and {} s for the clock", seconds(compared.as_secs_f64())) } else { String::new() };
        let length = format!(
            "{streams} of {}: {sending} s of sending{compared}, beside what it takes to begin and end",
            sanitized(&plan.pattern.name, usize::MAX)
        );
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:24}] {msg}");
            ProgressBar::new(1000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { length, bar, shown: Cell::new(0), rows, runs: Cell::new(0) }
    }

    pub(super) fn show(&self, step: RunProgress, live: &Live) {
        self.runs.set(step.of);
        self.step(step.number, &name(live), live.elapsed_s, live.duration_s, || said(live));
    }

    pub(super) fn show_clock(&self, moment: &Moment) {
        let Moment { row, name, passed_s, whole_s, .. } = moment;
        let said = || passed(*passed_s, *whole_s);
        self.step(self.runs.get() + row, &format!("clock, {name}"), *passed_s, *whole_s, said);
    }

    fn step(&self, number: usize, name: &str, passed_s: f64, whole_s: f64, said: impl Fn() -> String) {
        let of = self.runs.get() + self.rows;
        let before = self.shown.replace(number);
        if before == 0 {
            eprintln!("{}", self.length);
        }
        if let Some(bar) = &self.bar {
            bar.set_prefix(format!("{number}/{of} {name}"));
            bar.set_position((passed_s / whole_s * 1000.0).clamp(0.0, 1000.0) as u64);
            bar.set_message(said());
        } else if before != number {
            eprintln!("{number}/{of} {name}, {} s ...", seconds(whole_s));
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The name of a run.
pub(crate) fn name(live: &Live) -> String {
    let mut name = match live.carrier {
        Carrier::Kernel => "kernel",
        Carrier::Tickwire => "Tickwire",
    }
    .to_owned();
    name += match live.timing {
        Timing::Pattern => "",
        Timing::Synchronised => ", synchronised",
        Timing::Unscheduled => ", unscheduled",
        Timing::Scheduled => ", scheduled",
    };
    if live.rate != 1 {
        name += &format!(", {} times the rate", live.rate);
    }
    name
}

/// A length of time in seconds: a short one with a digit after the point, unless that is 0.
fn seconds(length: f64) -> String {
    let parts = if length < 10.0 { 10.0 } else { 1.0 };
    ((length * parts).round() / parts).to_string()
}

/// How much of a length of time is over, with as many digits as that has.
fn passed(passed: f64, whole: f64) -> String {
    let whole = seconds(whole);
    let digits = usize::from(whole.contains('.'));
    format!("{passed:.digits$} of {whole} s")
}

/// The results so far.
fn said(live: &Live) -> String {
    if live.elapsed_s < 0.0 {
        return "warming up".to_owned();
    }
    let received: u64 = live.streams.iter().map(|stream| stream.received).sum();
    let late: u64 = live.streams.iter().map(|stream| stream.late).sum();
    let worst = live.streams.iter().map(|stream| stream.worst_ever_ns).max().unwrap_or(0);
    format!(
        "{}, {received} messages, worst {:.2} ms, {late} late",
        passed(live.elapsed_s.min(live.duration_s), live.duration_s),
        worst as f64 / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_testbed::controller::LiveStream;

    #[test]
    fn a_run_is_named_and_its_worst_told() {
        let stream = |worst_ever_ns, late| LiveStream { received: 10, worst_ever_ns, late, ..LiveStream::default() };
        let live = Live {
            carrier: Carrier::Tickwire,
            timing: Timing::Scheduled,
            rate: 2,
            elapsed_s: 5.2,
            duration_s: 30.0,
            service: None,
            streams: vec![stream(1_500_000, 0), stream(900_000, 1)],
        };
        assert_eq!(name(&live), "Tickwire, scheduled, 2 times the rate");
        assert_eq!(said(&live), "5 of 30 s, 20 messages, worst 1.50 ms, 1 late");
        let short = Live { elapsed_s: 0.26, duration_s: 0.5, ..live.clone() };
        assert_eq!(said(&short), "0.3 of 0.5 s, 20 messages, worst 1.50 ms, 1 late");
        assert_eq!(said(&Live { elapsed_s: -0.1, ..live }), "warming up");
    }

    #[test]
    fn a_length_of_time_is_never_told_as_none() {
        let told = [0.1, 0.5, 2.96, 7.0, 9.99, 30.0, 33.3, 259_200.0].map(seconds);
        assert_eq!(told, ["0.1", "0.5", "3", "7", "10", "30", "33", "259200"]);
    }
}
