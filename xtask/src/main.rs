//! Development tasks: `cargo xtask demo`, `bench`, `test`, `lab`, `check`, `conformance`, `suites`,
//! `fuzz`, `soak`, `miscompiled`, `windows`, `man`, `wheel`, `deps`.
//!
//! It does not depend on crates that need installed tools (clang, for one): it must build before
//! these are installed, because it installs them. It builds the other crates with cargo and runs
//! their programs.
//!
//! | module | purpose |
//! |---|---|
//! | `demo`, `bench`, `test`, `lab`, `check`, ... | the tasks, each in a module of its name |
//! | `modules`, `words`, `type_names` | what `check` looks at beside the crates' dependencies |
//! | `sources` | the sources of the project, for these |
//! | `workspace` | building the workspace, becoming root |
//! | `prepare` | what every task does first that runs a release build in the lab |
//! | `progress` | progress of a long measurement, on standard error |
//! | `traffic`, `sockperf` | programs on processors of their own; the output of sockperf |
//! | `third_party` | getting programs of others |
//! | `unpacked` | Debian packages that are unpacked instead of installed |
#![forbid(unsafe_code)]

mod bench;
mod check;
mod conformance;
mod demo;
mod deps;
mod fuzz;
mod lab;
mod man;
mod miscompiled;
mod modules;
mod prepare;
mod progress;
mod soak;
mod sockperf;
mod sources;
mod suites;
mod test;
mod third_party;
mod traffic;
mod type_names;
mod unpacked;
mod wheel;
mod windows;
mod words;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Development tasks of Tickwire.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run real programs on the kernel and on Tickwire in turn, and compare
    Demo(demo::Options),
    /// Measure the performance promises, rivals interleaved
    Bench(bench::Options),
    /// Run all tests: unit, property, simulation and lab
    Test(test::Options),
    /// Make two hosts with a service each and open a shell in the first
    Lab(lab::Options),
    /// Check what crates and modules may use, that names are unique, and the rules for words
    Check(check::Options),
    /// Look for code of the data path that the compiler has broken
    Miscompiled,
    /// Run packetdrill's scripts on the stack, and write the table of what they show
    Conformance(conformance::Options),
    /// Run socket tests of others on the kernel and on Tickwire, and compare each case
    Suites(suites::Options),
    /// Fuzz the parsers and the stack from the committed corpus
    Fuzz(fuzz::Options),
    /// Live random lives of two hosts in simulation, and look for anything that breaks
    Soak(soak::Options),
    /// What runs on Windows, under Wine
    #[command(subcommand)]
    Windows(windows::Task),
    /// Write the man pages
    Man(man::Options),
    /// Build the Python package that reads the clock
    Wheel,
    /// Install what building, tests and demo need
    Deps,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Demo(options) => demo::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Lab(options) => match lab::run(&options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Task::Check(options) => check::run(&options),
        Task::Miscompiled => miscompiled::run(),
        Task::Conformance(options) => conformance::run(&options),
        Task::Suites(options) => suites::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Windows(task) => windows::run(&task),
        Task::Man(options) => man::run(&options),
        Task::Wheel => wheel::run(),
        Task::Deps => deps::install(&deps::EVERYTHING).and_then(|()| deps::install(&deps::TESTS)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tickwire_lab::wait_if_interrupted();
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn no_command_has_options_that_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
