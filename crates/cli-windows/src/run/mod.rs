//! `tickwire run`: starts a program with the library in it, which takes the place of Winsock.
//!
//! | module | purpose |
//! |---|---|
//! | `obstacle` | why a program will run on Windows' own stack |
//! | `refusal` | why Windows does not start a program |
//! | `services` | services of Windows that start by `tickwire run` |

mod obstacle;
mod refusal;
pub(crate) mod services;

use crate::args::Run;
use crate::installation;
use obstacle::Obstacle;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::time::Duration;
use tickwire_lane_windows::control::SOCKET_VARIABLE;
use tickwire_launcher_windows::{Launch, LaunchError, LoadState, RunningProgram, program_search};
use tickwire_show::sanitize_terminal::sanitized;
use tickwire_show::sentence::sentence;

/// The service or the lane is not available, and `--require` was given (`EX_UNAVAILABLE`).
const EXIT_UNAVAILABLE: u8 = 69;
/// `tickwire run` itself failed.
const EXIT_FAILED: u8 = 125;
/// The program was not found.
const EXIT_NOT_FOUND: u8 = 127;

/// Within this the library takes its place.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Does what the command line says. A program is started, and this ends with its exit status.
pub(crate) fn run(arguments: &Run) -> ExitCode {
    let outcome = match (&arguments.program, &arguments.add, &arguments.remove) {
        (Some(program), _, _) => return start(program, arguments),
        (_, Some(service), _) => services::add(service, arguments),
        (_, _, Some(service)) => services::remove(service),
        _ => services::list(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &sentence(&error)),
    }
}

/// Starts the program, and ends with its exit status.
fn start(program: &OsStr, arguments: &Run) -> ExitCode {
    if program.is_empty() {
        return fail(EXIT_NOT_FOUND, "the name of the program is empty");
    }
    let name = program.to_string_lossy();
    let Some(path) = program_search::find(program) else {
        return fail(EXIT_NOT_FOUND, &format!("{name}: not found: name its path, or a program in a folder of PATH"));
    };
    let library = match installation::library() {
        Ok(library) => library,
        Err(error) => return fail(EXIT_FAILED, &error.to_string()),
    };
    let obstacle = Obstacle::find(&path, arguments.socket.pipe());
    if let Some(obstacle) = &obstacle {
        if arguments.require {
            return fail(EXIT_UNAVAILABLE, &format!("{name} was not started: {obstacle}"));
        }
        let polled = if obstacle.leaves_polling() && polls() { ", polled" } else { "" };
        say(&format!("{name} runs on the kernel's network stack{polled}: {obstacle}"));
    }
    let variable = |name: &str, value: Option<&str>| (OsString::from(name), value.map(OsString::from));
    let launch = Launch {
        program: program.into(),
        arguments: arguments.arguments.clone(),
        library,
        require: arguments.require,
        environment: vec![
            variable(SOCKET_VARIABLE, Some(arguments.socket.pipe())),
            variable("TICKWIRE_REQUIRE", arguments.require.then_some("1")),
            // The library is not to repeat it.
            variable("TICKWIRE_NOTED", obstacle.is_some().then_some("1")),
        ],
        // As if the program were this process.
        bound: true,
        only: None,
    };
    let program = match launch.start() {
        Ok(program) => program,
        Err(LaunchError::Refused(error)) => {
            let code = LaunchError::Refused(error.kind().into()).exit_code();
            return fail(code, &format!("{name}: {}", refusal::sentence(&error)));
        }
        Err(error) => return fail(error.exit_code(), &format!("{name}: {error}")),
    };
    if let Some(why) = without_library(&program) {
        if arguments.require {
            program.end(EXIT_UNAVAILABLE.into());
            return fail(EXIT_UNAVAILABLE, &format!("{name} was ended: {why}"));
        }
        if obstacle.is_none() {
            say(&format!("{name} runs on the kernel's network stack: {why}"));
        }
    }
    match program.wait() {
        Ok(code) => {
            if let Some(why) = refusal::of_loader(code) {
                say(&format!("{name}: {why}"));
            }
            std::process::exit(code.cast_signed())
        }
        Err(error) => fail(EXIT_FAILED, &format!("cannot wait for {name}: {error}")),
    }
}

/// Why the library is not at work in a program that has been started.
fn without_library(program: &RunningProgram) -> Option<String> {
    if let Err(error) = program.entered() {
        return Some(error.to_string());
    }
    match program.wait_until_ready(TIMEOUT) {
        LoadState::Ready | LoadState::Ended => None,
        LoadState::Loaded => Some("the library is in it, but cannot take the place of Winsock".into()),
        LoadState::Pending => Some("Windows does not load the library into it".into()),
        LoadState::NotEntered => Some("the library was not entered".into()),
    }
}

/// Whether the library polls the kernel's sockets, as its variable has it.
fn polls() -> bool {
    !std::env::var("TICKWIRE_SPIN").is_ok_and(|value| value == "never" || value == "0")
}

fn fail(code: u8, message: &str) -> ExitCode {
    say(message);
    ExitCode::from(code)
}

/// The name of a program may contain what a terminal obeys.
fn say(message: &str) {
    eprintln!("tickwire: {}", sanitized(message, usize::MAX));
}
