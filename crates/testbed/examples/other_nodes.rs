//! The pattern of 2015 on both stacks in the lab, with nodes that other programs start
//! (`controller::starter`): for consumers of another operating system. It needs root.
//!
//!     other_nodes --node PROGRAM [OPTION]... -- STARTER [ARGUMENT]...
//!
//! Producers run PROGRAM on the kernel's sockets. The starter starts the consumer's node, and those
//! of the producers that `--started` names.

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tickwire_testbed::TestbedError;
use tickwire_testbed::controller::{ExperimentPlan, Ground, LabNodes};
use tickwire_testbed::outcome::{Carrier, Experiment, Timing};
use tickwire_testbed::pattern::Pattern;
use tickwire_testbed::report;
use tickwire_testbed::schedule::CableLink;

/// The first port of the consumer, as of `tickwire testbed run`.
const PORT: u16 = 47_000;

#[derive(Debug, Parser)]
struct Arguments {
    /// The node program of producers
    #[arg(long, value_name = "PROGRAM")]
    node: PathBuf,

    /// Seconds of the measurement
    #[arg(long, default_value_t = 30.0)]
    duration: f64,

    /// Seconds before it whose messages do not count
    #[arg(long, default_value_t = 3.0)]
    warm_up: f64,

    /// The seed of random phases
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The stacks
    #[arg(long, value_enum, default_value_t = Stacks::Both)]
    on: Stacks,

    /// Producers that the starter starts, too
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    started: Vec<u16>,

    /// What the starter's nodes run on, for the report
    #[arg(long, default_value = "another system's nodes")]
    machine: String,

    /// How they read the machine's counter, for the report
    #[arg(long, default_value = "theirs is as exact as its steps")]
    clock: String,

    /// The command that repeats it, for the report
    #[arg(long, default_value = "other_nodes")]
    command: String,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write the report as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The starter and its arguments
    #[arg(required = true, last = true)]
    starter: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stacks {
    Both,
    Kernel,
    Tickwire,
}

impl Stacks {
    fn carriers(self) -> Vec<Carrier> {
        match self {
            Self::Both => vec![Carrier::Kernel, Carrier::Tickwire],
            Self::Kernel => vec![Carrier::Kernel],
            Self::Tickwire => vec![Carrier::Tickwire],
        }
    }
}

impl Arguments {
    fn plan(self) -> Result<ExperimentPlan> {
        let seconds = |value: f64| Duration::try_from_secs_f64(value).context("these are no seconds");
        let duration = seconds(self.duration)?;
        let has_other_producers = !self.started.is_empty();
        Ok(ExperimentPlan {
            pattern: Pattern::of_2015(),
            ground: Ground::LabWith(LabNodes {
                node: self.node,
                starter: self.starter,
                started: self.started,
                machine: self.machine,
                clock: self.clock,
            }),
            carriers: self.on.carriers(),
            consumer: true,
            producers: has_other_producers,
            spin: None,
            timing: Timing::Pattern,
            timings: false,
            sweep: Vec::new(),
            rate: 1,
            link: CableLink::GIGABIT,
            guard: None,
            seed: self.seed,
            warm_up: seconds(self.warm_up)?,
            duration,
            sweep_duration: duration,
            first_port: PORT,
            command: self.command.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

fn run(arguments: Arguments) -> Result<bool, TestbedError> {
    let (json, page) = (arguments.json, arguments.html.clone());
    // Before anything is measured: can it be written?
    let page = page.map(|path| File::create(&path).with_context(|| format!("cannot write {}", path.display())));
    let page = page.transpose()?;
    let plan = arguments.plan()?;
    let mut last = 0;
    let experiment: Experiment = plan.conduct(&mut |step, live| {
        if step.number != last {
            last = step.number;
            let carrier = if live.carrier == Carrier::Kernel { "kernel" } else { "tickwire" };
            eprintln!("{}/{} {carrier}, {} s", step.number, step.of, live.duration_s);
        }
    })?;
    if let Some(mut page) = page {
        page.write_all(report::html(&experiment).as_bytes()).context("cannot write the page")?;
    }
    let text = if json { format!("{:#}\n", report::json(&experiment, false)) } else { report::table(&experiment) };
    print!("{text}");
    Ok(report::verdict(&experiment).met && experiment.is_whole())
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tickwire_lab::wait_if_interrupted();
            eprintln!("other_nodes: {error:#}");
            ExitCode::from(2)
        }
    }
}
