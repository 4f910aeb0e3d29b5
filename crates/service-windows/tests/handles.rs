//! What is left of programs that have come and gone. It counts the handles of its process, so it is
//! the only test in it.
#![cfg(windows)]

mod common;

use common::{Running, ask, claim, socket};
use std::thread;
use std::time::Duration;
use tickwire_lane::control::{Reply, Request};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount};

/// How many handles this process has.
fn handles() -> u32 {
    let mut count = 0;
    // SAFETY: room for what the call writes.
    assert_ne!(unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) }, 0);
    count
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
    (0..50).for_each(|_| round());
    // Threads that are about to end have some.
    let mut after = handles();
    for _ in 0..1000 {
        if after <= before + 10 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
        after = handles();
    }
    assert!(after <= before + 10, "{before} handles, then {after}");
}
