//! The programs of the truth bench: `truth begin`, `serve`, `stamp`, `probe`, `reading`, `keep`,
//! `virtual` and `guard`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;
use tickwire_bench::error::{ClockError, Virtual};
use tickwire_clock_reference::Truth;
use tickwire_clock_reference::function::Recipe;
use tickwire_clock_reference::probe::{ProbePlan, Probed, probe};
use tickwire_clock_reference::reading::{BATCH, cost};
use tickwire_clock_reference::server::{ReferenceServer, TransmitStamping};
use tickwire_clock_reference::system_clock::Remembered;
use tickwire_sim::Scenario;
use tickwire_sim::scenario::SCENARIOS;
use tickwire_timekeeper::config::PolledServer as TimeServer;
use tickwire_timekeeper::{Daemon, TimekeeperConfig};

/// A time server whose clock is a known function of the counter, and a probe that compares a clock
/// with it
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Fix a truth that begins now and write it to a file
    Begin {
        /// The recipe, as TOML
        recipe: PathBuf,
        /// The file to write
        truth: PathBuf,
    },
    /// Serve the truth by NTP, until killed
    Serve {
        /// The truth's file
        truth: PathBuf,
        /// Address and port
        address: SocketAddr,
        /// The BPF program `stamp` is attached to the device and completes the replies
        #[arg(long)]
        completed: bool,
    },
    /// Write the BPF program that completes replies
    Stamp {
        /// The object file to write
        object: PathBuf,
    },
    /// Compare a clock with the truth; prints a line of JSON with the figures for each part
    Probe {
        /// The truth's file
        truth: PathBuf,
        /// The page of the clock; none: the system clock
        #[arg(long)]
        page: Option<PathBuf>,
        /// The clock is ClockBound's
        #[arg(long, conflicts_with = "page")]
        clockbound: bool,
        /// How long
        #[arg(long, default_value_t = 60.0)]
        seconds: f64,
        /// Start of the measured time; several values, separated by commas, divide it into parts
        /// with figures of their own
        #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_value = "20")]
        from: Vec<f64>,
        /// Reads per second
        #[arg(long, default_value_t = 10_000)]
        rate: u32,
    },
    /// Measure the cost of reading clocks; prints the figures as JSON
    Reading {
        /// The page of the clock; the kernel's clock is measured too
        page: PathBuf,
        /// Measure ClockBound's clock too
        #[arg(long)]
        clockbound: bool,
        /// Measure only the page's clock, so that its system calls can be counted
        #[arg(long, conflicts_with = "clockbound")]
        alone: bool,
        /// Batches of each clock
        #[arg(long, default_value_t = 20_000)]
        batches: u32,
        /// Readings in a batch
        #[arg(long, default_value_t = BATCH)]
        batch: u32,
    },
    /// Synchronise a clock to a server, until killed
    Keep {
        /// The server, as HOST or HOST:PORT
        server: String,
        /// The page
        page: PathBuf,
        /// Seconds between requests
        #[arg(long, default_value_t = 1.0)]
        poll: f64,
    },
    /// Run the clock's scenarios in virtual time; prints a line of JSON for each
    Virtual {
        /// Only those whose name contains this
        #[arg(long, default_value = "")]
        only: String,
        /// Seed of the random numbers
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Save the state of the system clock until standard input ends, then set the clock as if it
    /// had not been steered meanwhile
    Guard,
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Begin { recipe, truth } => {
            let text = std::fs::read_to_string(&recipe).with_context(|| format!("cannot read {}", recipe.display()))?;
            let recipe: Recipe = toml::from_str(&text).with_context(|| format!("{} is no recipe", recipe.display()))?;
            Truth::begin(recipe)?.write(&truth)
        }
        Task::Serve { truth, address, completed } => {
            let leaving = if completed { TransmitStamping::Completed } else { TransmitStamping::Told };
            let mut server = ReferenceServer::bind(Truth::read(&truth)?, address, leaving)?;
            eprintln!("serving");
            let (stop, _never) = nix::unistd::pipe()?;
            server.run(stop.as_fd())
        }
        Task::Stamp { object } => std::fs::write(&object, tickwire_clock_reference::stamp::OBJECT)
            .with_context(|| format!("cannot write {}", object.display())),
        Task::Probe { truth, page, clockbound, seconds, from, rate } => {
            let truth = Truth::read(&truth)?;
            let begin = Instant::now();
            eprintln!("probing");
            let mut probed = match page {
                Some(page) => Probed::page(&page)?,
                None if clockbound => Probed::clockbound()?,
                None => Probed::System,
            };
            for figures in probe(&truth, &mut probed, &ProbePlan { seconds, parts: from, rate }, begin) {
                println!("{}", serde_json::to_string(&figures)?);
            }
            Ok(())
        }
        Task::Reading { page, clockbound, alone, batches, batch } => {
            let mut clocks = vec![("tickwire", Probed::page(&page)?)];
            if !alone {
                clocks.push(("tickwire, unordered", Probed::Unordered(tickclock::Clock::open(&page)?)));
                clocks.push(("clock_gettime", Probed::System));
            }
            if clockbound {
                clocks.push(("clockbound", Probed::clockbound()?));
            }
            println!("{}", serde_json::to_string(&cost(&mut clocks, batches, batch))?);
            Ok(())
        }
        Task::Keep { server, page, poll } => {
            let servers = vec![TimeServer::named(&server).map_err(anyhow::Error::msg)?];
            let config = TimekeeperConfig { servers, page, poll, ..TimekeeperConfig::default() };
            let (stop, _never) = nix::unistd::pipe()?;
            Ok(Daemon::start(&config)?.run(stop.as_fd())?)
        }
        Task::Virtual { only, seed } => {
            for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&only)) {
                println!("{}", serde_json::to_string(&in_virtual_time(scenario, seed))?);
            }
            Ok(())
        }
        Task::Guard => {
            let remembered = Remembered::now()?;
            println!("remembered");
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            println!("the system clock is set by {} ns", remembered.restore()?);
            Ok(())
        }
    }
}

fn in_virtual_time(scenario: &Scenario, seed: u64) -> Virtual {
    let summary = scenario.run(seed);
    Virtual {
        scenario: scenario.name.into(),
        seconds: scenario.measured.1,
        promise: scenario.promise.to_string(),
        kept: scenario.promise.kept(&summary),
        range_ns: summary.range.into(),
        error: ClockError {
            reads: summary.reads,
            median_ns: summary.median,
            iqr_ns: summary.iqr,
            p99_ns: summary.p99,
            max_ns: summary.max,
            bounded: summary.reads,
            outside: summary.outside,
            bound_ns: summary.bound,
            ..ClockError::default()
        },
    }
}
