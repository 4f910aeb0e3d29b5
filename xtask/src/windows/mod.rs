//! `cargo xtask windows test`: the shared crates are built for Windows, and their tests run under
//! Wine. `cargo xtask windows lab`: Windows programs run on hosts of the lab. `cargo xtask windows
//! testbed`: the pattern of 2015 with its consumer on Windows. `cargo xtask windows programs`:
//! programs of others, on the kernel's sockets and on the lane; `cargo xtask windows demo` shows
//! some of them. `cargo xtask windows libuv`: libuv's own tests, in the same way. `cargo xtask
//! windows bench` measures round trips, and `cargo xtask windows stress` looks for leaks and harm
//! under load. There is no Windows machine among those that test this project.
//!
//! | module | purpose |
//! |---|---|
//! | `build` | what cargo builds |
//! | `wine` | the Wine prefix, and programs outside of the lab |
//! | `wine_host` | Wine on a host of the lab |
//! | `wine_process` | Windows processes as Linux sees them |
//! | `lab_card` | the network card of Windows programs in the lab |
//! | `windivert` | the stand-in for the driver WinDivert in the lab |
//! | `real_windivert` | the library of that driver |
//! | `lab_programs` | Windows programs of the lab, in C |
//! | `lab` | the cases that need the lab |
//! | `service_log` | what the service's log says of lanes |
//! | `bench` | round trips on the kernel's sockets and on the lane |
//! | `stress` | streams, many connections and kills, and what is left after them |
//! | `testbed` | the testbed with Windows nodes |
//! | `replacement` | the DLLs of Winsock for a program's folder |
//! | `package` | the zip for users |
//! | `programs` | programs of others |
//! | `suite` | the conformance suite of Winsock |
//! | `libuv` | libuv's own tests |
//! | `demo` | the demo |

mod bench;
mod build;
mod demo;
mod lab;
mod lab_card;
mod lab_programs;
mod libuv;
mod package;
mod programs;
mod real_windivert;
mod replacement;
mod service_log;
mod stress;
mod suite;
mod testbed;
mod windivert;
mod wine;
mod wine_host;
mod wine_process;

use crate::check::SHARED;
use crate::test::{Sum, built};
use crate::{deps, workspace};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wine::Wine;
pub(crate) use wine::windows_path;
pub(crate) use wine_host::WineHost;

/// The Rust target, and the variable in which cargo looks for its linker.
const TARGET: &str = "x86_64-pc-windows-gnu";
const LINKER: &str = "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER";

/// The C compiler, which is also the linker.
const CC: &str = "x86_64-w64-mingw32-gcc";

/// Crates beside the shared ones: without code for one operating system, with code for each, and
/// those for Windows.
const FURTHER: &[&str] = &[
    "tickwire-report",
    "tickwire-settings",
    "tickclock",
    "tickwire-metrics",
    "tickwire-stamping",
    "tickwire-timekeeper",
    "tickwire-node",
    "tickwire-windows-abi",
    "tickwire-lane-windows",
    "tickwire-host-windows",
    "tickwire-card-windows",
    "tickwire-service-windows",
    "tickwire-launcher-windows",
    "tickwire-winsock",
    "tickwire-show",
    "tickwire-commands",
    "tickwire-cli-windows",
];

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Build the shared crates for Windows and run their tests under Wine, then those of the lab
    Test(Options),
    /// Run Windows programs on hosts of the lab, under Wine
    Lab(lab::Options),
    /// Measure the pattern of 2015 with its consumer on Windows, under Wine: kernel and lane
    Testbed(testbed::Options),
    /// Measure round trips of a Windows program, under Wine: kernel and lane
    Bench(bench::Options),
    /// Streams, many connections and kills on the lane, under Wine, and what is left after them
    Stress(stress::Options),
    /// Start a Windows node of the testbed, for its controller
    #[command(hide = true)]
    TestbedNode(testbed::StarterOptions),
    /// Build the zip for users on Windows, unpack it in an empty Wine prefix and try it
    Package,
    /// Run Windows programs of others on the kernel's sockets and on the lane in turn, under Wine
    Programs(programs::Options),
    /// Run real Windows programs on the kernel's sockets and on Tickwire in turn, and compare
    Demo(demo::Options),
    /// Run the cases of Winsock on the kernel's sockets and on the lane, and compare each
    Suite(suite::Options),
    /// Run libuv's own tests of sockets on the kernel's sockets and on the lane, and compare each
    Libuv(libuv::Options),
}

/// Which tests.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only tests whose name contains this
    filter: Option<String>,

    /// Leave out the tests that need root
    #[arg(long)]
    no_lab: bool,
}

pub(crate) fn run(task: &Task) -> Result<()> {
    match task {
        Task::Test(options) => test(options),
        Task::Lab(options) => lab::run(options),
        Task::Testbed(options) => testbed::run(options),
        Task::Bench(options) => bench::run(options),
        Task::Stress(options) => stress::run(options),
        Task::TestbedNode(options) => testbed::start_node(options),
        Task::Package => package::run(),
        Task::Programs(options) => programs::run(options),
        Task::Demo(options) => demo::run(options),
        Task::Suite(options) => suite::run(options),
        Task::Libuv(options) => libuv::run(options),
    }
}

/// Runs the tests; the last line of output is `N passed, M failed (Wine)`.
fn test(options: &Options) -> Result<()> {
    if !options.no_lab {
        workspace::ask_for_root().context("the lab's tests need root; --no-lab leaves them out")?;
    }
    deps::install(&deps::WINDOWS)?;
    add_target()?;
    let mut cargo = workspace::cargo();
    // In a shared crate, code for an operating system is behind a default feature.
    cargo.args(["test", "--no-run", "--locked", "--no-default-features", "--tests"]);
    cargo.args(SHARED.into_iter().chain(FURTHER.iter().copied()).flat_map(|package| ["--package", package]));
    let programs = built(cross(&mut cargo))?;
    let wine = Wine::new()?;
    let mut sum = Sum::default();
    for program in &programs {
        let mut command = wine.run(program.executable());
        sum.run(&program.title(), command.args(&options.filter).current_dir(program.folder()))?;
    }
    drop(wine);
    if !options.no_lab {
        // A process of its own, which becomes root.
        let mut cases = Command::new(std::env::current_exe().context("cannot find the running program")?);
        sum.run("the lab", cases.args(["windows", "lab"]).args(&options.filter))?;
    }
    println!("{sum} (Wine)");
    if !sum.is_success() {
        bail!("tests failed");
    }
    Ok(())
}

/// Installs Wine, and builds [`clock_daemon`].
pub(crate) fn build_clock_daemon() -> Result<()> {
    deps::install(&deps::WINDOWS)?;
    deps::install(&deps::WINDOWS_LAB)?;
    add_target()?;
    wine::make()?;
    build::for_windows(&build::PROGRAM, build::Profile::Release)?;
    windivert::build_library()?;
    let daemon = clock_daemon()?;
    fs::create_dir_all(daemon.with_file_name("")).context("cannot create the folder of the clock daemon")?;
    for (from, to) in [
        (build::Profile::Release.windows("tickwire.exe")?, daemon.clone()),
        (windivert::library()?, daemon.with_file_name(windivert::DLL)),
    ] {
        fs::copy(&from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// `tickwire.exe` for the benchmark of clocks, with the stand-in for WinDivert beside it.
pub(crate) fn clock_daemon() -> Result<PathBuf> {
    Ok(workspace::target()?.join("lab-clock/tickwire.exe"))
}

/// Lets cargo build for Windows.
fn cross(cargo: &mut Command) -> &mut Command {
    cargo.args(["--target", TARGET]).env(LINKER, CC)
}

/// Installs the standard library for Windows, if it is not there.
fn add_target() -> Result<()> {
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let libraries = libraries.context("cannot run rustc")?.stdout;
    let is_there = Path::new(String::from_utf8_lossy(&libraries).trim()).is_dir();
    if is_there {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    workspace::run(add.args(["target", "add", TARGET]).current_dir(workspace::root()))
        .with_context(|| format!("the Rust target {TARGET} is needed: rustup target add {TARGET}"))
}
