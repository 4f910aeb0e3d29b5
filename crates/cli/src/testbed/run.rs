//! `tickwire testbed run`.

use super::progress::Progress;
use crate::args::testbed::{Ends, MessageTiming, SPIN_VARIABLE, Stacks, TestbedRun, inherited_spin};
use crate::study::{Study, command};
use anyhow::{Context, Result};
use std::process::ExitCode;
use std::time::Duration;
use tickwire_show::usage::UsageError;
use tickwire_testbed::controller::{ExperimentPlan, Ground, Inventory};
use tickwire_testbed::live::Publisher;
use tickwire_testbed::outcome::{Carrier, Experiment, Timing};
use tickwire_testbed::pattern::Pattern;
use tickwire_testbed::report;
use tickwire_testbed::schedule::CableLink;
use tickwire_testbed::time::{self, LabComparison};

/// The rates of a sweep.
const RATES: [u32; 6] = [1, 2, 5, 10, 20, 50];
/// The longest measurement of each rate; longer only if a stream would not have a single message in
/// this time.
const SWEEP: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: &TestbedRun) -> Result<ExitCode> {
    let clock = clock(arguments)?;
    let plan = plan(arguments)?;
    let study = Study::begin(arguments.html.as_deref(), arguments.json)?;
    let progress = Progress::new(&plan, clock.as_ref());
    let mut publisher = Publisher::new(&plan.pattern);
    let conducted = plan.conduct(&mut |step, live| {
        progress.show(step, live);
        publisher.show(step, live);
    });
    // The messages are reported even if the clock cannot be measured.
    let time = conducted.is_ok().then_some(clock).flatten().map(|clock| {
        let measured = clock.conduct(&mut |moment| {
            progress.show_clock(moment);
            publisher.show_clock(moment);
        });
        measured.map_err(|error| crate::sentence(&error.into()))
    });
    drop(publisher);
    progress.end();
    let experiment = Experiment { time, ..conducted.map_err(super::usage)? };
    study.end(|| report::html(&experiment), || report::json(&experiment, false), || report::table(&experiment))?;
    if !experiment.is_whole() {
        eprintln!("tickwire: not all runs that were to be made could be: the report says why");
    }
    let met = report::verdict(&experiment).met && experiment.is_whole();
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The clock's part, if it is wanted.
fn clock(arguments: &TestbedRun) -> Result<Option<time::ClockPlan>> {
    let Some(seconds) = arguments.time else { return Ok(None) };
    if arguments.nodes.is_some() {
        let why = "only in the lab, where true time is known: on a machine whose network card has a PTP hardware clock, `tickwire testbed time --reference` compares with that";
        return Err(UsageError::of("--time", why).into());
    }
    let tickwire = std::env::current_exe().context("cannot find the running program")?;
    let whole = Duration::from_secs_f64(seconds);
    let Some(lab) = LabComparison::within(whole, tickwire, usize::try_from(arguments.busy)?) else {
        return Err(UsageError::of("--time", format!("expected {} s at least", LabComparison::LEAST.as_secs())).into());
    };
    let (real, command) = (Some(time::Real::Lab(lab)), command());
    Ok(Some(time::ClockPlan { real, simulated: Vec::new(), simulated_reads: 0, command }))
}

fn plan(arguments: &TestbedRun) -> Result<ExperimentPlan> {
    // With all causes: some errors have the system's reason as a separate one.
    let refused = |error: anyhow::Error| UsageError::new(format!("{error:#}"));
    let pattern = match &arguments.pattern {
        Some(path) => Pattern::read(path).map_err(|error| refused(error.into()))?,
        None => Pattern::of_2015(),
    };
    let ground = match &arguments.nodes {
        Some(path) => {
            let site = Inventory::read(path, &pattern).map_err(|error| refused(error.into()))?;
            Ground::Inventory { site, page: arguments.page.clone() }
        }
        None => {
            let tickwire = std::env::current_exe().context("cannot find the running program")?;
            Ground::Lab { tickwire, busy: usize::try_from(arguments.busy)? }
        }
    };
    if usize::from(arguments.port) + pattern.streams.len() > usize::from(u16::MAX) {
        return Err(UsageError::of("--port", "there are not enough ports above it for all streams").into());
    }
    let scheduled = arguments.timings || arguments.timing == MessageTiming::Scheduled;
    if arguments.guard.is_some() && !scheduled {
        return Err(
            UsageError::of("--guard", "only scheduled sending has slots: --timing scheduled, or --timings").into()
        );
    }
    if arguments.spin.is_some() && arguments.stacks == Stacks::Kernel {
        return Err(UsageError::of("--spin", "nothing is accelerated: expected --on both or tickwire").into());
    }
    if arguments.spin.is_none() && arguments.nodes.is_none() && arguments.stacks != Stacks::Kernel {
        inherited_spin().map_err(|what| UsageError::of(SPIN_VARIABLE, what))?;
    }
    let duration = Duration::from_secs_f64(arguments.duration);
    let longest = pattern.streams.iter().map(|stream| stream.period).max().unwrap_or_default();
    Ok(ExperimentPlan {
        pattern,
        ground,
        carriers: match arguments.stacks {
            Stacks::Both => vec![Carrier::Kernel, Carrier::Tickwire],
            Stacks::Kernel => vec![Carrier::Kernel],
            Stacks::Tickwire => vec![Carrier::Tickwire],
        },
        consumer: arguments.accelerate != Ends::Producers,
        producers: arguments.accelerate != Ends::Consumer,
        spin: arguments.spin.clone(),
        timing: match arguments.timing {
            MessageTiming::Pattern => Timing::Pattern,
            MessageTiming::Synchronised => Timing::Synchronised,
            MessageTiming::Unscheduled => Timing::Unscheduled,
            MessageTiming::Scheduled => Timing::Scheduled,
        },
        timings: arguments.timings,
        sweep: if arguments.sweep { RATES.to_vec() } else { Vec::new() },
        rate: arguments.rate,
        link: CableLink { rate_bps: arguments.link * 1_000_000, mtu: 1500 },
        guard: arguments.guard.map(|us| Duration::from_secs_f64(us / 1e6)),
        seed: arguments.seed,
        warm_up: Duration::from_secs_f64(arguments.warm_up),
        duration,
        sweep_duration: duration.min(SWEEP.max(longest)),
        first_port: arguments.port,
        command: command(),
    })
}
