//! `cargo xtask bench clock`: the error of clocks against a reference time that is a known function
//! of the counter.
//!
//! Scenarios that take hours or months, or need a known oscillator, run in virtual time
//! (`crates/sim`, `scenario`).
//!
//! One clock runs at a time, against the same server and the same traffic. A daemon that steers the
//! kernel's clock moves it by about a millisecond; afterwards the clock is set to what it would be
//! without that.

mod html;
mod keeper;
mod promise;
mod reading;
mod report;
mod scenario;
mod topology;

use super::harness::report::write;
use super::harness::selection;
use crate::progress::Progress;
use crate::{deps, prepare, workspace};
use anyhow::{Context, Result, bail};
use keeper::Keeper;
use reading::Costs;
use report::Outcome;
use scenario::{SCENARIOS, Scenario};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tickwire_bench::error::Virtual;
use topology::Run;

/// What, how long, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the scenarios whose name contains this
    #[arg(long)]
    only: Option<String>,

    /// The clocks to measure; rivals steer the kernel's clock for as long as they are measured
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tickwire")]
    clocks: Vec<Keeper>,

    /// Seconds of each scenario, instead of its own (60 to 750)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// Reads of the clock per second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    rate: u32,

    /// The server tells when answers leave in interleaved mode; otherwise a BPF program at its
    /// device completes them, which makes both directions alike
    #[arg(long)]
    interleaved: bool,

    /// Which course chance takes in virtual time
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Only what runs in virtual time: months in seconds, and no root needed
    #[arg(long = "virtual")]
    virtually: bool,

    /// Write all figures here, with a point for every second, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a report for a browser here, with plots of the errors
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Measures; fails if something could not be measured, but not if a clock is wrong.
pub(crate) fn run(options: &Options) -> Result<()> {
    if prepare::is_done() {
        return measure(options);
    }
    // Checked before the build, which takes minutes.
    for path in [&options.json, &options.html] {
        selection::will_be_written(path.as_deref())?;
    }
    if options.virtually {
        let directory = workspace::build_release_of(&["tickwire-clock-reference"])?;
        return tell(options, in_virtual_time(options, &directory.join("truth"))?, None);
    }
    workspace::ask_for_root()?;
    deps::install(&deps::CLOCKS)?;
    for keeper in &options.clocks {
        keeper.install()?;
    }
    let build = workspace::build_release_of(&["tickwire-clock-reference", "tickwire-bench"])?;
    workspace::again_as_root(&build)
}

fn measure(options: &Options) -> Result<()> {
    let chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|scenario| {
            options.only.as_ref().is_none_or(|only| scenario.usual().iter().any(|part| part.name.contains(&**only)))
        })
        .collect();
    let read = options.only.as_ref().is_none_or(|only| reading::NAME.contains(&**only));
    let mut progress = Progress::new();
    let costs = read
        .then(|| {
            progress.begin("what reading a clock costs".to_owned());
            let costs = reading::measure(&options.clocks);
            progress.keep(if costs.is_ok() { "done" } else { "failed" });
            costs
        })
        .transpose()?;
    let runs = runs(options, &chosen);
    if !runs.is_empty() {
        progress.say(&length(&runs));
    }
    let mut outcomes = Vec::new();
    for (scenario, run) in &runs {
        let &Run { keeper, seconds, .. } = run;
        let parts = (scenario.parts)(seconds);
        let names = parts.iter().map(|part| part.name).collect::<Vec<_>>().join("; ");
        progress.begin(format!("{names} ({}, {seconds} s)", keeper.name()));
        let measured = topology::measure(scenario, run).map_err(|error| format!("{error:#}"));
        progress.keep(&measured.as_ref().map_or_else(String::clone, |parts| report::brief(parts)));
        let ends = parts.iter().skip(1).map(|next| next.from).chain([seconds]);
        for (index, (part, end)) in parts.iter().zip(ends).enumerate() {
            let measured = measured.as_ref().map(|figures| figures[index].clone()).map_err(Clone::clone);
            let kept = measured.as_ref().ok().filter(|_| keeper == Keeper::Tickwire);
            outcomes.push(Outcome {
                scenario: part.name.into(),
                clock: keeper.name().into(),
                promise: part.promise.text(),
                kept: kept.map(|figures| part.promise.kept(figures)),
                seconds: end.into(),
                measured,
            });
        }
    }
    progress.clear();
    outcomes.extend(in_virtual_time(options, &tickwire_lab::tools::built("truth")?)?);
    tell(options, outcomes, costs.as_ref())
}

/// Every scenario with every clock.
fn runs<'a>(options: &Options, scenarios: &[&'a Scenario]) -> Vec<(&'a Scenario, Run)> {
    let of = |scenario: &'a Scenario| {
        let (usual, least) = scenario.seconds;
        let seconds = options.seconds.map_or(usual, |seconds| seconds.max(least));
        let run = move |&keeper| Run { keeper, seconds, rate: options.rate, interleaved: options.interleaved };
        options.clocks.iter().map(move |keeper| (scenario, run(keeper)))
    };
    scenarios.iter().flat_map(|&scenario| of(scenario)).collect()
}

/// How long they take, for the user.
fn length(runs: &[(&Scenario, Run)]) -> String {
    /// Time to start and end hosts and programs, in s.
    const AROUND: u32 = 6;
    let seconds: u32 = runs.iter().map(|(_, run)| run.seconds + AROUND).sum();
    format!("{} runs of real clocks take about {} min", runs.len(), seconds.div_ceil(60))
}

/// Runs the scenarios in virtual time.
fn in_virtual_time(options: &Options, truth: &Path) -> Result<Vec<Outcome>> {
    let only = options.only.as_deref().unwrap_or_default();
    let done = Command::new(truth)
        .args(["virtual", "--only", only, "--seed", &options.seed.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", truth.display()))?;
    if !done.status.success() {
        bail!("the scenarios in virtual time failed ({})", done.status);
    }
    let line = |line: &str| serde_json::from_str::<Virtual>(line).map(Outcome::from).context("figures in virtual time");
    String::from_utf8(done.stdout)?.lines().map(line).collect()
}

/// Prints the results and writes the files.
fn tell(options: &Options, outcomes: Vec<Outcome>, costs: Option<&Costs>) -> Result<()> {
    if outcomes.is_empty() && costs.is_none() {
        let names: Vec<_> =
            SCENARIOS.iter().flat_map(Scenario::usual).map(|part| part.name).chain([reading::NAME]).collect();
        bail!("no scenario's name contains that; there are: {}, and those in virtual time", names.join("; "));
    }
    let machine = tickwire_report::machine();
    println!("{machine}");
    if !outcomes.is_empty() {
        println!("{}", report::table(&outcomes));
        report::ratios(&outcomes).iter().for_each(|line| println!("{line}"));
    }
    if let Some(costs) = costs {
        println!("{}", reading::table(costs));
    }
    if let Some(path) = &options.json {
        write(path, &report::json(&machine, &outcomes, costs)?)?;
    }
    if let Some(path) = &options.html {
        write(path, &html::page(&machine, &outcomes, costs))?;
    }
    if outcomes.iter().any(|outcome| outcome.measured.is_err()) {
        bail!("not everything could be measured");
    }
    Ok(())
}
