//! `cargo xtask windows stress`: long streams, many connections, and kills of program and service
//! under load, on the lane, under Wine. Afterwards nothing may be left: handles, sections, lanes,
//! claims, sockets. A small version is a case of the lab.
//!
//! | module | purpose |
//! |---|---|
//! | `peer` | the ends of connections on Linux |
//! | `held` | what processes hold |
//! | `load` | streams and connections |
//! | `kills` | kills of program and service |
//! | `bystander` | a program that nothing is done to |

mod bystander;
mod held;
mod kills;
mod load;
mod peer;

use super::build::{self, Profile};
use super::lab::Hosts;
use super::wine::windows_path;
use super::{lab_card, lab_programs, wine};
use crate::bench::harness::host_state::Before;
use crate::bench::harness::report::write;
use crate::bench::harness::{selection, table};
use crate::{deps, workspace};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tickwire_lab::Process;

/// Within this a program starts, and ends.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The port of the program that is put to stress.
const PORT: u16 = 5001;

/// How much.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// MiB of each stream: in both directions, with the program as server and as client
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    stream_mib: u64,

    /// Connections one after the other, to a server and from a client
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,

    /// Connections at once, with data on each
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=150))]
    concurrent: u32,

    /// Kills under load: of the program, and each fifth of the service
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    kills: u32,

    /// Use programs as tests have them: quicker to build, and slower
    #[arg(long)]
    debug: bool,

    /// Write the figures here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// As a case of the lab: some seconds of it.
const SMALL: Options = Options { stream_mib: 8, connections: 30, concurrent: 20, kills: 5, debug: true, json: None };

/// A step that has been taken: what, how long it took, and what there is to say.
struct Step {
    name: String,
    seconds: f64,
    figures: Value,
}

impl Options {
    fn profile(&self) -> Profile {
        if self.debug { Profile::Debug } else { Profile::Release }
    }
}

/// Runs all of it, after building what is needed and becoming root. Fails at the first fault.
pub(crate) fn run(options: &Options) -> Result<()> {
    selection::prepared(
        options.json.as_deref(),
        || prepare(options.profile()),
        || {
            let before = Before::now();
            let steps = all(options)?;
            let mut shown = table::with(["step", "s", "figures"]);
            for Step { name, seconds, figures } in &steps {
                shown.add_row([name.clone(), format!("{seconds:.1}"), lines(figures)]);
            }
            let state = before.until_now(None);
            println!("{shown}\n{}; {}", wine::version()?, conditions(&state));
            if let Some(path) = &options.json {
                let json = |step: &Step| json!({ "step": step.name, "seconds": step.seconds, "figures": step.figures });
                let steps: Vec<Value> = steps.iter().map(json).collect();
                write(path, &serde_json::to_string_pretty(&json!({ "host": state, "steps": steps }))?)?;
            }
            Ok(())
        },
    )
}

/// A line for each figure.
fn lines(figures: &Value) -> String {
    let line = |(name, value): (&String, &Value)| match value {
        Value::Object(_) => lines(value),
        _ => format!("{name}: {value}"),
    };
    figures.as_object().map_or_else(String::new, |all| all.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn conditions(state: &crate::bench::harness::host_state::HostState) -> String {
    let shown = |figure: Option<f64>| figure.map_or("unknown".to_owned(), |figure| format!("{figure:.1}"));
    format!("load before {}; stolen meanwhile {} %", shown(state.load_before), shown(state.stolen_percent))
}

/// The case of the lab.
pub(super) fn small() -> Result<()> {
    all(&SMALL).map(drop)
}

fn all(options: &Options) -> Result<Vec<Step>> {
    let hosts = Hosts::with_program(options.profile().windows("tickwire.exe")?)?;
    let mut steps = load::run(&hosts, options)?;
    if options.kills > 0 {
        steps.extend(kills::run(&hosts, options.kills)?);
    }
    Ok(steps)
}

/// Starts the program on the lane: its words, as `lab_programs/stress.c` has them.
fn start(hosts: &Hosts, words: &[&str]) -> Result<Process> {
    let program = windows_path(&lab_programs::program("stress")?);
    hosts.spawn(&[&["run", "--require", "--", &*program], words].concat())
}

/// Starts it as a server at a port of host a.
fn start_server(hosts: &Hosts, port: u16) -> Result<Process> {
    let mut server = start(hosts, &["server", &hosts.pair.a_v4(), &port.to_string()])?;
    server.wait_for("ready", TIMEOUT)?;
    Ok(server)
}

/// Returns only on failure.
fn prepare(profile: Profile) -> Result<()> {
    workspace::ask_for_root()?;
    deps::install(&deps::WINDOWS)?;
    deps::install(&deps::WINDOWS_LAB)?;
    super::add_target()?;
    wine::make()?;
    lab_card::build()?;
    lab_programs::build()?;
    build::for_windows(&build::PROGRAM, profile)?;
    workspace::again_as_root(&workspace::target()?.join("release"))
}
