//! Waiting until what was sent has been acknowledged: at the program's end, and for `SO_LINGER`.

use crate::c::sys;
use crate::lane::Lane;
use crate::pending;
use crate::wait::{self, AGAIN, NO_FD, OWN, Plan};
use tickwire_stack::TcpId;
use tickwire_stack::time::{Instant, Span};

/// At the program's end: how long a peer may make no progress before what is left is given up.
const PATIENCE: Span = Span::from_secs(2);
/// At the program's end: the longest wait of all.
const LONGEST: Span = Span::from_secs(20);

/// Waits until a connection that was shut has had everything acknowledged, FIN too, or until `until`.
pub(crate) fn until_acknowledged(lane: &'static Lane, id: TcpId, until: Instant) {
    let attempt = |access: &mut crate::lane::Access<'_>, _: bool| {
        let info = access.stack.tcp_info(id, access.now)?;
        use tickwire_stack::tcp::State::{CloseWait, Closing, Established, FinWait1, LastAck};
        let sending = matches!(info.state, Established | CloseWait | FinWait1 | Closing | LastAck);
        if sending || info.outstanding + info.unsent > 0 { Err(AGAIN) } else { Ok(()) }
    };
    let mut attempt = attempt;
    if lane.with(|access| attempt(access, false)) == Err(AGAIN) {
        let _ = wait_in_steps(lane, until, &mut attempt);
    }
}

/// Acknowledgements do not make a socket ready, so nobody rings for them: the wait is in short steps.
fn wait_in_steps(
    lane: &'static Lane,
    until: Instant,
    attempt: &mut impl FnMut(&mut crate::lane::Access<'_>, bool) -> crate::errno::Result<()>,
) -> crate::errno::Result<()> {
    loop {
        let step = (sys::now() + Span::from_millis(5)).min(until);
        let mut plan = Plan { fds: &mut [NO_FD; OWN], until: Some(step), mask: None, restart: true };
        match wait::wait(lane, &mut plan, &mut *attempt) {
            Err(wait::TIMED_OUT) if sys::now() < until => {}
            done => return done,
        }
    }
}

/// Waits until the connections that the program has closed have nothing left to send, or make no progress.
pub(crate) fn at_exit(lane: &'static Lane) {
    let begin = sys::now();
    let mut last = (0, begin);
    let mut attempt = |access: &mut crate::lane::Access<'_>, _: bool| {
        if !pending::unfinished(access) {
            return Ok(());
        }
        let progress = access.stack.counters().tcp_in_segs.get();
        if progress != last.0 {
            last = (progress, access.now);
        }
        if access.now.since(last.1) > PATIENCE { Ok(()) } else { Err(AGAIN) }
    };
    if lane.with(|access| attempt(access, false)) == Err(AGAIN) {
        let _ = wait_in_steps(lane, begin + LONGEST, &mut attempt);
    }
}
