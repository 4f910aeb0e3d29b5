//! How what the stack has to send leaves in the course of one call, which may pass through the lane
//! several times.
//!
//! In each pass packets are taken out of the stack with the lock in hand, and sent when it has been
//! released: others have their turn meanwhile. Packets of streams are sent by one thread at a time.
//! The others leave theirs to it, and it looks for more until there are none, or it has done its
//! share.

use crate::c::shared::{Guard, Shared, Turn};
use tickwire_link::tx_batch::TxBatch;

/// In so many passes more than one a call sends what streams have. What is left then the helper
/// sends.
const PASSES: u32 = 16;

/// In so many passes more than one a call takes in packets that wake none. Then another thread
/// does: they come as fast as they are taken in.
const LOOKS: u32 = 4;

/// A call's course.
pub(super) struct Course {
    /// Passes before this one.
    passes: u32,
    /// How often packets waited after a pass that wake none.
    looks: u32,
    /// What is to be sent when the lock has been released.
    batch: Option<TxBatch<'static>>,
    /// The turn to send packets of streams. Some are in the batch then.
    turn: Option<Turn>,
    /// Whether there was a use for a device for trains of segments, and none.
    wants_bulk: bool,
    left: Left,
    /// More threads are to be woken than one pass wakes, or packets have come that wake none.
    does_more: bool,
}

/// What is left to be sent after a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Streams' packets. Another thread sends them.
    ToAnother,
    /// What this call's next pass looks after.
    ToNextPass,
    /// What is too much for one call.
    ForLater,
}

impl Course {
    pub(super) fn new() -> Self {
        Self { passes: 0, looks: 0, batch: None, turn: None, wants_bulk: false, left: Left::Nothing, does_more: false }
    }

    /// Whether another pass is to follow.
    pub(super) fn goes_on(&mut self) -> bool {
        // (Not with `u32::from` of the comparison: rustc 1.95 makes 0 of that where it knows what
        // follows.)
        let does_more = core::mem::take(&mut self.does_more);
        if self.left != Left::ToNextPass {
            return does_more;
        }
        self.passes += 1;
        true
    }

    /// Whether another pass is to follow in any case.
    pub(super) fn has_more_to_do(&mut self, more: bool) {
        self.does_more = more;
    }

    /// Packets wait to be taken in that wake none. Whether the next pass is for them; else another
    /// thread is to be woken.
    pub(super) fn takes_in_more(&mut self) -> bool {
        self.looks += 1;
        self.looks <= LOOKS
    }

    /// Whether the service is to be asked for a device for trains of segments.
    pub(super) fn wants_bulk(&self) -> bool {
        self.wants_bulk
    }

    /// Whether something may be left that no thread sends unasked.
    pub(super) fn is_crowded(&self) -> bool {
        // Others may die or be stopped; and this one's next pass may not come, at the program's
        // end.
        self.left != Left::Nothing
    }

    /// Whether nothing but time tells when it can be sent.
    pub(super) fn is_stuck(&self) -> bool {
        self.left == Left::ForLater
    }

    /// A pass begins: what the one before has sent has gone, and so has what a process was sending
    /// that has died.
    #[inline]
    pub(super) fn settle(&mut self, shared: &Shared, guard: &mut Guard<'_>) {
        if self.turn.is_some() {
            if let (Some(batch), Some(port)) = (self.batch.take(), shared.port()) {
                port.streams_gone(&mut guard.stack, &batch);
            }
        } else if guard.stack.stream_is_begun() && shared.stream_turn().is_some() {
            guard.stack.stream_recover();
        }
    }

    /// Takes out of the stack what is to be sent by [`Course::send`] when the lock has been
    /// released: first what is not of streams.
    #[inline]
    pub(super) fn take(&mut self, shared: &Shared, guard: &mut Guard<'_>) {
        self.batch = guard.take_prompt();
        if guard.stack.has_egress() {
            self.take_streams(shared, guard);
        } else {
            // With the lock: packets that another thread has left are seen here.
            self.turn = None;
            self.left = Left::Nothing;
        }
    }

    fn take_streams(&mut self, shared: &Shared, guard: &mut Guard<'_>) {
        if self.passes >= PASSES {
            self.turn = None;
            self.left = Left::ForLater;
            return;
        }
        if guard.stack.stream_len() == 0 {
            // A test's wire has taken none.
            self.left = Left::ToNextPass;
            return;
        }
        if self.turn.is_none() {
            self.turn = shared.stream_turn();
        }
        if self.turn.is_none() {
            self.left = Left::ToAnother;
            return;
        }
        self.left = Left::ToNextPass;
        self.wants_bulk = shared.port().is_some_and(|port| port.wants_bulk(&guard.stack));
        self.batch = guard.take_streams(self.batch.take());
        if self.batch.is_none() {
            self.turn = None;
        }
    }

    /// Whether what is to be sent takes long: packets of streams.
    pub(super) fn sends_streams(&self) -> bool {
        self.turn.is_some()
    }

    /// Sends what was taken. The lock has been released.
    #[inline]
    pub(super) fn send(&mut self, shared: &Shared) {
        if let (Some(batch), Some(port)) = (&mut self.batch, shared.port()) {
            port.send(batch);
        }
        if self.turn.is_none() {
            self.batch = None;
        }
    }
}
