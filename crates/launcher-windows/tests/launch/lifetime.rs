//! A program ends when it wants to, not when its launcher does, unless it is bound to that.

use crate::program::{Bed, CODE, SOON, command};
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::time::Duration;
use tickwire_launcher_windows::{Launch, LoadState, RunningProgram};
use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::System::Threading::{TerminateProcess, WaitForSingleObject};

/// The end of a process takes no longer.
const BRIEFLY: Duration = Duration::from_millis(500);

fn kill(program: &RunningProgram, code: u32) {
    // SAFETY: an open process.
    assert_ne!(unsafe { TerminateProcess(program.as_handle().as_raw_handle(), code) }, 0);
}

/// Starts a launcher, and kills it when its program runs.
fn kill_launcher(bed: &Bed) {
    let mut launcher = command(bed).spawn().unwrap();
    assert!(bed.report().is_loaded);
    launcher.kill().unwrap();
    launcher.wait().unwrap();
}

#[test]
fn the_exit_code_of_a_program_that_is_killed_is_passed_on() {
    let bed = Bed::new("wait");
    let program = bed.launch.start().unwrap();
    assert!(bed.report().is_loaded);
    kill(&program, 7);
    assert_eq!(program.wait().unwrap(), 7);
    assert!(matches!(program.load_state(), LoadState::Ended));
}

#[test]
fn a_program_goes_on_if_its_launcher_is_killed() {
    let bed = Bed::new("launcher wait");
    kill_launcher(&bed);
    bed.go();
    assert!(bed.has_gone());
}

#[test]
fn a_program_that_is_bound_ends_with_its_launcher() {
    let bed = Bed::new("binder wait");
    kill_launcher(&bed);
    std::thread::sleep(BRIEFLY);
    bed.go();
    std::thread::sleep(2 * BRIEFLY);
    assert!(!bed.is_gone());
}

#[test]
fn a_program_that_is_bound_ends_by_itself_and_with_its_value() {
    let bed = Bed::new("wait");
    let bound = Launch { bound: true, ..bed.launch.clone() };
    let program = bound.start().unwrap();
    assert!(bed.report().is_loaded);
    bed.go();
    assert_eq!(program.wait().unwrap(), CODE);
    assert!(bed.has_gone());
    let bed = Bed::new("wait");
    let program = Launch { bound: true, ..bed.launch.clone() }.start().unwrap();
    assert!(bed.report().is_loaded);
    let process = program.as_handle().try_clone_to_owned().unwrap();
    drop(program);
    // SAFETY: an open process.
    assert_eq!(unsafe { WaitForSingleObject(process.as_raw_handle(), SOON.as_millis() as u32) }, WAIT_OBJECT_0);
}

#[test]
fn what_a_program_that_is_bound_has_started_goes_on() {
    let bed = Bed::new("binder launcher wait");
    kill_launcher(&bed);
    bed.go();
    assert!(bed.has_gone());
}

#[test]
fn a_program_goes_on_if_it_is_not_waited_for() {
    let bed = Bed::new("wait");
    drop(bed.launch.start().unwrap());
    assert!(bed.report().is_loaded);
    bed.go();
    assert!(bed.has_gone());
}

#[test]
fn a_chain_of_launchers_passes_the_exit_code_on() {
    let mut bed = Bed::new("launcher report");
    bed.launch = Launch { require: true, arguments: vec!["a b".into()], ..bed.launch };
    let program = bed.launch.start().unwrap();
    assert_eq!(program.wait_until_loaded(SOON), LoadState::Loaded);
    assert_eq!(program.wait().unwrap(), CODE);
    assert_eq!(bed.report().arguments[1..], ["a b"]);
}
