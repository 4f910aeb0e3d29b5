//! `tickwire run`: starts a program with the preload library, which intercepts its socket calls.
//!
//! It checks beforehand whether there is a service, and whether the library can be loaded into the
//! program at all. The program then replaces this process.

mod elf;
pub(crate) mod environment;
mod fitness;
mod lookup;
mod sanitizer;

use crate::args::run::Run;
use crate::client;
use fitness::Unfit;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use tickwire_lane::control::Reason;
use tickwire_lane_linux::control::why_unconnected;

/// The service or the lane is not available, and `--require` was given (EX_UNAVAILABLE of
/// sysexits.h).
const EXIT_UNAVAILABLE: u8 = 69;
/// `tickwire run` itself failed.
const EXIT_FAILED: u8 = 125;
/// The program was found but cannot be executed.
const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
const EXIT_NOT_FOUND: u8 = 127;

/// Starts the program; returns only if that failed.
pub(crate) fn run(arguments: &Run) -> ExitCode {
    if arguments.program.is_empty() {
        return fail(EXIT_NOT_FOUND, "the name of the program is empty");
    }
    let name = arguments.program.to_string_lossy();
    let path = match lookup::find(&arguments.program) {
        Ok(path) => path,
        Err(error) => return fail(error.exit_code(), &format!("{name}: {error}")),
    };
    let socket = arguments.socket.path();
    let library = match environment::library() {
        Ok(library) => library,
        Err(error) => return fail(EXIT_FAILED, &format!("{error:#}")),
    };

    let obstacle = obstacle(&path, &socket);
    if let Some(obstacle) = &obstacle {
        if arguments.require {
            return fail(EXIT_UNAVAILABLE, &format!("{name} was not started: {obstacle}"));
        }
        // Sockets that it opens after a service has started are accelerated.
        let how_long = if matches!(obstacle, Obstacle::Away(_)) { " for now" } else { "" };
        eprintln!("tickwire: {name} runs on the kernel's network stack{how_long}: {obstacle}");
    }

    if let Some(advice) = sanitizer::advice(&path) {
        eprintln!("tickwire: {name}: {advice}");
    }

    let mut command = Command::new(&path);
    command.arg0(&arguments.program).args(&arguments.arguments);
    // A program with another loader would not start with our library preloaded. For the others it
    // does no harm, and it is preloaded into the programs that they start in turn.
    if !matches!(obstacle, Some(Obstacle::Program(Unfit::ForeignLoader(_)))) {
        match environment::preload(&library) {
            Ok(value) => command.env("LD_PRELOAD", value),
            Err(error) => return fail(EXIT_FAILED, &format!("{error:#}")),
        };
    }
    if arguments.socket.socket.is_some() {
        command.env(tickwire_lane_linux::control::SOCKET_VARIABLE, &socket);
    }
    if let Some(spin) = &arguments.spin {
        command.env("TICKWIRE_SPIN", spin);
    }
    if let Some(milliseconds) = arguments.min_rto {
        command.env("TICKWIRE_MIN_RTO", milliseconds.to_string());
    }
    if let Some(policy) = &arguments.helper_policy {
        command.env("TICKWIRE_HELPER_POLICY", policy);
    }
    if let Some(cpus) = &arguments.helper_cpus {
        command.env("TICKWIRE_HELPER_CPUS", cpus);
    }
    if let Some(when) = &arguments.realtime {
        command.env("TICKWIRE_REALTIME", when);
    }
    command.env_remove("TICKWIRE_REQUIRE").env_remove("TICKWIRE_NOTED");
    if arguments.require {
        command.env("TICKWIRE_REQUIRE", "1");
    }
    if obstacle.is_some() {
        // The library must not repeat this message.
        command.env("TICKWIRE_NOTED", "1");
    }
    let error = lookup::execute(command, &path, arguments);
    // ENOENT may refer to the interpreter or loader, not to the program itself.
    match fitness::missing(&path) {
        Some(missing) => fail(EXIT_NOT_EXECUTABLE, &format!("{name}: what runs it, {missing:?}, is not there")),
        None => fail(EXIT_NOT_EXECUTABLE, &format!("{name}: cannot be executed: {error}")),
    }
}

/// Why a program will run on the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// No service answers.
    Away(String),
    /// This user may not connect to it, or another program answers there.
    Service(String),
    Program(Unfit),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Away(why) | Self::Service(why) => f.write_str(why),
            Self::Program(unfit) => unfit.fmt(f),
        }
    }
}

fn obstacle(program: &Path, socket: &Path) -> Option<Obstacle> {
    if let Err(unfit) = fitness::check(program) {
        return Some(Obstacle::Program(unfit));
    }
    let error = environment::service_answers(socket).err()?;
    let why = client::why_not(socket, &error);
    Some(match why_unconnected(socket, &error) {
        Reason::NotPermitted | Reason::NotService => Obstacle::Service(why),
        _ => Obstacle::Away(why),
    })
}

fn fail(code: u8, message: &str) -> ExitCode {
    eprintln!("tickwire: {message}");
    ExitCode::from(code)
}
