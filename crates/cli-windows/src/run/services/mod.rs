//! `tickwire run --add`: a service of Windows is entered at each start.
//!
//! | module | purpose |
//! |---|---|
//! | `service_line` | the service's command line, with `tickwire run` before it |
//!
//! The service manager starts `tickwire run`. That starts the service's program with the library
//! in it, and ends with it. So the process that connects to the service manager
//! (`StartServiceCtrlDispatcher`) is a child of the one that it has started. The manager permits
//! that: it takes the connection of the pipe on which it waits. It notes in the event log that
//! another process has connected (event 7039, a warning, which says that this is expected where a
//! service is configured to start under a debugger). A stop request goes by that connection, so it
//! reaches the program.
//!
//! Other ways are not taken. `Image File Execution Options` hold for all programs of that file
//! name. A changed import table in the program's file breaks its signature.
//!
//! The command line that was there is kept beside the service's other values in the registry, with
//! its type, and is put back exactly.

mod service_line;

use super::obstacle::Obstacle;
use crate::args::Run;
use crate::installation::warn_of_place;
use crate::sys::services::{self, RegistryText, ServiceEntry};
use anyhow::{Context, Result, anyhow, bail};
use service_line::{ServiceLine, starter};
use std::io;
use std::path::{Path, PathBuf};
use tickwire_launcher_windows::program_search;
use tickwire_show::finding::Finding;
use tickwire_show::sanitize_terminal::sanitized;

/// The value beside a service's other ones that has its own command line.
const NOTE: &str = "TickwireImagePath";

/// The value with the command line.
const COMMAND_LINE: &str = "ImagePath";

/// The service manager's own service of that name.
const OWN: &str = "Tickwire";

/// Kinds of services (`SERVICE_` bits): drivers; in a process of its own; of each user.
const DRIVERS: u32 = 0xb;
const OWN_PROCESS: u32 = 0x10;
const OF_USERS: u32 = 0x40;

const ACCESS_DENIED: i32 = 5;

/// Adds a service.
pub(super) fn add(name: &str, arguments: &Run) -> Result<()> {
    let entry = read(name)?;
    if services::note(name, NOTE)?.is_some() {
        bail!("the service {name} was added already: `tickwire run --remove {name}` takes that back");
    }
    let line = addable(name, &entry)?;
    let text = line.text();
    let expand = |path: &str| if line.has_variables() { tickwire_host_windows::expanded(path) } else { path.into() };
    let file = |path: &str| program_file(Path::new(&expand(path)));
    let parsed = ServiceLine::parse(&text, file)
        .with_context(|| format!("the program of the service {name} is not found: its command line is {text}"))?;
    let program = file(parsed.program).context("its program has gone")?;
    if program.file_name().is_some_and(|file| file.eq_ignore_ascii_case("svchost.exe")) {
        bail!("the service {name} runs in svchost.exe, a process of Windows for several services: leave it as it is");
    }
    if let Some(obstacle) = Obstacle::of_file(&program) {
        bail!("the service {name} cannot be accelerated: {obstacle}");
    }
    let tickwire = std::env::current_exe().context("cannot find this program")?;
    let new = parsed.through(&tickwire, &options(arguments));
    services::set_text(name, NOTE, Some(line)).map_err(explained)?;
    if let Err(error) = services::set_command_line(name, &new) {
        let _ = services::set_text(name, NOTE, None);
        return Err(explained(error));
    }
    println!("the service {name} is added: from its next start on it runs by `tickwire run`");
    println!("  its command line was: {}", shown(&text));
    println!("  and is now:           {}", shown(&new));
    println!("`tickwire run --remove {name}` takes that back.");
    println!("Windows notes event 7039 at each start of it: another process than the one started is the service.");
    warn_of_place(&tickwire);
    Ok(())
}

/// Takes that back.
pub(super) fn remove(name: &str) -> Result<()> {
    let entry = read(name)?;
    let Some(before) = services::note(name, NOTE)? else {
        bail!("the service {name} was not added: `tickwire run --list` shows those that were");
    };
    let now = entry.command_line.map(|line| line.text()).unwrap_or_default();
    if starter(&now).is_none() {
        services::set_text(name, NOTE, None).map_err(explained)?;
        bail!(
            "the command line of the service {name} has been changed since, and stays as it is ({}): it is not listed any more",
            shown(&now)
        );
    }
    services::set_command_line(name, &before.text()).map_err(explained)?;
    // Exactly as it was: the service manager has a type of its own for it.
    services::set_text(name, COMMAND_LINE, Some(&before)).map_err(explained)?;
    services::set_text(name, NOTE, None).map_err(explained)?;
    println!("the service {name} is removed from Tickwire: from its next start on it runs as before");
    println!("  its command line is: {}", shown(&before.text()));
    Ok(())
}

/// Prints those that were added.
pub(super) fn list() -> Result<()> {
    let added = added()?;
    if added.is_empty() {
        println!("no service was added: `tickwire run --add NAME` does that");
    }
    for service in added {
        let state = match &service.starter {
            Some(starter) => format!("starts by {}", starter.display()),
            None => "its command line has been changed since".into(),
        };
        println!("{}: {state}", shown(&service.name));
    }
    Ok(())
}

/// A service that was added.
#[derive(Debug)]
struct AddedService {
    name: String,
    /// The program by which it starts; `None`: its command line has been changed since.
    starter: Option<PathBuf>,
}

fn added() -> Result<Vec<AddedService>> {
    let mut added = Vec::new();
    for name in services::names().context("cannot read Windows' services")? {
        // One that cannot be read is none of ours.
        if let (Ok(Some(_)), Ok(Some(entry))) = (services::note(&name, NOTE), services::read(&name)) {
            let starter = entry.command_line.and_then(|line| starter(&line.text()));
            added.push(AddedService { name, starter });
        }
    }
    Ok(added)
}

/// For `tickwire doctor`: one finding for each service that was added.
pub(crate) fn findings() -> Vec<Finding> {
    added().unwrap_or_default().iter().map(finding).collect()
}

fn finding(service: &AddedService) -> Finding {
    let AddedService { name, starter } = service;
    let name = shown(name);
    match starter {
        Some(program) if program.is_file() => {
            Finding::good("added service", format!("{name} starts by {}", program.display()))
        }
        Some(program) => Finding::improve(
            "added service",
            format!("{name} does not start: there is no {}", program.display()),
            format!("`tickwire run --remove {name}`"),
        ),
        None => Finding::improve(
            "added service",
            format!("the command line of {name} has been changed since it was added"),
            format!("`tickwire run --remove {name}`, and --add it again"),
        ),
    }
}

fn read(name: &str) -> Result<ServiceEntry> {
    services::read(name)?.with_context(|| format!("there is no service {name:?}: `sc query state= all` lists them"))
}

/// Its command line, if it is a service that can be added.
fn addable<'e>(name: &str, entry: &'e ServiceEntry) -> Result<&'e RegistryText> {
    let refusal = match entry.kind {
        _ if name.eq_ignore_ascii_case(OWN) => "is the one that accelerates others",
        kind if kind & DRIVERS != 0 => "is a driver: only programs can be accelerated",
        _ if entry.is_protected => "is protected: Windows loads no library of others into it",
        kind if kind & OF_USERS != 0 => {
            "is one that Windows makes anew for each user: its entry is not the one that runs"
        }
        kind if kind & OWN_PROCESS == 0 => "shares its process with others: leave it as it is",
        _ => return entry.command_line.as_ref().with_context(|| format!("the service {name} has no command line")),
    };
    Err(anyhow!("the service {name} {refusal}"))
}

/// The options of `tickwire run` in the service's command line.
fn options(arguments: &Run) -> String {
    let require = if arguments.require { " --require" } else { "" };
    let socket = arguments.socket.socket.as_ref().map(|pipe| format!(" --socket=\"{pipe}\"")).unwrap_or_default();
    format!("{require}{socket}")
}

/// The file of a program, as Windows completes its name.
fn program_file(path: &Path) -> Option<PathBuf> {
    path.is_absolute().then(|| program_search::find(path.as_os_str())).flatten()
}

/// What a terminal is not to obey is replaced.
fn shown(text: &str) -> String {
    sanitized(text, usize::MAX)
}

/// An error of Windows as a sentence that says what to do.
fn explained(error: io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(ACCESS_DENIED) => anyhow!("this needs administrator rights: start a console as administrator"),
        _ => anyhow!("Windows refuses to change the service: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u32, is_protected: bool) -> ServiceEntry {
        ServiceEntry { kind, command_line: Some(RegistryText::new(r"C:\s\echo.exe")), is_protected }
    }

    #[test]
    fn what_cannot_be_added_says_why() {
        let refused = |name, kind, is_protected| addable(name, &entry(kind, is_protected)).unwrap_err().to_string();
        assert!(refused("Disk", 1, false).contains("is a driver"));
        assert!(refused("Files", 2, false).contains("is a driver"));
        assert!(refused("Guard", 0x10, true).contains("is protected"));
        assert!(refused("Shared", 0x20, false).contains("shares its process"));
        assert!(refused("OfUsers", 0x50, false).contains("for each user"));
        assert!(refused("tickwire", 0x10, false).contains("accelerates others"));
        assert_eq!(addable("Echo", &entry(0x10, false)).unwrap().text(), r"C:\s\echo.exe");
        assert_eq!(addable("Echo", &entry(0x110, false)).unwrap().text(), r"C:\s\echo.exe", "one with a desktop");
        let missing = add("no such service", &run(&[])).unwrap_err().to_string();
        assert!(missing.contains("there is no service \"no such service\""), "{missing}");
        assert!(remove("no such service").is_err());
    }

    fn run(options: &[&str]) -> Run {
        use clap::Parser;
        let line = ["tickwire", "run"].iter().chain(options).chain(&["--add", "x"]);
        match crate::args::Arguments::parse_from(line).command {
            crate::args::Command::Run(run) => run,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn options_go_into_the_command_line() {
        assert_eq!(options(&run(&["--require", "--socket", r"\\.\pipe\x"])), r#" --require --socket="\\.\pipe\x""#);
        assert!(explained(io::Error::from_raw_os_error(ACCESS_DENIED)).to_string().contains("as administrator"));
    }

    #[test]
    fn the_doctor_says_what_is_wrong_with_an_added_service() {
        let added = |starter: Option<&str>| AddedService { name: "Echo".into(), starter: starter.map(PathBuf::from) };
        let own = std::env::current_exe().unwrap();
        assert!(finding(&added(own.to_str())).to_string().contains("Echo starts by"));
        assert!(finding(&added(Some(r"C:\none\tickwire.exe"))).to_string().contains("does not start"));
        assert!(finding(&added(None)).to_string().contains("has been changed since"));
    }
}
