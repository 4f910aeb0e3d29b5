//! The library is loaded before the program's code runs.

use crate::program::{Bed, CODE, SOON, command, is_loaded, library};
use std::os::windows::io::AsHandle;
use std::os::windows::process::CommandExt;
use std::time::Duration;
use tickwire_launcher_windows::error::{ImportError, ThreadError};
use tickwire_launcher_windows::{EnterError, EnteredBy, LOADED_EVENT, Launch, LoadState, enter};
use windows_sys::Win32::System::Threading::CREATE_SUSPENDED;

fn is_loaded_before_main(only: Option<EnteredBy>, way: EnteredBy) {
    let mut bed = Bed::new("wait");
    bed.launch = Launch { only, require: true, ..bed.launch };
    let program = bed.launch.start().unwrap();
    assert_eq!(program.entered().unwrap(), way);
    assert_eq!(program.wait_until_loaded(SOON), LoadState::Loaded);
    assert!(bed.report().is_loaded);
    assert_eq!(program.load_state(), LoadState::Loaded);
    bed.go();
    assert_eq!(program.wait().unwrap(), CODE);
    assert!(bed.has_gone());
}

#[test]
fn by_the_import_table() {
    is_loaded_before_main(Some(EnteredBy::ImportTable), EnteredBy::ImportTable);
}

#[test]
fn by_a_thread() {
    is_loaded_before_main(Some(EnteredBy::RemoteThread), EnteredBy::RemoteThread);
}

#[test]
fn by_the_import_table_first() {
    is_loaded_before_main(None, EnteredBy::ImportTable);
}

#[test]
fn a_library_says_that_it_is_ready() {
    for only in [EnteredBy::ImportTable, EnteredBy::RemoteThread] {
        let mut bed = Bed::new("ready");
        // A value that this process was given does not count.
        bed.launch.environment.push((LOADED_EVENT.into(), Some("4".into())));
        bed.launch.only = Some(only);
        let program = bed.launch.start().unwrap();
        assert_eq!(program.wait_until_ready(SOON), LoadState::Ready);
        assert_eq!(program.wait().unwrap(), CODE);
        assert_eq!(program.wait_until_loaded(SOON), LoadState::Ready, "it remains known");
    }
    let bed = Bed::new("wait");
    let program = bed.launch.start().unwrap();
    assert!(bed.report().is_loaded);
    assert_eq!(program.wait_until_ready(Duration::from_millis(20)), LoadState::Loaded);
    bed.go();
    assert_eq!(program.wait_until_ready(SOON), LoadState::Ended);
}

#[test]
fn without_a_launcher_it_is_not_loaded() {
    assert!(!is_loaded(), "the program does not import it");
    let bed = Bed::new("report");
    assert_eq!(command(&bed).status().unwrap().code().unwrap().cast_unsigned(), CODE);
    assert!(!bed.report().is_loaded);
}

/// As a library does that is told of a process that its program makes.
#[test]
fn a_suspended_process_is_entered() {
    let bed = Bed::new("report");
    let mut child = command(&bed).creation_flags(CREATE_SUSPENDED).spawn().unwrap();
    assert_eq!(enter(child.as_handle(), &library()).unwrap(), EnteredBy::ImportTable);
    // Once more does no harm.
    assert_eq!(enter(child.as_handle(), &library()).unwrap(), EnteredBy::ImportTable);
    assert!(!bed.has_report(), "it remains suspended");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_that_runs_is_entered_by_a_thread() {
    let bed = Bed::new("wait");
    let mut child = command(&bed).spawn().unwrap();
    assert!(!bed.report().is_loaded);
    assert_eq!(enter(child.as_handle(), &library()).unwrap(), EnteredBy::RemoteThread);
    bed.go();
    assert_eq!(child.wait().unwrap().code().unwrap().cast_unsigned(), CODE);
}

#[test]
fn a_process_that_has_ended_is_not_entered() {
    let bed = Bed::new("report");
    let mut child = command(&bed).spawn().unwrap();
    child.wait().unwrap();
    enter(child.as_handle(), &library()).unwrap_err();
}

#[test]
fn a_path_that_no_import_table_can_have_is_loaded_by_a_thread() {
    let mut bed = Bed::new("report");
    let folder = bed.folder.path().join("Bücher");
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join("version.dll");
    std::fs::copy(library(), &copy).unwrap();
    bed.launch = Launch { library: copy.clone(), require: true, ..bed.launch };
    let program = bed.launch.start().unwrap();
    assert_eq!(program.entered().unwrap(), EnteredBy::RemoteThread);
    assert_eq!(program.wait().unwrap(), CODE);
    assert!(bed.report().is_loaded);

    let mut bed = Bed::new("report");
    bed.launch = Launch { library: copy, require: true, only: Some(EnteredBy::ImportTable), ..bed.launch };
    let error = bed.launch.start().unwrap_err();
    assert!(matches!(
        error,
        tickwire_launcher_windows::LaunchError::NotEntered(EnterError::Failed {
            import_table: ImportError::LibraryPath,
            thread: ThreadError::NotTried
        })
    ));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!bed.has_report());
}
