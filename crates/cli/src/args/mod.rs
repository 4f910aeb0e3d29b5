//! The definition of the command line, and nothing else: the man pages are generated from it. The
//! further text of the man pages and of `--help` is in `manual/`.
//!
//! | module | purpose |
//! |---|---|
//! | `service`, `run`, `stat` ... | the options of the command of that name, and below it |
//! | `shared` | options of several commands: paths of service, clock and configuration |
//! | `values` | parsers for the values of options of several commands, with their errors |
//!
//! The options of `clock` are in `tickwire-commands`, which Windows shares.
//!
//! It does not depend on the program around it, because `xtask` builds it alone.

pub(crate) mod capture;
pub(crate) mod counters;
pub(crate) mod doctor;
pub(crate) mod jitter;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod shared;
pub(crate) mod stat;
pub(crate) mod testbed;
mod values;
pub(crate) mod watch;

use capture::Capture;
use clap::{Parser, Subcommand};
use counters::Counters;
use doctor::Doctor;
use jitter::Jitter;
use run::Run;
use service::Service;
use stat::Stat;
use testbed::Testbed;
use tickwire_commands::args::clock::ClockArguments;
use watch::Watch;

/// Unmodified programs on a low-latency network path.
///
/// Tickwire gives unmodified programs a user-mode TCP/UDP stack over ordinary Ethernet. `tickwire
/// service` runs once on each machine, as root. `tickwire run` starts a program, as any user, so
/// that its sockets take the fast path. Programs that are not started this way notice nothing, and
/// what cannot be accelerated runs on the kernel, with a reason in `tickwire stat`.
#[derive(Debug, Parser)]
#[command(name = "tickwire", version, disable_help_subcommand = true, arg_required_else_help = true, after_long_help = include_str!("../manual/tickwire.txt"))]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Service(Service),
    Run(Run),
    Stat(Stat),
    Capture(Capture),
    Doctor(Doctor),
    Clock(ClockArguments),
    Jitter(Jitter),
    Counters(Counters),
    Testbed(Testbed),
    Watch(Watch),
}
