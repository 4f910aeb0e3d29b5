//! How what the stack has to send leaves in the course of one call, which may pass through the lane several times: between two passes others have their turn.

use crate::c::shared::{Guard, Shared};
use crate::c::sys;
use tickwire_stack::time::{Instant, Span};

/// In so many passes more than one a call sends what streams have. What is left then the helper sends.
const PASSES: u32 = 16;

/// For how long a thread that goes on to send has said that it does, at each pass. One whose signal handler jumps out of the call does not come back to it.
const GOES_ON: Span = Span::from_millis(1);

/// A call's course.
pub(super) struct Course {
    /// Passes before this one.
    passes: u32,
    /// Whether what streams have comes from this very call: it is this thread that pays for it.
    own: bool,
    /// Whether there was a use for a device for trains of segments, and none.
    wants_bulk: bool,
    left: Left,
    /// More threads are to be woken than one pass wakes.
    wakes_more: bool,
}

/// What is left to be sent after a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Streams' packets. Another thread is about to send them.
    ToAnother,
    /// Streams' packets. Another thread waits for its turn, and sends some of them then.
    ToWaiter,
    /// Streams' packets, for this call's next pass.
    ToNextPass,
    /// What is too much for one call.
    ForLater,
}

impl Course {
    pub(super) fn new() -> Self {
        Self { passes: 0, own: false, wants_bulk: false, left: Left::Nothing, wakes_more: false }
    }

    /// Whether another pass is to follow.
    pub(super) fn goes_on(&mut self) -> bool {
        // (Not with `u32::from` of the comparison: rustc 1.95 makes 0 of that where it knows what follows.)
        let wakes_more = core::mem::take(&mut self.wakes_more);
        if self.left != Left::ToNextPass {
            return wakes_more;
        }
        self.passes += 1;
        self.left = Left::Nothing;
        true
    }

    /// Whether more threads are to be woken than this pass wakes.
    pub(super) fn has_more_to_wake(&mut self, more: bool) {
        self.wakes_more = more;
    }

    /// So many frames of streams waited before the call did its work, and so many do since.
    pub(super) fn has_queued(&mut self, before: usize, since: usize) {
        self.own |= since > before;
    }

    /// Whether the service is to be asked for a device for trains of segments.
    pub(super) fn wants_bulk(&self) -> bool {
        self.wants_bulk
    }

    /// Whether something may be left that nobody sends unasked.
    pub(super) fn is_crowded(&self) -> bool {
        // Others may die, be stopped, or jump out of their call in a handler; and this one's next pass is behind such a handler.
        self.left != Left::Nothing
    }

    /// Whether nothing but time tells when it can be sent, or whoever is to send it may be after something else.
    pub(super) fn is_stuck(&self) -> bool {
        matches!(self.left, Left::ForLater | Left::ToWaiter)
    }

    /// Sends: first what is not of streams, then a load of these.
    pub(super) fn send(&mut self, shared: &Shared, guard: &mut Guard<'_>, now: Instant) {
        guard.send();
        if guard.stack.stream_len() > 0 {
            // `now` may be from before this thread waited for the lock.
            let until = shared.carried_until();
            if self.passes == 0 && !until.is_never() && sys::now() < until {
                self.left = Left::ToAnother;
                return;
            }
            self.wants_bulk = guard.wire.port().is_some_and(|port| port.wants_bulk(&guard.stack));
            guard.carry();
        }
        self.left = if !guard.stack.has_egress() {
            Left::Nothing
        } else if !self.own && guard.is_wanted() {
            Left::ToWaiter
        } else if self.passes < PASSES {
            Left::ToNextPass
        } else {
            Left::ForLater
        };
        let goes_on = self.left == Left::ToNextPass;
        if goes_on || self.passes > 0 {
            shared.carry_until(if goes_on { now + GOES_ON } else { Instant::NEVER });
        }
    }
}
