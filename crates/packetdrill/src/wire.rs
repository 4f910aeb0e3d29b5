//! The stack, a replacement of the kernel's rings, and the clock. Packets are IP packets outside,
//! as on a tunnel; the stack's frames begin with an Ethernet header.

use crate::push;
use crate::setup::{LIMITS, Setup};
use std::collections::VecDeque;
use tickwire_stack::addr::Address;
use tickwire_stack::frame::{FRAME_SIZE, FrameId};
use tickwire_stack::path::Query;
use tickwire_stack::time::Instant;
use tickwire_stack::{OwnedMemory, Stack};

/// Offset of a packet in a frame.
const ETHERNET: usize = 14;

/// A sent packet, and its time.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) packet: Vec<u8>,
}

/// The stack, its rings, its clock.
#[derive(Debug)]
pub(crate) struct Wire {
    memory: OwnedMemory,
    setup: Setup,
    completed: Vec<FrameId>,
    sent: VecDeque<Sent>,
    now: Instant,
    started: bool,
}

impl Wire {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            memory: OwnedMemory::new(&LIMITS),
            setup,
            completed: Vec::new(),
            sent: VecDeque::new(),
            now: Instant::from_nanos(1_000_000_000_000),
            started: false,
        }
    }

    /// The time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The stack. It is initialised at its first use: by then a script has made its settings.
    pub(crate) fn stack(&mut self) -> Stack<'_> {
        if !self.started {
            self.started = true;
            let config = self.setup.config();
            self.memory.stack().init(&config);
        }
        self.memory.stack()
    }

    /// The source address for this destination. Also gives the stack the path.
    pub(crate) fn source_for(&mut self, destination: Address) -> Address {
        let (query, now) = (Query::to(destination), self.now);
        let source = self.setup.path_to(query).source;
        for query in [query, query.from(source)] {
            let info = self.setup.path_to(query);
            self.stack().path_set(info, now);
        }
        source
    }

    /// When the stack's next timer is due.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        self.stack().deadline()
    }

    /// Advances the clock, and runs due timers.
    pub(crate) fn time_is(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        if self.started && self.stack().deadline().is_some_and(|at| at <= now) {
            self.stack().on_time(now);
        }
        self.settle();
    }

    /// Passes a received IP packet to the stack. False if it is no IP packet, or too long for the
    /// ring.
    pub(crate) fn receive(&mut self, packet: &[u8]) -> bool {
        let ethertype: [u8; 2] = match packet.first().map(|byte| byte >> 4) {
            Some(4) => [0x08, 0x00],
            Some(6) => [0x86, 0xdd],
            _ => return false,
        };
        let path = self.setup.path_to(Query::default());
        let frame = [&path.source_mac.0[..], &path.next_hop_mac.0, &ethertype, packet].concat();
        let now = self.now;
        self.stack();
        let mut stack = self.memory.stack();
        stack.fill();
        if stack.filled() < frame.len().div_ceil(FRAME_SIZE) {
            return false;
        }
        stack.receive_bytes(now, &frame);
        self.settle();
        true
    }

    /// Answers the stack's path requests and collects the packets that it sends.
    pub(crate) fn settle(&mut self) {
        let now = self.now;
        self.stack();
        let mut stack = self.memory.stack();
        loop {
            while let Some(query) = stack.take_request() {
                stack.path_set(self.setup.path_to(query), now);
            }
            self.completed.drain(..).for_each(|frame| stack.completed(frame));
            let mut taken = Vec::new();
            stack.egress(now, |transmit| {
                taken.push(transmit);
                true
            });
            if taken.is_empty() {
                break;
            }
            let mut packet = Vec::new();
            for t in taken {
                self.completed.push(t.frame);
                packet.extend_from_slice(&stack.frame(t.frame)[usize::from(t.offset)..][..usize::from(t.len)]);
                if !t.more {
                    let mut packet = core::mem::take(&mut packet).split_off(ETHERNET);
                    if self.setup.push_hidden {
                        push::hide(&mut packet);
                    }
                    self.sent.push_back(Sent { at: now, packet });
                }
            }
        }
    }

    /// The oldest sent packet that was not taken yet.
    pub(crate) fn take_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }
}
