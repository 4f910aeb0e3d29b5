//! `tickwire run`.

use super::shared::Socket;
use super::values::{cpus, policy, spin};
use clap::{Args, ValueHint};
use std::ffi::OsString;

/// Start a program so that its TCP and UDP sockets take the fast path.
///
/// The program replaces this process: its process number, its exit status and its terminal are its
/// own. If it cannot be accelerated (no service, static or set-user-ID program) it runs on the
/// kernel and one line on standard error says why.
#[derive(Debug, Args)]
#[command(override_usage = "tickwire run [OPTIONS] <PROGRAM> [ARG]...", after_long_help = include_str!("../manual/run.txt"))]
pub(crate) struct Run {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Do not start the program if it cannot be accelerated (exit status 69)
    ///
    /// It also ends with this status if it gets no lane at its first socket. Once it runs
    /// accelerated it is never ended: while the service is away, making a new socket fails
    /// (ENETDOWN), and works again when the service is back.
    #[arg(long)]
    pub(crate) require: bool,

    /// How long a waiting thread polls for packets before it sleeps
    ///
    /// `adaptive` polls briefly after recent traffic, as long as that is of use, and when the next
    /// message of a periodic stream is due, but for real-time threads, which cannot offer their
    /// processor to others; `never` sleeps at once and costs the least processor time; `always`
    /// never sleeps and has the lowest latency, at the price of one processor for each waiting
    /// thread; a number is microseconds. But for `always`, a thread whose processor others keep
    /// each time it is offered does not poll for 10 ms, and for twice as long each time that they
    /// still do, up to half a second.
    #[arg(long, env = "TICKWIRE_SPIN", hide_env_values = true, value_name = "MICROSECONDS|always|never|adaptive", allow_negative_numbers = true, value_parser = spin)]
    pub(crate) spin: Option<String>,

    /// Smallest time that TCP waits for an acknowledgement, beyond the round trip, before it sends
    /// again
    ///
    /// Without it 5, which suits a LAN: what is lost last is sent again after a few milliseconds.
    /// Linux has 200: peers that hold their acknowledgements back for longer are not sent
    /// everything twice then. Acknowledgements are held back for three quarters of it at most, so
    /// both ends should have the same.
    #[arg(long, env = "TICKWIRE_MIN_RTO", hide_env_values = true, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) min_rto: Option<u16>,

    /// How the library's helper thread is scheduled: other, other:NICE, batch, idle, fifo:PRIORITY
    /// or rr:PRIORITY
    ///
    /// The helper acknowledges and retransmits while the program is busy elsewhere. Without this
    /// option it has the ordinary policy (`other`), whatever the thread has that opens the first
    /// socket. A program whose real-time threads leave no processor to others gives it a real-time
    /// policy, too.
    #[arg(long, env = "TICKWIRE_HELPER_POLICY", hide_env_values = true, value_name = "POLICY", value_parser = policy)]
    pub(crate) helper_policy: Option<String>,

    /// The processors of the library's helper thread, as `0-3,8`
    ///
    /// Without this option they are those that the program is started on, whatever its threads
    /// confine themselves to later.
    #[arg(long, env = "TICKWIRE_HELPER_CPUS", hide_env_values = true, value_name = "LIST", value_parser = cpus)]
    pub(crate) helper_cpus: Option<String>,

    /// Whether threads that wait take up a real-time priority that the service grants: granted or
    /// never
    ///
    /// The service grants one to members of groups that its settings name (`[groups]`). A thread
    /// that has one runs as soon as a message is there, however busy other programs keep the
    /// processors, and does not poll. It keeps a policy that it has chosen itself. With `--spin
    /// always` there is none.
    #[arg(long, env = "TICKWIRE_REALTIME", hide_env_values = true, value_name = "WHEN", value_parser = ["granted", "never"])]
    pub(crate) realtime: Option<String>,

    /// The program
    #[arg(value_hint = ValueHint::CommandName)]
    pub(crate) program: OsString,

    /// Its arguments
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) arguments: Vec<OsString>,
}
