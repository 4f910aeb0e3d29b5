//! The definition of the command line. Options have the names that they have on Linux.

use crate::driver::Driver;
use crate::ports::PortsOption;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use tickwire_commands::args::capture::CaptureOptions;
use tickwire_commands::args::clock::{ClockArguments, Config};
use tickwire_lane_windows::control::DEFAULT_PIPE;

/// Unmodified programs on a low-latency network path.
///
/// Tickwire gives unmodified programs a user-mode TCP/UDP stack over ordinary Ethernet. `tickwire
/// service` runs once on each machine, as administrator. `tickwire run` starts a program, as any
/// user that may use the service, so that its sockets take the fast path. Programs that are not
/// started this way notice nothing, and what cannot be accelerated runs on Windows' own stack, with
/// a reason in `tickwire stat`.
#[derive(Debug, Parser)]
#[command(name = "tickwire", version, arg_required_else_help = true, after_long_help = include_str!("manual/tickwire.txt"))]
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
    Doctor(Doctor),
    Clock(ClockArguments),
    Capture(Capture),
    Testbed(Testbed),
}

/// Where the service listens.
#[derive(Debug, Args)]
pub(crate) struct Socket {
    /// The service's pipe [default: \\.\pipe\tickwire]
    #[arg(long, env = "TICKWIRE_SOCKET", hide_env_values = true, value_name = "PIPE")]
    pub(crate) socket: Option<String>,
}

impl Socket {
    /// The pipe that was named, else the usual one.
    pub(crate) fn pipe(&self) -> &str {
        self.socket.as_deref().filter(|name| !name.is_empty()).unwrap_or(DEFAULT_PIPE)
    }
}

/// Run the service that moves packets and hands out lanes (as administrator).
///
/// It runs in the foreground and logs to standard error; Ctrl-C ends it in order. With --install it
/// becomes a service of Windows instead, which starts with the machine and logs to `service.log`
/// beside this program. When it ends, connections of programs on lanes end, too.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/service.txt"))]
pub(crate) struct Service {
    /// Where the configuration is.
    #[command(flatten)]
    pub(crate) config: Config,

    /// Accelerate this network interface, by its name or index [default: the only one that is
    /// connected and has an address]
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,

    /// The driver that gives the interface's packets to the service [default: the first that is
    /// there]
    #[arg(long, value_enum, value_name = "DRIVER")]
    pub(crate) driver: Option<Driver>,

    /// Where to listen.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// The group, or its SID, whose members may be accelerated, beside administrators [default:
    /// `Tickwire Users`, if there is such a group]
    #[arg(long, value_name = "GROUP")]
    pub(crate) socket_group: Option<String>,

    /// The block of ports from which accelerated programs connect, if they do not choose one
    /// themselves, as FIRST-LAST; `none`: Windows chooses each
    #[arg(long, value_name = "FIRST-LAST", default_value_t = PortsOption::default())]
    pub(crate) ports: PortsOption,

    /// Enter it among Windows' services, with the other options of this command line, and end
    #[arg(long, conflicts_with = "uninstall")]
    pub(crate) install: bool,

    /// Stop it, remove it from Windows' services, and end
    #[arg(long, conflicts_with_all = ["file", "interface", "driver", "socket_group", "ports"])]
    pub(crate) uninstall: bool,

    /// Windows' service manager has started this process
    #[arg(long, hide = true, conflicts_with_all = ["install", "uninstall"])]
    pub(crate) managed: bool,
}

/// Start a program so that its TCP and UDP sockets take the fast path.
///
/// The program has this process's folder, console and standard handles. Its exit status is passed
/// on, and Ctrl-C is the program's. If it cannot be accelerated (no service, a program of 32 bits)
/// it runs on Windows' own stack and one line on standard error says why.
#[derive(Debug, Args)]
#[command(override_usage = "tickwire run [OPTIONS] <PROGRAM> [ARG]...\n       tickwire run --add|--remove <SERVICE>\n       tickwire run --list", after_long_help = include_str!("manual/run.txt"))]
pub(crate) struct Run {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Do not start the program if it cannot be accelerated (exit status 69)
    ///
    /// It also ends with this status if it gets no lane at its first socket.
    #[arg(long)]
    pub(crate) require: bool,

    /// Have a service of Windows accelerated at each start, by putting `tickwire run` and the other
    /// options before its command line (as administrator)
    #[arg(long, value_name = "SERVICE", conflicts_with_all = ["remove", "list", "program"])]
    pub(crate) add: Option<String>,

    /// Take that back exactly
    #[arg(long, value_name = "SERVICE", conflicts_with_all = ["list", "program", "require", "socket"])]
    pub(crate) remove: Option<String>,

    /// Show the services that were added
    #[arg(long, conflicts_with_all = ["program", "require", "socket"])]
    pub(crate) list: bool,

    /// The program
    #[arg(required_unless_present_any = ["add", "remove", "list"])]
    pub(crate) program: Option<OsString>,

    /// Its arguments
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Show programs on the fast path, their sockets and the counters.
///
/// The figures come from the lanes' memory, without asking the programs. For every socket it says
/// whether it is accelerated and, if not, why. A user sees its own programs that are not elevated,
/// and an administrator (of an elevated console) those of all users. On a console too narrow for
/// the table each socket has a few lines.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/stat.txt"))]
pub(crate) struct Stat {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check whether a program would be accelerated on this machine.
///
/// One line for each check: good, or what to do; then the verdict. Changes nothing: it asks the
/// service for a lane, and gives it back.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("manual/doctor.txt"))]
pub(crate) struct Doctor {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Record the packets of accelerated programs.
///
/// Diverted packets never reach Windows' stack, so other tools cannot see them. The file is in
/// pcapng format with nanosecond stamps and one interface for each lane and each network card;
/// Wireshark reads it. Ctrl-C ends it and says how many packets were recorded and how many were
/// lost. An administrator records all lanes, another user only its own lanes that exist when it
/// begins.
#[derive(Debug, Args)]
#[command(override_usage = "tickwire capture [OPTIONS] --write <FILE>", after_long_help = include_str!("manual/capture.txt"))]
pub(crate) struct Capture {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// What, and where to.
    #[command(flatten)]
    pub(crate) options: CaptureOptions,
}

/// Take part in a measurement of the testbed, which is controlled from Linux.
#[derive(Debug, Args)]
pub(crate) struct Testbed {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: TestbedCommand,
}

/// What to do with the testbed.
#[derive(Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// One sending or receiving end, driven over standard input and output: `tickwire testbed run`
    /// on Linux starts it, for instance over ssh.
    Node,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound_and_what_follows_two_dashes_is_the_programs() {
        Arguments::command().debug_assert();
        let line = ["tickwire", "run", "--require", "--", "p.exe", "--require", "-x"];
        let Command::Run(run) = Arguments::parse_from(line).command else {
            panic!("another command");
        };
        assert!(run.require && run.program.is_some_and(|program| program == "p.exe"));
        assert_eq!(run.arguments, ["--require", "-x"]);
        for wrong in [
            &["service", "--install", "--uninstall"][..],
            &["service", "--driver", "other"],
            &["run"],
            &["run", "--add", "x", "p.exe"],
            &["run", "--list", "--remove", "x"],
            &[],
        ] {
            assert!(Arguments::try_parse_from([&["tickwire"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn help_is_the_whole_text_about_a_command() {
        for command in ["service", "run", "stat", "doctor", "clock", "capture"] {
            let error = Arguments::try_parse_from(["tickwire", "help", command]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("Exit status:") && text.contains("Options:"), "{command}: {text}");
        }
        let error = Arguments::try_parse_from(["tickwire", "help"]).unwrap_err();
        assert!(error.to_string().contains("tickwire_winsock.dll"), "{error}");
    }

    #[test]
    fn an_empty_name_of_a_pipe_is_the_usual_one() {
        let pipe = |socket: Option<&str>| Socket { socket: socket.map(str::to_owned) }.pipe().to_owned();
        assert_eq!(pipe(None), DEFAULT_PIPE);
        assert_eq!(pipe(Some("")), DEFAULT_PIPE);
        assert_eq!(pipe(Some(r"\\.\pipe\x")), r"\\.\pipe\x");
    }
}
