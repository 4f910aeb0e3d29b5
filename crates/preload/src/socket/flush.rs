//! Waiting until sent data has been acknowledged: at the program's end, before an exec, and for
//! `SO_LINGER`.

use crate::base::deferred_signals;
use crate::lane::Lane;
use crate::socket::pending;
use crate::sys;
use crate::wait::{self, AGAIN, KernelHint, NO_FD, OWN, WaitPlan};
use tickwire_stack::TcpId;
use tickwire_stack::time::{Instant, Span};

/// At the end, or before exec: how long a peer may make no progress before the rest is given up.
const TIMEOUT: Span = Span::from_secs(2);
/// The upper bound of the whole wait.
const LONGEST: Span = Span::from_secs(20);

/// Waits until everything on a connection that was shut down has been acknowledged, including the
/// FIN. Ends at `until`, or if a signal is pending for the calling thread (as
/// `sk_stream_wait_close` in Linux).
pub(crate) fn until_acknowledged(lane: &'static Lane, id: TcpId, until: Instant) {
    let attempt = |access: &mut crate::lane::Access<'_>, _: KernelHint| {
        if deferred_signals::is_put_off() {
            return Ok(());
        }
        let info = access.stack.tcp_info(id, access.now)?;
        use tickwire_stack::tcp::TcpState::{CloseWait, Closing, Established, FinWait1, LastAck, SynReceived};
        let sending = matches!(info.state, SynReceived | Established | CloseWait | FinWait1 | Closing | LastAck);
        if sending || info.outstanding + info.unsent > 0 { Err(AGAIN) } else { Ok(()) }
    };
    let mut attempt = attempt;
    if lane.with(|access| attempt(access, KernelHint::Unknown)) == Err(AGAIN) {
        let _ = wait_in_steps(lane, until, &mut attempt);
    }
}

/// Acknowledgements do not make a socket ready, so nothing wakes this thread for them: it waits in
/// short steps.
fn wait_in_steps(
    lane: &'static Lane,
    until: Instant,
    attempt: &mut impl FnMut(&mut crate::lane::Access<'_>, KernelHint) -> crate::sys::errno::Result<()>,
) -> crate::sys::errno::Result<()> {
    loop {
        let step = (sys::now() + Span::from_millis(5)).min(until);
        let mut fds = [NO_FD; OWN];
        let mut plan = WaitPlan { watches: true, restart: true, ..WaitPlan::new(&[], &mut fds, Some(step)) };
        match wait::wait(lane, &mut plan, &mut *attempt) {
            Err(wait::TIMED_OUT) if sys::now() < until => {}
            done => return done,
        }
    }
}

/// Waits until the connections that the program has closed have nothing left to send, or make no
/// progress.
pub(crate) fn at_exit(lane: &'static Lane) {
    settle(lane, |access| pending::unfinished(access));
}

/// The same before an exec that does not continue with the lane. Also waits until sent data on open
/// connections has arrived, because exec closes them.
pub(crate) fn before_exec(lane: &'static Lane) {
    settle(lane, |access| pending::unfinished(access) || has_unsent(access));
}

/// Whether the open connections of this process alone have unacknowledged data.
fn has_unsent(access: &mut crate::lane::Access<'_>) -> bool {
    let own = 1 << access.slot;
    let used = access.descriptions().used();
    (0..used).any(|index| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        *description.holders() == own
            && TcpId::try_from(description.socket())
                .and_then(|id| access.stack.tcp_info(id, access.now))
                .is_ok_and(|info| info.outstanding + info.unsent > 0)
    })
}

/// Right before an exec, which closes the connections of this process alone. Those that have sent
/// and read everything are marked: the service ends them in order, as the kernel would. (As
/// [`has_unsent`]; `SO_LINGER` with zero time requests a reset.) Clears the marks if the exec has
/// failed.
pub(crate) fn mark_complete(lane: &'static Lane, gone: bool) {
    let _ = lane.with(|access| {
        let own = 1 << access.slot;
        for index in 0..access.descriptions().used() {
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            if *description.holders() != own {
                continue;
            }
            let Ok(id) = TcpId::try_from(description.socket()) else { continue };
            let (Ok(info), Ok(options)) = (access.stack.tcp_info(id, access.now), access.stack.tcp_options(id)) else {
                continue;
            };
            // A peer with a zero window would drop a FIN that arrives alone.
            let done = info.outstanding + info.unsent + info.unread == 0 && info.send_window > 0;
            let complete = gone && done && !(options.linger && options.linger_time.is_zero());
            if let Ok(row) = access.stack.socket_row(id.into()) {
                row.complete.set(complete.into());
            }
        }
        Ok(())
    });
}

/// Waits while data is left, and the peer makes progress.
fn settle(lane: &'static Lane, left: impl Fn(&mut crate::lane::Access<'_>) -> bool) {
    let begin = sys::now();
    let mut last = (0, begin);
    let mut attempt = |access: &mut crate::lane::Access<'_>, _: KernelHint| {
        if !left(access) {
            return Ok(());
        }
        let progress = access.stack.counters().tcp_in_segs.get();
        if progress != last.0 {
            last = (progress, access.now);
        }
        if access.now.since(last.1) > TIMEOUT { Ok(()) } else { Err(AGAIN) }
    };
    if lane.with(|access| attempt(access, KernelHint::Unknown)) == Err(AGAIN) {
        let _ = wait_in_steps(lane, begin + LONGEST, &mut attempt);
    }
}
