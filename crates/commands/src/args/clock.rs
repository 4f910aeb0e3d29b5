//! The options of `tickwire clock`.

#[cfg(unix)]
use super::values::small;
use super::values::{poll, seconds, whole};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// The long part of its help.
#[cfg(not(windows))]
pub const MANUAL: &str = concat!(
    include_str!("manual/clock-begin-linux.txt"),
    include_str!("manual/clock-asking.txt"),
    include_str!("manual/clock-files-linux.txt"),
    include_str!("manual/clock-reading.txt"),
    include_str!("manual/clock-settings-linux.txt"),
    include_str!("manual/clock-metrics.txt"),
    include_str!("manual/clock-environment-linux.txt"),
    include_str!("manual/clock-end.txt"),
);

/// The long part of its help.
#[cfg(windows)]
pub const MANUAL: &str = concat!(
    include_str!("manual/clock-begin-windows.txt"),
    include_str!("manual/clock-asking.txt"),
    include_str!("manual/clock-files-windows.txt"),
    include_str!("manual/clock-reading.txt"),
    include_str!("manual/clock-settings-windows.txt"),
    include_str!("manual/clock-metrics.txt"),
    include_str!("manual/clock-environment-windows.txt"),
    include_str!("manual/clock-end.txt"),
);

/// Where the clock is.
#[derive(Debug, Args)]
pub struct PageOption {
    #[cfg_attr(not(windows), doc = " The clock's page [default: /run/tickwire/clock]")]
    #[cfg_attr(windows, doc = r" The clock's page [default: C:\ProgramData\Tickwire\clock]")]
    #[arg(long, env = "TICKWIRE_CLOCK", hide_env_values = true, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub page: Option<PathBuf>,
}

/// Where the configuration is.
#[derive(Debug, Args)]
pub struct Config {
    /// The configuration file; it is no error if the default one does not exist [default:
    #[cfg_attr(not(windows), doc = " /etc/tickwire/tickwire.toml]")]
    #[cfg_attr(windows, doc = r" C:\ProgramData\Tickwire\tickwire.toml]")]
    #[arg(long = "config", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// Keep, read and examine the clock.
///
/// `tickwire clock run` asks NTP servers and publishes the time in a page of shared memory, which
/// every program reads without a system call (`tickclock.h`, the crate `tickclock`). It needs no
/// root, and leaves the system clock alone unless it is to steer it.
#[derive(Debug, Args)]
#[command(after_long_help = MANUAL)]
pub struct ClockArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: ClockCommand,
}

/// What to do with the clock.
#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Ask servers and publish the time, in the foreground.
    Run(ClockRun),
    /// Give this host's time to others by NTP, in the foreground.
    #[cfg(unix)]
    Serve(ClockServe),
    /// How good the clock is.
    Status(ClockAsk),
    /// The servers: which one is followed, and how good each is.
    Sources(ClockSources),
    /// The time now, as any program reads it.
    Read(ClockRead),
    /// Values of the counter as Unix time: one line each, with counter, ns since 1970 and bound in
    /// ns.
    Convert(ClockConvert),
    /// Wait until the clock is good enough.
    Wait(ClockWait),
    /// Run the clock over a record of its exchanges, and compare what it publishes with what was
    /// published.
    Replay(ClockReplay),
}

/// The daemon.
#[derive(Debug, Args)]
pub struct ClockRun {
    /// Ask this server, as HOST or HOST:PORT; may be given several times [default: those of the
    /// configuration file]
    #[arg(long = "server", value_name = "HOST")]
    pub servers: Vec<String>,

    /// Believe the servers that are named here only if they prove their answers by NTS (RFC 8915)
    #[arg(long, requires = "servers")]
    pub nts: bool,

    /// The certificates (PEM) of the authorities trusted for the servers, instead of those that the
    /// host trusts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "nts")]
    pub nts_ca: Option<PathBuf>,

    /// Seconds between requests to each server [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = poll)]
    pub poll: Option<f64>,

    /// Where to publish.
    #[command(flatten)]
    pub page: PageOption,

    /// Where the configuration is.
    #[command(flatten)]
    pub config: Config,

    /// Record all exchanges in this new file, for `tickwire clock replay`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
}

/// A record.
#[derive(Debug, Args)]
pub struct ClockReplay {
    /// What `tickwire clock run --record` has written
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Print JSON, one document
    #[arg(long)]
    pub json: bool,

    /// Print each page, one line of JSON, as the record has it
    #[arg(long, conflicts_with = "json")]
    pub pages: bool,
}

/// The server.
#[cfg(unix)]
#[derive(Debug, Args)]
pub struct ClockServe {
    /// Listen on this address of the host, as ADDRESS or ADDRESS:PORT; may be given several times
    /// [default: port 123 of all addresses]
    #[arg(long = "listen", value_name = "ADDRESS")]
    pub listen: Vec<String>,

    /// Whose time.
    #[command(flatten)]
    pub page: PageOption,

    /// Answer this network only, as ADDRESS or ADDRESS/LENGTH; may be given several times [default:
    /// all networks]
    #[arg(long = "allow", value_name = "NETWORK")]
    pub allow: Vec<String>,

    /// Requests that each client may make in a second, on average; 0 is no limit [default: 20]
    #[arg(long, value_name = "N", value_parser = requests)]
    pub rate: Option<f64>,

    /// Requests that each client may make at once [default: 64]
    #[arg(long, value_name = "N", value_parser = burst)]
    pub burst: Option<u32>,

    /// Where the configuration is.
    #[command(flatten)]
    pub config: Config,
}

/// A question to the daemon.
#[derive(Debug, Args)]
pub struct ClockAsk {
    /// Whose.
    #[command(flatten)]
    pub page: PageOption,

    /// Print JSON, one document
    #[arg(long)]
    pub json: bool,
}

/// A question about the servers.
#[derive(Debug, Args)]
pub struct ClockSources {
    /// Whose.
    #[command(flatten)]
    pub page: PageOption,

    /// Print JSON, one document
    #[arg(long)]
    pub json: bool,

    /// Show each server's rate, error, path and stamps, too
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
}

/// A reading.
#[derive(Debug, Args)]
pub struct ClockRead {
    /// Of what.
    #[command(flatten)]
    pub page: PageOption,

    /// Print JSON, one line
    #[arg(long)]
    pub json: bool,
}

/// Readings of earlier counter values.
#[derive(Debug, Args)]
pub struct ClockConvert {
    /// Of what.
    #[command(flatten)]
    pub page: PageOption,

    /// Print JSON, one line for each value
    #[arg(long)]
    pub json: bool,

    /// Values of the counter [default: one a line from standard input]
    #[arg(value_name = "COUNTER", value_parser = count)]
    pub counters: Vec<u64>,
}

/// Waiting for the clock.
#[derive(Debug, Args)]
pub struct ClockWait {
    /// For what.
    #[command(flatten)]
    pub page: PageOption,

    /// Until the time cannot be wrong by more than so many microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000.0, value_parser = seconds)]
    pub bound: f64,

    /// Give up after so many seconds [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
}

/// Requests in a second, as in the configuration file.
#[cfg(unix)]
fn requests(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value == 0.0 || (0.001..=1e6).contains(&value) => Ok(value),
        _ => Err("expected a number from 0.001 to 1000000, or 0 for no limit".to_owned()),
    }
}

#[cfg(unix)]
fn burst(text: &str) -> Result<u32, String> {
    small(text, 1, u32::MAX)
}

/// A value of the counter.
fn count(text: &str) -> Result<u64, String> {
    whole(text, 0, u64::MAX)
}
