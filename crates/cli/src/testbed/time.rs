//! `tickwire testbed time`.

use crate::args::testbed::TestbedTime;
use crate::study::{Study, command};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tickwire_show::usage::UsageError;
use tickwire_testbed::time::{CardComparison, ClockPlan, ComparisonSpan, LabComparison, Moment, Real, html, table};

/// The value of `--reference` for the lab instead of a card.
const LAB: &str = "lab";
/// The default intervals of the lab, short enough to wait for.
const INTERVALS: [f64; 3] = [1.0, 8.0, 30.0];
/// How many comparisons, and how many in virtual time, where the paper had 4 million.
const READS: u32 = 100_000;
const SIMULATED_READS: u32 = 4_000_000;

pub(super) fn run(arguments: &TestbedTime) -> Result<ExitCode> {
    let plan = plan(arguments)?;
    let study = Study::begin(arguments.html.as_deref(), arguments.json)?;
    let progress = Progress::new(&plan);
    let conducted = plan.conduct(&mut |moment| progress.show(moment));
    progress.end();
    let figures = conducted.map_err(super::usage)?;
    study.end(|| html(&figures), || &figures, || table(&figures))?;
    Ok(if figures.is_inside() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(arguments: &TestbedTime) -> Result<ClockPlan> {
    let TestbedTime { intervals, seconds, reads, reference, simulated, page, .. } = arguments;
    let span = ComparisonSpan { duration: Duration::from_secs_f64(*seconds), reads: reads.unwrap_or(READS).into() };
    let real = if reference != LAB {
        if intervals.is_some() {
            let why = "a clock beside a PTP hardware clock is this machine's, which is synchronised as its daemon does";
            return Err(UsageError::of("--intervals", why).into());
        }
        let page = page.clone().unwrap_or_else(tickclock::default_path);
        Some(Real::Card(CardComparison { name: reference.clone(), interval_s: interval(&page), page, span }))
    } else {
        if page.is_some() {
            return Err(UsageError::of(
                "--page",
                "only beside a PTP hardware clock (--reference): the lab keeps clocks of its own",
            )
            .into());
        }
        // `--virtual` alone needs no lab.
        let intervals = match (intervals, simulated) {
            (Some(intervals), _) => Some(intervals.0.clone()),
            (None, None) => Some(INTERVALS.to_vec()),
            (None, Some(_)) => None,
        };
        let tickwire = std::env::current_exe().context("cannot find the running program")?;
        intervals.map(|intervals| Real::Lab(LabComparison { tickwire, intervals, span, busy: 0 }))
    };
    Ok(ClockPlan {
        real,
        simulated: simulated.as_ref().map(|intervals| intervals.0.clone()).unwrap_or_default(),
        simulated_reads: reads.unwrap_or(SIMULATED_READS),
        command: command(),
    })
}

/// The polling interval of the server that this page's clock follows, if its daemon reports one.
fn interval(page: &Path) -> Option<f64> {
    let sources = tickwire_timekeeper::ask(page).ok()?.sources;
    sources.into_iter().find(|source| source.standing == "followed").map(|source| source.poll_s)
}

/// Progress on standard error: a bar on a terminal, a line for each row elsewhere.
struct Progress {
    /// Printed when the first row begins.
    length: String,
    bar: Option<ProgressBar>,
    /// The row that was shown last.
    shown: Cell<usize>,
}

impl Progress {
    fn new(plan: &ClockPlan) -> Self {
        let length = match plan.length() {
            (0, _) => String::new(),
            (1, length) => format!("about {} for 1 row of a real clock\n", waited(length)),
            (rows, length) => format!("about {} for {rows} rows of a real clock\n", waited(length)),
        };
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:24}] {msg}");
            ProgressBar::new(1000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { length, bar, shown: Cell::new(0) }
    }

    fn show(&self, moment: &Moment) {
        let Moment { row, rows, name, passed_s, whole_s } = moment;
        let before = self.shown.replace(*row);
        if before == 0 {
            eprint!("{}", self.length);
        }
        if let Some(bar) = &self.bar {
            bar.set_prefix(format!("{row}/{rows} {name}"));
            bar.set_position((passed_s / whole_s.max(1e-3) * 1000.0).clamp(0.0, 1000.0) as u64);
            bar.set_message(if *whole_s > 0.0 { format!("{passed_s:.0} of {whole_s:.0} s") } else { String::new() });
        } else if before != *row {
            eprintln!("{row}/{rows} {name} ...");
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A duration as text for the user.
fn waited(length: Duration) -> String {
    let seconds = length.as_secs_f64().ceil();
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", (seconds / 60.0).ceil()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::testbed::TestbedCommand;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    fn planned(more: &[&str]) -> Result<ClockPlan> {
        let line = [&["tickwire", "testbed", "time"], more].concat();
        let Command::Testbed(testbed) = Arguments::try_parse_from(line)?.command else { unreachable!() };
        let TestbedCommand::Time(arguments) = testbed.command else { unreachable!() };
        plan(&arguments)
    }

    fn intervals(plan: &ClockPlan) -> Option<Vec<f64>> {
        match &plan.real {
            Some(Real::Lab(lab)) => Some(lab.intervals.clone()),
            _ => None,
        }
    }

    #[test]
    fn virtual_rows_come_beside_the_others_or_alone() {
        let plain = planned(&[]).unwrap();
        assert_eq!((intervals(&plain), plain.simulated), (Some(vec![1.0, 8.0, 30.0]), vec![]));
        let alone = planned(&["--virtual"]).unwrap();
        assert_eq!((intervals(&alone), alone.simulated), (None, vec![30.0, 60.0, 120.0, 240.0, 480.0, 960.0]));
        assert_eq!(alone.simulated_reads, 4_000_000);
        let both = planned(&["--intervals", "1, 0.5", "--virtual=60", "--reads", "1000"]).unwrap();
        assert_eq!((intervals(&both), both.simulated), (Some(vec![1.0, 0.5]), vec![60.0]));
        assert_eq!(both.simulated_reads, 1000);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (line, why) in [
            (&["--reference", "eth7", "--intervals", "1"][..], "--intervals: a clock beside a PTP hardware clock"),
            (&["--page", "/x"], "--page: only beside a PTP hardware clock"),
            (&["--intervals", "1,,2"], "expected a number from 0.05 to 86400"),
            (&["--virtual=0"], "expected a number from 0.05 to 86400"),
            (&["--reads", "99"], "from 100 to 32000000"),
            (&["--seconds", "0"], "expected a number from 0.1"),
        ] {
            let error = planned(line).unwrap_err();
            assert!(error.to_string().contains(why), "{line:?}: {error}");
        }
    }

    #[test]
    fn the_user_is_told_how_long_it_takes() {
        assert_eq!(waited(Duration::from_secs_f64(16.2)), "17 s");
        assert_eq!(waited(Duration::from_secs(446)), "8 min");
    }
}
