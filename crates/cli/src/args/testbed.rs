//! `tickwire testbed`.

use super::values::{number, poll, small, spin, whole};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Try a data pattern: does every message meet its deadline?
///
/// Producers send the streams of a pattern to one consumer, over plain sockets, on the kernel and
/// on Tickwire in turn. For each stream it says how long its messages took from program to program,
/// and whether each came, once, whole, in order and in time.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/testbed.txt"))]
pub(crate) struct Testbed {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: TestbedCommand,
}

/// What to do with the testbed.
#[derive(Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// Send a pattern and report on each stream.
    Run(Box<TestbedRun>),
    /// Compare the clock with a reference that knows the time better.
    Time(TestbedTime),
    /// One sending or receiving end, driven over standard input and output: `run` starts it on each
    /// host.
    #[command(hide = true)]
    Node,
}

/// A run of the testbed.
#[derive(Debug, Args)]
pub(crate) struct TestbedRun {
    /// The pattern: CSV as that of 2015, or TOML [default: the pattern of 2015, 12 producers with 4
    /// streams each]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) pattern: Option<PathBuf>,

    /// Make a lab on this machine, of network namespaces behind a switch (as root); this is the
    /// default
    #[arg(long, conflicts_with = "nodes")]
    pub(crate) lab: bool,

    /// Use the machines that this file names, over `ssh`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) nodes: Option<PathBuf>,

    /// Which stacks to measure, in this order
    #[arg(long = "on", value_enum, value_name = "STACK", default_value_t = Stacks::Both)]
    pub(crate) stacks: Stacks,

    /// Which end is on Tickwire in Tickwire's run
    #[arg(long, value_enum, value_name = "END", default_value_t = Ends::Consumer)]
    pub(crate) accelerate: Ends,

    /// How accelerated ends wait, as `tickwire run --spin`
    #[arg(long, value_name = "MICROSECONDS|always|never|adaptive", allow_negative_numbers = true, value_parser = spin)]
    pub(crate) spin: Option<String>,

    /// How long each stack is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, allow_negative_numbers = true, value_parser = measured)]
    pub(crate) duration: f64,

    /// How long messages do not count before that
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, allow_negative_numbers = true, value_parser = warm_up)]
    pub(crate) warm_up: f64,

    /// When messages are due
    #[arg(long, value_enum, value_name = "TIMING", default_value_t = MessageTiming::Pattern)]
    pub(crate) timing: MessageTiming,

    /// Compare unscheduled, synchronised and scheduled sending, too
    #[arg(long)]
    pub(crate) timings: bool,

    /// Send so many times as often as the pattern says
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = rate)]
    pub(crate) rate: u32,

    /// Find out at which rate it breaks: 1, 2, 5, 10 ... times the pattern's
    #[arg(long)]
    pub(crate) sweep: bool,

    /// Measure the clock, too, after the messages, for about so many seconds in all: more
    /// intervals, and longer ones, in more time (lab only) [default: 60]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60",
        allow_negative_numbers = true, value_parser = measured)]
    pub(crate) time: Option<f64>,

    /// Keep so many processors busy with another program meanwhile (lab only)
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = busy, conflicts_with = "nodes")]
    pub(crate) busy: u32,

    /// The rate of each link to the switch, in Mbit/s
    #[arg(long, value_name = "MBIT", default_value_t = 1000, allow_negative_numbers = true, value_parser = link)]
    pub(crate) link: u64,

    /// Microseconds between the slots of scheduled sending [default: as many as fit]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true, value_parser = guard)]
    pub(crate) guard: Option<f64>,

    /// What random phases come from
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = seed)]
    pub(crate) seed: u64,

    /// The consumer's first port; each stream has one
    #[arg(long, value_name = "PORT", default_value_t = 47_000, allow_negative_numbers = true, value_parser = first_port)]
    pub(crate) port: u16,

    /// The clock's page on the machines [default: the usual one]
    #[arg(long, value_name = "PATH", requires = "nodes", value_hint = ValueHint::FilePath)]
    pub(crate) page: Option<PathBuf>,

    /// Write a report for a browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

/// How accelerated ends of a lab wait without `--spin`: they inherit this variable.
pub(crate) const SPIN_VARIABLE: &str = "TICKWIRE_SPIN";

/// Checks that variable as the ends will, which would be after the kernel's run.
pub(crate) fn inherited_spin() -> Result<(), String> {
    std::env::var_os(SPIN_VARIABLE).map_or(Ok(()), |text| spin(&text.to_string_lossy()).map(drop))
}

/// Which stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stacks {
    /// The kernel's, then Tickwire's
    Both,
    /// The kernel's
    Kernel,
    /// Tickwire's
    Tickwire,
}

/// Which ends are on Tickwire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ends {
    /// The consumer
    Consumer,
    /// The producers
    Producers,
    /// Consumer and producers
    Both,
}

/// When messages are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MessageTiming {
    /// As the pattern says; at random where it says nothing
    Pattern,
    /// All at once: the worst case of a switch
    Synchronised,
    /// At random
    Unscheduled,
    /// In slots, so that no two messages meet in the switch
    Scheduled,
}

/// The clock's part of the testbed.
///
/// Reads the Tickwire clock and a reference at once afterwards, again and again with small random
/// pauses, and says how far they are apart: table 2 and figure 5 of Shafer et al. (2015). In the
/// lab a clock is kept for this, once for each interval between requests to its server.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/testbed-time.txt"))]
pub(crate) struct TestbedTime {
    /// Seconds between requests to the server, with commas: a row for each, and one in which the
    /// server falls silent [default: 1,8,30]
    #[arg(long, value_name = "SECONDS", value_parser = intervals)]
    pub(crate) intervals: Option<Intervals>,

    /// How long each row is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, allow_negative_numbers = true, value_parser = measured)]
    pub(crate) seconds: f64,

    /// About how many comparisons are made for each row [default: 100000; in virtual time 4000000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = comparisons)]
    pub(crate) reads: Option<u32>,

    /// What the clock is compared with: `lab`, a truth of this program's own (as root), or a
    /// network card's PTP hardware clock, by its interface or as /dev/ptpN
    #[arg(long, value_name = "lab|IFACE|/dev/ptpN", default_value = "lab")]
    pub(crate) reference: String,

    /// Rows of a simulation for these intervals: a day each, in seconds and without root. Alone,
    /// only those
    #[arg(long = "virtual", value_name = "SECONDS", value_parser = intervals, num_args = 0..=1, require_equals = true,
        default_missing_value = "30,60,120,240,480,960")]
    pub(crate) simulated: Option<Intervals>,

    /// The clock's page, beside a PTP hardware clock [default: /run/tickwire/clock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) page: Option<PathBuf>,

    /// Write a report for a browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Seconds between requests, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Intervals(pub(crate) Vec<f64>);

fn intervals(text: &str) -> Result<Intervals, String> {
    text.split(',').map(|one| poll(one.trim())).collect::<Result<_, _>>().map(Intervals)
}

fn comparisons(text: &str) -> Result<u32, String> {
    small(text, 100, 32_000_000)
}

/// The longest measurement: three days, for which the timestamps in messages are unambiguous.
const LONGEST_RUN: f64 = 259_200.0;

fn seed(text: &str) -> Result<u64, String> {
    whole(text, 0, u64::MAX)
}

fn measured(text: &str) -> Result<f64, String> {
    number(text, 0.1..=LONGEST_RUN)
}

fn warm_up(text: &str) -> Result<f64, String> {
    number(text, 0.0..=3600.0)
}

fn guard(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1e6)
}

fn rate(text: &str) -> Result<u32, String> {
    small(text, 1, 1000)
}

fn busy(text: &str) -> Result<u32, String> {
    small(text, 0, 1024)
}

fn link(text: &str) -> Result<u64, String> {
    whole(text, 1, 400_000)
}

fn first_port(text: &str) -> Result<u16, String> {
    whole(text, 1024, 64_000).map(|number| number as u16)
}
