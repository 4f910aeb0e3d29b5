//! The end of the process. What was sent is still to arrive, as with the kernel's sockets, which go
//! on without their process: a lane ends with it.

use crate::hook::boundary::answer_or;
use crate::hook::{NTDLL, Original, reentrancy};
use crate::lane::{AtEnd, exit_gate, lane_if_begun};
use crate::socket::table;
use std::time::{Duration, Instant};

/// So long it waits for peers to acknowledge.
const LONGEST: Duration = Duration::from_secs(3);

type ExitProcessFn = unsafe extern "system" fn(code: u32);

// SAFETY: the type is the one of its documentation; it does not return.
pub(super) static RTL_EXIT_USER_PROCESS: Original<ExitProcessFn> =
    unsafe { Original::new(NTDLL, c"RtlExitUserProcess") };

pub(super) unsafe extern "system" fn rtl_exit_user_process(code: u32) {
    let finish = || {
        finish();
        Ok(None)
    };
    answer_or((), finish, || {
        // Windows ends the other threads, and then this one runs what modules do at the end.
        reentrancy::leave_for_good();
        // SAFETY: no memory is passed.
        unsafe { RTL_EXIT_USER_PROCESS.get()(code) }
    });
}

/// Closes all sockets, and waits until their connections have ended.
fn finish() {
    let Some(lane) = lane_if_begun() else { return };
    if !exit_gate::close() {
        // Another thread does so, and what it waits for is to arrive.
        return exit_gate::pass();
    }
    for socket in table::take_all() {
        if let Some(closing) = socket.close() {
            lane.finish(Box::new(move |lane, _| closing.is_acknowledged(lane)));
        }
    }
    let begin = Instant::now();
    // (Without the service nothing arrives any more.)
    while !lane.is_lost() && lane.work(AtEnd(true)) && begin.elapsed() < LONGEST {
        // Packets come in by the helper thread, which lives until the process has ended.
        std::thread::sleep(Duration::from_millis(1));
    }
}
