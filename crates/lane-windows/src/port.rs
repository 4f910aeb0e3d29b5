//! The program's side of a lane, coupled to a stack: frames in from the receive ring, frames out
//! into the transmit ring. All of it is called under the lane's lock, but not
//! [`ProgramPort::is_quiet`] and the sleep itself.

use crate::event::WakeEvent;
use crate::lane_memory::{LaneMemory, ReadRing, WriteRing, rings};
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::Arc;
use tickwire_lane::port;
use tickwire_lane::record_ring::{RecordProducer, RecordRing, Wakes};
use tickwire_stack::Stack;
use tickwire_stack::time::Instant;

/// The only process of a lane, among the slots for them ([`RecordRing::arm`]).
const PROGRAM: usize = 0;

/// A lane's rings in its program.
#[derive(Debug)]
pub struct ProgramPort {
    receive: RecordRing<ReadRing>,
    transmit: RecordProducer<WriteRing>,
    /// Wakes the service.
    doorbell: WakeEvent,
    /// Is set when a packet has arrived for which a thread sleeps.
    arrived: WakeEvent,
}

impl ProgramPort {
    /// A port over a lane's memory and events.
    #[must_use]
    pub fn new(memory: Arc<LaneMemory>, doorbell: WakeEvent, arrived: WakeEvent) -> Self {
        let (receive, transmit) = rings(memory);
        Self { receive, transmit, doorbell, arrived }
    }

    /// Whether nothing has been received. A hint without the lock, for polling threads.
    #[must_use]
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.receive.is_empty()
    }

    /// The receive ring again, to look from time to time, without the lock, whether it is empty.
    #[must_use]
    pub fn watch(&self) -> RecordRing<ReadRing> {
        self.receive.memory().again()
    }

    /// Receives the packets in the ring. Returns how many there were.
    pub fn poll(&self, stack: &mut Stack<'_>, now: Instant) -> u32 {
        port::poll(&self.receive, stack, now)
    }

    /// Puts the stack's packets into the transmit ring, as far as there is room, and wakes the
    /// service if it sleeps. Returns whether that is all: if not, to be called again when the
    /// service has taken some out, of which nothing tells.
    pub fn send(&mut self, stack: &mut Stack<'_>) -> bool {
        let is_all = port::take_prompt(stack, &mut self.transmit) && port::copy_streams(stack, &mut self.transmit);
        if self.transmit.publish() != Wakes::None {
            self.doorbell.set();
        }
        is_all
    }

    /// A thread is about to sleep on [`ProgramPort::arrived`]. Returns `false`, and nothing is
    /// changed, if packets wait. To be followed by [`ProgramPort::disarm`] when it is awake.
    #[must_use]
    pub fn arm(&self) -> bool {
        self.receive.arm(PROGRAM);
        let is_empty = self.receive.is_empty();
        if !is_empty {
            self.disarm();
        }
        is_empty
    }

    /// The thread is awake.
    pub fn disarm(&self) {
        self.receive.disarm(PROGRAM);
    }

    /// What is signalled when a packet has arrived after [`ProgramPort::arm`].
    #[must_use]
    pub fn arrived(&self) -> BorrowedHandle<'_> {
        self.arrived.as_handle()
    }
}
