//! Processes that are started. Instead of a library, they get an entry in a list.

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::Duration;
use tickwire_winsock::hook::{Hook, child_processes, install};
use windows_sys::Win32::System::Threading::{CREATE_SUSPENDED, DEBUG_PROCESS, GetProcessId};

static ENTERED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn enter(process: BorrowedHandle<'_>, library: &Path) -> io::Result<()> {
    assert!(library.exists());
    // SAFETY: an open handle.
    ENTERED.lock().unwrap().push(unsafe { GetProcessId(process.as_raw_handle()) });
    // The process must run all the same.
    Err(io::ErrorKind::Other.into())
}

fn start(flags: u32) -> Child {
    let mut command = Command::new("cmd.exe");
    command.args(["/c", "exit", "3"]).creation_flags(flags).spawn().unwrap()
}

fn is_entered(child: &Child) -> bool {
    ENTERED.lock().unwrap().contains(&child.id())
}

#[test]
#[expect(clippy::zombie_processes, reason = "a process that is debugged ends with its debugger")]
fn new_processes_are_entered_and_run() {
    static TABLES: &[&[Hook]] = &[&child_processes::HOOKS];
    install(TABLES).unwrap();
    let mut child = start(0);
    assert!(!is_entered(&child));
    assert_eq!(child.wait().unwrap().code(), Some(3));

    child_processes::enter_by(enter);
    let mut child = start(0);
    assert!(is_entered(&child));
    assert_eq!(child.wait().unwrap().code(), Some(3));

    let mut suspended = start(CREATE_SUSPENDED);
    assert!(is_entered(&suspended));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(suspended.try_wait().unwrap(), None);
    suspended.kill().unwrap();
    suspended.wait().unwrap();

    // Its debugger is this process, which handles no event of it.
    let mut debugged = start(DEBUG_PROCESS);
    assert!(!is_entered(&debugged));
    let _ = debugged.kill();

    let missing = Command::new("no such program.exe").spawn().unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}
