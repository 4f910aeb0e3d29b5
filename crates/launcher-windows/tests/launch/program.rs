//! The program that is started.
//!
//! It runs where the C runtime calls constructors: after all imported libraries are loaded, before
//! `main`. So it shows what is loaded by then, and the test harness does not see its arguments.

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tickwire_launcher_windows::{LOADED_EVENT, Launch};
use windows_sys::Win32::System::LibraryLoader::GetModuleHandleW;
use windows_sys::Win32::System::Threading::SetEvent;

/// Which program of this file a process is.
const ROLE: &str = "TICKWIRE_TEST_ROLE";
/// Where it writes its report.
const REPORT: &str = "TICKWIRE_TEST_REPORT";
/// The variable that it reports.
pub(crate) const VARIABLE: &str = "TICKWIRE_TEST_VARIABLE";

/// Its exit code; no error has the same.
pub(crate) const CODE: u32 = 0x1234_5678;

/// More than anything takes.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The library's file name.
const LIBRARY: &str = "version.dll";

#[used]
#[unsafe(link_section = ".CRT$XCU")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "report" => report(),
        // As a library does that is ready.
        "ready" => {
            let handle = std::env::var(LOADED_EVENT).unwrap().parse::<usize>().unwrap();
            // SAFETY: a handle that the launcher has made for this process.
            assert_ne!(unsafe { SetEvent(std::ptr::with_exposed_provenance_mut(handle)) }, 0);
        }
        // Until the test lets it go on.
        "wait" => {
            report();
            let go = report_file().with_extension("go");
            let begin = Instant::now();
            while !go.exists() && begin.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::fs::write(report_file().with_extension("gone"), "").unwrap();
        }
        "echo" => {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).unwrap();
            print!("out {line}");
            eprint!("err {line}");
            std::io::stdout().flush().unwrap();
        }
        // Launches another one, as a program of its own, or bound to it (`binder`).
        launcher => {
            let (kind, role) = launcher.split_once(' ').unwrap();
            let bound = kind == "binder";
            let mut launch = Launch { require: true, bound, ..launch_file(role, &report_file()) };
            launch.arguments = std::env::args_os().skip(1).collect();
            let program = launch.start().unwrap();
            exit(program.wait().unwrap().cast_signed());
        }
    }
    exit(CODE.cast_signed());
}

fn report_file() -> PathBuf {
    std::env::var_os(REPORT).unwrap().into()
}

/// What the program saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) is_loaded: bool,
    pub(crate) variable: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) arguments: Vec<OsString>,
}

/// Writes the report, all of it at once: what is there is complete.
fn report() {
    let variable = std::env::var(VARIABLE).unwrap_or_else(|_| "none".into());
    let folder = std::env::current_dir().unwrap();
    let mut text = format!("{}\0{variable}\0{}", is_loaded(), folder.display()).into_bytes();
    for argument in std::env::args_os() {
        text.push(0);
        text.extend(argument.as_encoded_bytes());
    }
    let begun = report_file().with_extension("begun");
    std::fs::write(&begun, text).unwrap();
    std::fs::rename(&begun, report_file()).unwrap();
}

/// Whether the library is loaded into this process.
pub(crate) fn is_loaded() -> bool {
    let name: Vec<u16> = LIBRARY.encode_utf16().chain([0]).collect();
    // SAFETY: a name that ends with a zero.
    !unsafe { GetModuleHandleW(name.as_ptr()) }.is_null()
}

/// The library's path.
pub(crate) fn library() -> PathBuf {
    let system = std::env::var_os("SystemRoot").unwrap();
    Path::new(&system).join("system32").join(LIBRARY)
}

/// A program, and where it reports.
pub(crate) struct Bed {
    pub(crate) folder: TempDir,
    pub(crate) launch: Launch,
}

impl Bed {
    pub(crate) fn new(role: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let launch = launch_file(role, &folder.path().join("report"));
        Self { folder, launch }
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.path().join("report").with_extension(extension)
    }

    /// Lets a program that waits go on.
    pub(crate) fn go(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }

    /// Waits until a program that waited has gone on.
    pub(crate) fn has_gone(&self) -> bool {
        appears(&self.path("gone"))
    }

    /// Whether a program that waited has gone on by now.
    pub(crate) fn is_gone(&self) -> bool {
        self.path("gone").exists()
    }

    /// Whether there is a report.
    pub(crate) fn has_report(&self) -> bool {
        self.path("").exists()
    }

    /// The report, as soon as there is one.
    pub(crate) fn report(&self) -> Report {
        assert!(appears(&self.path("")), "a report");
        let text = std::fs::read(self.path("")).unwrap();
        let mut parts = text.split(|byte| *byte == 0);
        let mut word = || String::from_utf8(parts.next().unwrap().to_vec()).unwrap();
        let (is_loaded, variable, folder) = (word() == "true", word(), word().into());
        // SAFETY: encoded by this program, and split where no character is.
        let argument = |bytes: &[u8]| unsafe { OsString::from_encoded_bytes_unchecked(bytes.to_vec()) };
        let variable = Some(variable).filter(|variable| variable != "none");
        Report { is_loaded, variable, folder, arguments: parts.map(argument).collect() }
    }
}

/// A launch of this program in a role.
fn launch_file(role: &str, report: &Path) -> Launch {
    let environment = vec![(ROLE.into(), Some(role.into())), (REPORT.into(), Some(report.into()))];
    let program = std::env::current_exe().unwrap();
    Launch { program, library: library(), environment, ..Launch::default() }
}

/// This program in a role, without a launcher.
pub(crate) fn command(bed: &Bed) -> std::process::Command {
    let mut command = std::process::Command::new(&bed.launch.program);
    command.args(&bed.launch.arguments);
    command.envs(bed.launch.environment.iter().map(|(name, value)| (name, value.as_ref().unwrap())));
    command
}

/// Waits until a file is there.
fn appears(path: &Path) -> bool {
    let begin = Instant::now();
    while !path.exists() && begin.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(10));
    }
    path.exists()
}
