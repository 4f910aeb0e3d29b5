//! The command line, and nothing else: the man pages are generated from it. What they and `--help` say beside it is in `manual/`.

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Unmodified programs on a low-latency network path.
///
/// Tickwire gives unmodified programs a user-mode TCP/UDP stack over ordinary Ethernet. `tickwire service` runs once on each machine, as
/// root. `tickwire run` starts a program, as any user, so that its sockets take the fast path. Programs that are not started this
/// way notice nothing, and what cannot be accelerated runs on the kernel, with a reason in `tickwire stat`.
#[derive(Debug, Parser)]
#[command(name = "tickwire", version, disable_help_subcommand = true, arg_required_else_help = true, after_long_help = include_str!("manual/tickwire.txt"))]
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
    Clock(Clock),
    Jitter(Jitter),
    Counters(Counters),
    Testbed(Testbed),
    Watch(Watch),
}

/// Where the service listens.
#[derive(Debug, Args)]
pub(crate) struct Socket {
    /// The service's socket [default: /run/tickwire/service.sock]
    #[arg(long, env = "TICKWIRE_SOCKET", hide_env_values = true, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
}

impl Socket {
    /// The socket that was named, else the usual one.
    pub(crate) fn path(&self) -> PathBuf {
        self.named().unwrap_or_else(|| DEFAULT_SOCKET.into())
    }

    /// The socket that was named, from the root: who uses it may be in another directory by then.
    pub(crate) fn named(&self) -> Option<PathBuf> {
        let socket = self.socket.as_ref()?;
        Some(std::path::absolute(socket).unwrap_or_else(|_| socket.clone()))
    }
}

/// Where the service listens unless told otherwise.
pub(crate) const DEFAULT_SOCKET: &str = "/run/tickwire/service.sock";

/// Run the service that diverts packets and hands out lanes (as root).
///
/// It runs in the foreground, attaches its divert program to the interfaces, listens for programs that want a lane, and logs to standard error. SIGTERM or SIGINT
/// ends it cleanly: programs that run on lanes then go on with the kernel, except that their established connections end with an
/// error. Command line settings win over the configuration file. Needs root (or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and
/// CAP_SYS_ADMIN).
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/service.txt"))]
pub(crate) struct Service {
    /// The configuration file; it is no error if the default one does not exist [default: /etc/tickwire/tickwire.toml]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Accelerate this interface; may be given several times [default: every physical interface]
    #[arg(long = "interface", value_name = "IF")]
    pub(crate) interfaces: Vec<String>,

    /// Where to listen.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// The socket's mode, in octal: who may be accelerated [default: 660 with a group, 600 without]
    #[arg(long, value_name = "MODE", value_parser = octal)]
    pub(crate) socket_mode: Option<u32>,

    /// The socket's group [default: `tickwire`, if there is such a group]
    #[arg(long, value_name = "GROUP")]
    pub(crate) socket_group: Option<String>,

    /// How the divert program is attached to the interfaces [default: what disturbs others least with each driver]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) attach: Option<AttachMode>,
}

/// How the divert program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttachMode {
    /// What is best for the driver without disturbing others
    Auto,
    /// XDP in the driver: the fastest, where the driver has it
    Native,
    /// XDP after the driver: every driver
    Generic,
    /// A traffic control filter: every driver, disturbs others least
    Tc,
}

/// Start a program so that its TCP and UDP sockets take the fast path.
///
/// The program replaces this process: its process number, its exit status and its terminal are its own. If it cannot be accelerated (no
/// service, static or set-user-ID program) it runs on the kernel and one line on standard error says why.
#[derive(Debug, Args)]
#[command(override_usage = "tickwire run [OPTIONS] <PROGRAM> [ARG]...", after_long_help = include_str!("manual/run.txt"))]
pub(crate) struct Run {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Do not start the program if it cannot be accelerated (exit status 69)
    ///
    /// It also ends with this status if it gets no lane at its first socket. Once it runs accelerated it is never ended: while the service
    /// is away, making a new socket fails (ENETDOWN), and works again when the service is back.
    #[arg(long)]
    pub(crate) require: bool,

    /// How long a waiting thread polls for packets before it sleeps
    ///
    /// `adaptive` polls briefly after recent traffic; `never` sleeps at once and costs the least processor time; `always` never sleeps and
    /// has the lowest latency, at the price of one processor for each waiting thread; a number is microseconds.
    #[arg(long, env = "TICKWIRE_SPIN", hide_env_values = true, value_name = "MICROSECONDS|always|never|adaptive", allow_negative_numbers = true, value_parser = spin)]
    pub(crate) spin: Option<String>,

    /// The program
    #[arg(value_hint = ValueHint::CommandName)]
    pub(crate) program: OsString,

    /// Its arguments
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) arguments: Vec<OsString>,
}

/// Show programs on the fast path, their sockets and the counters.
///
/// The figures come from the lanes' memory, without asking the programs. For every socket it says whether it is accelerated and, if not,
/// why. A user sees the lanes of that user; root sees all. On a terminal too narrow for the table each socket has a few lines.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/stat.txt"))]
pub(crate) struct Stat {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Print JSON, one document a reading
    #[arg(long)]
    pub(crate) json: bool,

    /// Read again every second, until Ctrl-C; waits for a service that is away
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Record the packets of accelerated programs.
///
/// Diverted packets never reach the kernel's stack, so tcpdump cannot see them. The file is in pcapng format with nanosecond stamps and one
/// interface for each lane and each network card; Wireshark and tcpdump read it. Ctrl-C ends it and says how many packets were recorded
/// and how many were lost. Root records all lanes, another user the lanes that he has when it begins.
#[derive(Debug, Args)]
#[command(override_usage = "tickwire capture [OPTIONS] --write <FILE>", after_long_help = include_str!("manual/capture.txt"))]
pub(crate) struct Capture {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Write to this file; `-` is standard output
    #[arg(short = 'w', long = "write", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) write: PathBuf,

    /// Stop after so many packets
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub(crate) count: Option<u64>,

    /// Keep at most so many bytes of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144, value_parser = snaplen)]
    pub(crate) snaplen: u32,

    /// Only this lane (its number, see `tickwire stat`)
    #[arg(long, value_name = "N", conflicts_with = "program", value_parser = lane)]
    pub(crate) lane: Option<u32>,

    /// Only lanes of this program (its name or process number)
    #[arg(long, value_name = "NAME|PID")]
    pub(crate) program: Option<String>,
}

/// Check whether this machine is ready for low latency.
///
/// One line for each check: good, or what to change and how much it matters. Changes nothing. What only root can find out is not known to
/// other users.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/doctor.txt"))]
pub(crate) struct Doctor {
    /// Check these interfaces [default: every physical interface, and those that the service accelerates]
    #[arg(long = "interface", value_name = "IF")]
    pub(crate) interfaces: Vec<String>,

    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Keep, read and examine the clock.
///
/// `tickwire clock run` asks NTP servers and publishes the time in a page of shared memory, which every program reads without a system call (`tickclock.h`, the crate
/// `tickclock`). It needs no root, and leaves the system clock alone
/// unless it is to steer it.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/clock.txt"))]
pub(crate) struct Clock {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ClockCommand,
}

/// The status of `tickwire clock` if the time is not known.
pub(crate) const NOT_SYNCHRONISED: u8 = 3;

/// What to do with the clock.
#[derive(Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Ask servers and publish the time, in the foreground.
    Run(ClockRun),
    /// Give this host's time to others by NTP, in the foreground.
    Serve(ClockServe),
    /// How good the clock is.
    Status(ClockAsk),
    /// The servers: who is followed, and how good each is.
    Sources(ClockSources),
    /// The time now, as any program reads it.
    Read(ClockRead),
    /// Values of the counter as Unix time: one line each, with counter, ns since 1970 and bound in ns.
    Convert(ClockConvert),
    /// Wait until the clock is good enough.
    Wait(ClockWait),
    /// Run the clock over a record of its exchanges, and compare what it publishes with what was published.
    Replay(ClockReplay),
}

/// Where the clock is.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// The clock's page [default: /run/tickwire/clock]
    #[arg(long, env = "TICKWIRE_CLOCK", hide_env_values = true, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) page: Option<PathBuf>,
}

/// The daemon.
#[derive(Debug, Args)]
pub(crate) struct ClockRun {
    /// Ask this server, as HOST or HOST:PORT; may be given several times [default: those of the configuration file]
    #[arg(long = "server", value_name = "HOST")]
    pub(crate) servers: Vec<String>,

    /// Believe the servers that are named here only if they prove their answers by NTS (RFC 8915)
    #[arg(long, requires = "servers")]
    pub(crate) nts: bool,

    /// The certificates (PEM) of those who may vouch for the servers, instead of those whom the host trusts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "nts")]
    pub(crate) nts_ca: Option<PathBuf>,

    /// Seconds between requests to each server [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = poll)]
    pub(crate) poll: Option<f64>,

    /// Where to publish.
    #[command(flatten)]
    pub(crate) page: Page,

    /// The configuration file; it is no error if the default one does not exist [default: /etc/tickwire/tickwire.toml]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Record all exchanges in this new file, for `tickwire clock replay`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
}

/// A record.
#[derive(Debug, Args)]
pub(crate) struct ClockReplay {
    /// What `tickwire clock run --record` has written
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,

    /// Print each page, one line of JSON, as the record has it
    #[arg(long, conflicts_with = "json")]
    pub(crate) pages: bool,
}

/// The server.
#[derive(Debug, Args)]
pub(crate) struct ClockServe {
    /// Listen on this address of the host, as ADDRESS or ADDRESS:PORT; may be given several times [default: port 123 of all addresses]
    #[arg(long = "listen", value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,

    /// Whose time.
    #[command(flatten)]
    pub(crate) page: Page,

    /// Answer this network only, as ADDRESS or ADDRESS/LENGTH; may be given several times [default: everybody]
    #[arg(long = "allow", value_name = "NETWORK")]
    pub(crate) allow: Vec<String>,

    /// Requests that each client may make in a second, on average; 0 is no limit [default: 20]
    #[arg(long, value_name = "N", value_parser = requests)]
    pub(crate) rate: Option<f64>,

    /// Requests that each client may make at once [default: 64]
    #[arg(long, value_name = "N", value_parser = burst)]
    pub(crate) burst: Option<u32>,

    /// The configuration file; it is no error if the default one does not exist [default: /etc/tickwire/tickwire.toml]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

/// A question to the daemon.
#[derive(Debug, Args)]
pub(crate) struct ClockAsk {
    /// Whose.
    #[command(flatten)]
    pub(crate) page: Page,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

/// A question about the servers.
#[derive(Debug, Args)]
pub(crate) struct ClockSources {
    /// Whose.
    #[command(flatten)]
    pub(crate) page: Page,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,

    /// Show each server's rate, error, path and stamps, too
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) verbose: bool,
}

/// A reading.
#[derive(Debug, Args)]
pub(crate) struct ClockRead {
    /// Of what.
    #[command(flatten)]
    pub(crate) page: Page,

    /// Print JSON, one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Readings of earlier counter values.
#[derive(Debug, Args)]
pub(crate) struct ClockConvert {
    /// Of what.
    #[command(flatten)]
    pub(crate) page: Page,

    /// Print JSON, one line for each value
    #[arg(long)]
    pub(crate) json: bool,

    /// Values of the counter [default: one a line from standard input]
    #[arg(value_name = "COUNTER", value_parser = count)]
    pub(crate) counters: Vec<u64>,
}

/// Waiting for the clock.
#[derive(Debug, Args)]
pub(crate) struct ClockWait {
    /// For what.
    #[command(flatten)]
    pub(crate) page: Page,

    /// Until the time cannot be wrong by more than so many microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000.0, value_parser = seconds)]
    pub(crate) bound: f64,

    /// Give up after so many seconds [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<f64>,
}

/// Measure how evenly this machine transmits, at rest and under load.
///
/// Latency profiles of reading network cards' clocks; of sending a message, from the call to the driver, to the wire and to the peer; and of sending it at an instant. By
/// default it makes a lab of two hosts (as root), and compares the kernel's path with Tickwire's; with `--interface` and `--to` it measures a network card, with
/// the card's own stamps. What this machine lacks is named.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/jitter.txt"))]
pub(crate) struct Jitter {
    /// Messages of each profile, and readings of each clock; 8000 take about two minutes in all
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = samples)]
    pub(crate) samples: u32,

    /// Bytes of each frame, without its checksum
    #[arg(long, value_name = "BYTES", default_value_t = 166, value_parser = frame)]
    pub(crate) size: u32,

    /// Send by this network card instead of in a lab
    #[arg(long, value_name = "IF", requires = "to")]
    pub(crate) interface: Option<String>,

    /// Send to this address, as ADDRESS or ADDRESS:PORT (by default the port that discards); nobody needs to listen
    #[arg(long, value_name = "ADDRESS", requires = "interface", value_parser = target)]
    pub(crate) to: Option<SocketAddr>,

    /// The serial line for the load `disk+serial`: about 100 characters are written to it for each block
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub(crate) serial: Option<PathBuf>,

    /// Under these loads, with commas between them [default: all that are there]
    #[arg(long = "load", value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) loads: Vec<JitterLoad>,

    /// Write a report for a browser, with plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,

    /// The sender of a lab, which the command starts itself.
    #[arg(long, hide = true, conflicts_with_all = ["interface", "serial", "loads", "html", "json"])]
    pub(crate) send: Option<SocketAddr>,

    /// The sender sleeps until each instant.
    #[arg(long, hide = true, requires = "send")]
    pub(crate) sleep: bool,

    /// The sender asks for its driver's stamps.
    #[arg(long, hide = true, requires = "send")]
    pub(crate) stamps: bool,
}

/// What keeps the machine busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JitterLoad {
    /// No load of ours
    None,
    /// A thread for each processor that computes
    Cpu,
    /// Blocks of 8 MB read past the kernel's cache from a file on the disk of the working directory
    Disk,
    /// Both
    #[value(name = "cpu+disk")]
    CpuDisk,
    /// The disk, and a line for each block to a serial console
    #[value(name = "disk+serial")]
    DiskSerial,
}

/// Study the counters of this machine: how quickly they are read, and how evenly they run.
///
/// For every counter that a program can read here it says how long a reading takes, at rest, under load of the processors and under load of the network stack
/// (both made by this command, over the loopback interface), and the Allan deviation beside a reference. Counters that are not here are named. It takes about a minute.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/counters.txt"))]
pub(crate) struct Counters {
    /// Readings of each counter under each load
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = reads)]
    pub(crate) reads: u64,

    /// How long the counters are watched beside the reference
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub(crate) seconds: f64,

    /// The clock that the others are compared with
    #[arg(long, value_name = "NAME", default_value = "CLOCK_MONOTONIC_RAW")]
    pub(crate) reference: String,

    /// Write a report for a browser, with plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Try a data pattern: does every message meet its deadline?
///
/// Producers send the streams of a pattern to one consumer, over plain sockets, on the kernel and on Tickwire in turn. For each stream it says how long its messages
/// took from program to program, and whether each came, once, whole, in order and in time.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/testbed.txt"))]
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
    /// One sending or receiving end, driven over standard input and output: `run` starts it on each host.
    #[command(hide = true)]
    Node,
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

/// A run of the testbed.
#[derive(Debug, Args)]
pub(crate) struct TestbedRun {
    /// The pattern: CSV as that of 2015, or TOML [default: the pattern of 2015, 12 producers with 4 streams each]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) pattern: Option<PathBuf>,

    /// Make a lab on this machine, of network namespaces behind a switch (as root); this is the default
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
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = measured)]
    pub(crate) duration: f64,

    /// How long messages do not count before that
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = warm_up)]
    pub(crate) warm_up: f64,

    /// When messages are due
    #[arg(long, value_enum, value_name = "TIMING", default_value_t = MessageTiming::Pattern)]
    pub(crate) timing: MessageTiming,

    /// Compare unscheduled, synchronised and scheduled sending, too
    #[arg(long)]
    pub(crate) timings: bool,

    /// Send so many times as often as the pattern says
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = rate)]
    pub(crate) rate: u32,

    /// Find out at which rate it breaks: 1, 2, 5, 10 ... times the pattern's
    #[arg(long)]
    pub(crate) sweep: bool,

    /// Keep so many processors busy with another program meanwhile (lab only)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = busy, conflicts_with = "nodes")]
    pub(crate) busy: u32,

    /// The rate of each link to the switch, in Mbit/s
    #[arg(long, value_name = "MBIT", default_value_t = 1000, value_parser = link)]
    pub(crate) link: u64,

    /// Microseconds between the slots of scheduled sending [default: as many as fit]
    #[arg(long, value_name = "MICROSECONDS", value_parser = guard)]
    pub(crate) guard: Option<f64>,

    /// What random phases come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// The consumer's first port; each stream has one
    #[arg(long, value_name = "PORT", default_value_t = 47_000, value_parser = first_port)]
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

/// The clock's part of the testbed.
///
/// Reads the Tickwire clock and a reference at once afterwards, again and again with small random pauses, and says how far they are apart: table 2 and figure 5 of Shafer
/// et al. (2015). In the lab a clock is kept for this, once for each interval between requests to its server.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/testbed-time.txt"))]
pub(crate) struct TestbedTime {
    /// Seconds between requests to the server, with commas: a row for each, and one in which the server falls silent [default: 1,8,30]
    #[arg(long, value_name = "SECONDS", value_parser = intervals)]
    pub(crate) intervals: Option<Intervals>,

    /// How long each row is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = measured)]
    pub(crate) seconds: f64,

    /// About how many comparisons are made for each row [default: 100000; in virtual time 4000000]
    #[arg(long, value_name = "N", value_parser = comparisons)]
    pub(crate) reads: Option<u32>,

    /// What the clock is compared with: `lab`, a truth of this program's own (as root), or a network card's PTP hardware clock, by its interface or as /dev/ptpN
    #[arg(long, value_name = "lab|IFACE|/dev/ptpN", default_value = "lab")]
    pub(crate) reference: String,

    /// Rows of a simulation for these intervals: a day each, in seconds and without root. Alone, only those
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

/// Watch streams, latencies, drops and the clock.
///
/// A dashboard for a terminal: how good the clock is; of a testbed that runs, how long each stream's messages take, beside its deadline; of each program on the fast
/// path its sockets, queues and retransmissions; and what was dropped, and why. It needs no root: it shows what this user may see. What is not there is said, with
/// what to do about it.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/watch.txt"))]
pub(crate) struct Watch {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Whose clock.
    #[command(flatten)]
    pub(crate) page: Page,

    /// Watch the testbed that this process runs [default: the one that was started last]
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub(crate) run: Option<u32>,

    /// How often to look
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,

    /// Serve the figures to Prometheus on this address, instead of a dashboard [default: 127.0.0.1:9124]
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, default_missing_value = "127.0.0.1", conflicts_with = "once", value_parser = metrics)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Print one page as plain text, as it is also done where standard output is no terminal
    #[arg(long)]
    pub(crate) once: bool,
}

/// The port of `tickwire watch --metrics`.
const METRICS_PORT: u16 = 9124;

fn metrics(text: &str) -> Result<SocketAddr, String> {
    let address = text.trim_matches(['[', ']']).parse::<IpAddr>().map(|address| (address, METRICS_PORT).into());
    text.parse()
        .or(address)
        .map_err(|_| "expected an address of this host, as 127.0.0.1, 127.0.0.1:9124 or [::1]:9124".to_owned())
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err("expected a number from 0.1 to 3600".to_owned()),
    }
}

fn pid(text: &str) -> Result<u32, String> {
    small(text, 1, i32::MAX.unsigned_abs())
}

/// The longest that is measured: three days, which the stamps in messages can tell apart.
const LONGEST_RUN: f64 = 259_200.0;

fn measured(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.1..=LONGEST_RUN).contains(&value) => Ok(value),
        _ => Err(format!("expected a number from 0.1 to {LONGEST_RUN}")),
    }
}

fn warm_up(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.0..=3600.0).contains(&value) => Ok(value),
        _ => Err("expected a number from 0 to 3600".to_owned()),
    }
}

fn guard(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.0..=1e6).contains(&value) => Ok(value),
        _ => Err("expected a number from 0 to 1000000".to_owned()),
    }
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

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (1e-3..=1e9).contains(&value) => Ok(value),
        _ => Err("expected a number from 0.001 to 1000000000".to_owned()),
    }
}

/// The longest spin that a person can mean, in microseconds: a quarter of an hour.
const LONGEST_SPIN: u64 = 1_000_000_000;

fn spin(text: &str) -> Result<String, String> {
    match text {
        "always" | "never" | "adaptive" => Ok(text.to_owned()),
        number if number.parse().is_ok_and(|us: u64| us <= LONGEST_SPIN) => Ok(text.to_owned()),
        _ => Err(format!("expected `always`, `never`, `adaptive` or microseconds up to {LONGEST_SPIN}")),
    }
}

/// As in the configuration file.
fn poll(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.05..=86_400.0).contains(&value) => Ok(value),
        _ => Err("expected a number from 0.05 to 86400".to_owned()),
    }
}

/// As in the configuration file.
fn requests(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value == 0.0 || (0.001..=1e6).contains(&value) => Ok(value),
        _ => Err("expected a number from 0.001 to 1000000, or 0 for no limit".to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a whole number, at least 1".to_owned()),
    }
}

fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
}

fn small(text: &str, least: u32, most: u32) -> Result<u32, String> {
    whole(text, least.into(), most.into()).map(|number| number as u32)
}

fn burst(text: &str) -> Result<u32, String> {
    small(text, 1, u32::MAX)
}

fn lane(text: &str) -> Result<u32, String> {
    small(text, 1, u32::MAX)
}

fn snaplen(text: &str) -> Result<u32, String> {
    small(text, 64, 262_144)
}

fn reads(text: &str) -> Result<u64, String> {
    whole(text, 100, 1_000_000_000)
}

fn samples(text: &str) -> Result<u32, String> {
    small(text, 50, 100_000)
}

/// All of Ethernet's.
fn frame(text: &str) -> Result<u32, String> {
    small(text, 60, 1514)
}

/// The port whose service throws away what comes (RFC 863).
const DISCARD: u16 = 9;

fn target(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok().or_else(|| text.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, DISCARD)));
    address
        .ok_or_else(|| "expected an address as 192.0.2.1, 192.0.2.1:5000, 2001:db8::1 or [2001:db8::1]:5000".to_owned())
}

/// A value of the counter.
fn count(text: &str) -> Result<u64, String> {
    whole(text, 0, u64::MAX)
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("expected an octal mode of three digits, for example 660".to_owned()),
    }
}
