//! How the packets that the stack has to send leave in one call, which may pass through the lane
//! several times.
//!
//! In each pass packets are taken out of the stack under the lock, and sent when it has been
//! released, so that others can take it meanwhile. One thread at a time sends packets of streams.
//! The others leave theirs to it, and it looks for more until there are none, or until it has
//! reached its limit of passes.

use crate::sys::shared_stack::{CoreGuard, HeldStreamTurn, SharedStack};
use tickwire_lane_linux::tx_batch::TxBatch;

/// A call sends stream packets in at most this many passes. The helper sends the rest.
const PASSES: u32 = 16;

/// In at most this many further passes a call takes in packets that woke no thread. After that
/// another thread does, because they arrive as fast as they are taken in.
const LOOKS: u32 = 4;

/// The transmit state of one call.
pub(super) struct Transmission {
    /// Passes before this one.
    passes: u32,
    /// How often packets that woke no thread were waiting after a pass.
    looks: u32,
    /// What is to be sent when the lock has been released.
    batch: Option<TxBatch<'static>>,
    /// The turn to send packets of streams. While it is held, some of those are in the batch.
    turn: Option<HeldStreamTurn>,
    /// Whether a device for trains of segments was needed, and there is none.
    wants_bulk: bool,
    left: Left,
    /// More threads are to be woken than one pass wakes, or packets have arrived that woke none.
    does_more: bool,
}

/// What is left to be sent after a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Packets of streams. Another thread sends them.
    ToAnother,
    /// What this call's next pass sends.
    ToNextPass,
    /// What is over one call's limit.
    ForLater,
}

impl Transmission {
    pub(super) fn new() -> Self {
        Self { passes: 0, looks: 0, batch: None, turn: None, wants_bulk: false, left: Left::Nothing, does_more: false }
    }

    /// Whether another pass is to follow.
    pub(super) fn takes_another_pass(&mut self) -> bool {
        // Not by `u32::from` of the comparison, whose result is used twice then: optimised code of
        // rustc 1.95 makes 0 of it (rust-lang/rust#158206).
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

    /// Packets that woke no thread wait to be taken in. Returns whether the next pass is for them;
    /// else another thread is to be woken.
    pub(super) fn takes_in_more(&mut self) -> bool {
        self.looks += 1;
        self.looks <= LOOKS
    }

    /// Whether the service is to be asked for a device for trains of segments.
    pub(super) fn wants_bulk(&self) -> bool {
        self.wants_bulk
    }

    /// Whether packets may be left that no thread sends without being woken for it.
    pub(super) fn is_crowded(&self) -> bool {
        // Others may die or be stopped; and this one's next pass may not come, at the program's
        // end.
        self.left != Left::Nothing
    }

    /// Whether only the passage of time allows to send it.
    pub(super) fn is_stuck(&self) -> bool {
        self.left == Left::ForLater
    }

    /// A pass begins: the packets that the previous one has sent are marked as sent, and packets
    /// that a process was sending when it died are recovered.
    #[inline]
    pub(super) fn settle(&mut self, shared: &SharedStack, guard: &mut CoreGuard<'_>) {
        if self.turn.is_some() {
            if let (Some(batch), Some(port)) = (self.batch.take(), shared.port()) {
                port.streams_gone(&mut guard.stack, &batch);
            }
        } else if guard.stack.stream_is_begun() && shared.stream_turn().is_some() {
            guard.stack.stream_recover();
        }
    }

    /// Takes out of the stack what [`Transmission::send`] is to send when the lock has been
    /// released: first packets that do not belong to streams.
    #[inline]
    pub(super) fn take(&mut self, shared: &SharedStack, guard: &mut CoreGuard<'_>) {
        self.batch = guard.take_prompt();
        if guard.stack.has_egress() {
            self.take_streams(shared, guard);
        } else {
            // Under the lock: packets that another thread has left are visible here.
            self.turn = None;
            self.left = Left::Nothing;
        }
    }

    fn take_streams(&mut self, shared: &SharedStack, guard: &mut CoreGuard<'_>) {
        if self.passes >= PASSES {
            self.turn = None;
            self.left = Left::ForLater;
            return;
        }
        if guard.stack.stream_len() == 0 {
            // A test's wire has taken no packets.
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

    /// Whether sending takes long: the batch has packets of streams.
    pub(super) fn sends_streams(&self) -> bool {
        self.turn.is_some()
    }

    /// Sends what was taken. The lock has been released.
    #[inline]
    pub(super) fn send(&mut self, shared: &SharedStack) {
        if let (Some(batch), Some(port)) = (&mut self.batch, shared.port()) {
            port.send(batch);
        }
        if self.turn.is_none() {
            self.batch = None;
        }
    }
}
