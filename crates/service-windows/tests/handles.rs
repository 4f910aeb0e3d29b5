//! What is left of programs that have come and gone. It counts the handles of its process, so it is
//! the only test in it.
#![cfg(windows)]

mod common;

use common::{Running, ask, claim, socket};
use std::thread;
use std::time::Duration;
use tickwire_lane::control::{Reply, Request};
use windows_sys::Win32::Foundation::GetHandleInformation;

/// How many handles this process has: all of them have small values, which are multiples of 4.
/// (Wine 8 answers `GetProcessHandleCount` with 0.)
fn handles() -> usize {
    let is_open = |value: &usize| {
        let mut flags = 0;
        // SAFETY: any value is allowed; a place for the result.
        unsafe { GetHandleInformation(std::ptr::without_provenance_mut(*value), &raw mut flags) != 0 }
    };
    (4..0x4000).step_by(4).filter(is_open).count()
}

#[test]
fn programs_that_come_and_go_leave_no_handles_behind() {
    let service = Running::new();
    let round = || {
        let (mut program, _handles) = service.program();
        claim(&mut program, &socket()).unwrap();
        let mut tool = service.connect();
        drop(program);
        while matches!(ask(&mut tool, &Request::ListLanes { after: 0 }, &[]).0, Reply::LaneInfo { .. }) {
            thread::yield_now();
        }
    };
    (0..5).for_each(|_| round());
    let before = handles();
    assert!(before > 0, "handles are not counted");
    (0..50).for_each(|_| round());
    // Threads that are about to end have some.
    let mut after = handles();
    for _ in 0..20 {
        if after <= before + 10 {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        after = handles();
    }
    assert!(after <= before + 10, "{before} handles, then {after}");
}
