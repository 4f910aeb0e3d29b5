//! A host in the simulation: a stack, and the rings that a kernel would provide.

use tickwire_stack::addr::{Address, Mac};
use tickwire_stack::frame::{FRAME_SIZE, FrameId};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, Limits, OwnedMemory, ReceiveMetadata, Stack, StackConfig};

/// A host.
#[derive(Debug)]
pub struct SimulatedHost {
    memory: OwnedMemory,
    sent: Vec<FrameId>,
    kept: Vec<FrameId>,
    stalled: bool,
    /// Its IPv4 and IPv6 addresses.
    pub addresses: [Address; 2],
    /// Its Ethernet address.
    pub mac: Mac,
}

impl SimulatedHost {
    /// Host number `number`, with addresses 10.0.0.(number + 1) and fd00::(number + 1).
    pub(crate) fn new(number: u8, limits: &Limits, config: &StackConfig) -> Self {
        let mut memory = OwnedMemory::new(limits);
        memory.stack().init(config);
        let mut v6 = [0; 16];
        (v6[0], v6[15]) = (0xfd, number + 1);
        Self {
            memory,
            sent: Vec::new(),
            kept: Vec::new(),
            stalled: false,
            addresses: [Address::v4([10, 0, 0, number + 1]), Address(v6)],
            mac: Mac([2, 0, 0, 0, 0, number + 1]),
        }
    }

    /// The host's stack.
    pub fn stack(&mut self) -> Stack<'_> {
        self.memory.stack()
    }

    /// The host's answer to a path query, whose destination is reached directly at `mac`.
    pub(crate) fn path_to(&self, query: Query, mac: Mac, mtu: u32) -> PathInfo {
        PathInfo {
            query,
            source: self.addresses[usize::from(query.destination.to_v4().is_none())],
            interface: 1,
            mtu,
            source_mac: self.mac,
            next_hop_mac: mac,
            state: PathState::Ready,
            ..PathInfo::default()
        }
    }

    /// Delivers a packet, as a lane's ring would. Returns whether there was room.
    pub fn receive(&mut self, now: Instant, packet: &[u8]) -> bool {
        self.receive_merged(now, packet, 0)
    }

    /// Like [`SimulatedHost::receive`], for a packet that GRO merged from segments of `segment`
    /// bytes each.
    pub fn receive_merged(&mut self, now: Instant, packet: &[u8], segment: u16) -> bool {
        let mut stack = self.memory.stack();
        stack.fill();
        let room = stack.filled() >= packet.len().div_ceil(FRAME_SIZE);
        if room {
            let received = ReceiveMetadata {
                len: packet.len() as u32,
                segment,
                checksum: Checksum::Unknown,
                at: now,
                interface: 1,
            };
            stack.receive(now, received, |from, to| to.copy_from_slice(&packet[from..][..to.len()]));
        }
        room
    }

    /// Delivers packets that arrived at the same time as one batch, as one poll of a ring does.
    /// Packets without room are lost.
    pub fn receive_together(&mut self, now: Instant, packets: &[Vec<u8>]) {
        self.stack().batch_begin();
        for packet in packets {
            self.receive(now, packet);
        }
        self.stack().batch_end(now);
    }

    /// Takes the packets that the stack wants to send. Their frames complete at the next call, as
    /// with a real ring.
    ///
    /// # Panics
    /// If the stack sends an empty frame, which no kernel accepts.
    pub fn transmit(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut stack = self.memory.stack();
        for frame in self.sent.drain(..) {
            stack.completed(frame);
        }
        let mut taken = Vec::new();
        stack.egress(now, |transmit| {
            if !self.stalled {
                taken.push(transmit);
            }
            !self.stalled
        });
        let mut packets: Vec<Vec<u8>> = Vec::new();
        let mut begins = true;
        for t in taken {
            // The kernel drops such a descriptor with its packet, and never completes the frame.
            assert_ne!(t.len, 0, "a piece without a byte, frame {}", t.frame);
            self.sent.push(t.frame);
            if begins {
                packets.push(Vec::new());
            }
            if let Some(packet) = packets.last_mut() {
                packet.extend_from_slice(&stack.frame(t.frame)[usize::from(t.offset)..][..usize::from(t.len)]);
            }
            begins = !t.more;
        }
        packets
    }

    /// Sets whether the transmit ring is full.
    pub fn stall(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// The device is reset: frames in the transmit ring complete only by
    /// [`SimulatedHost::give_back`].
    pub fn keep_transmitting(&mut self) {
        self.kept.append(&mut self.sent);
    }

    /// Completes the frames that were kept, late. Returns how many.
    pub fn give_back(&mut self) -> usize {
        let kept = core::mem::take(&mut self.kept);
        kept.iter().for_each(|&frame| self.memory.stack().completed(frame));
        kept.len()
    }

    /// Whether the transmit ring holds frames, which the next [`SimulatedHost::transmit`]
    /// completes.
    #[must_use]
    pub fn transmitting(&self) -> bool {
        !self.sent.is_empty()
    }
}
