//! What the sockets of the stand-in share: network cards, the wires between them, and faults.

use super::super::driver::{DriverCode, RingKind, SocketRole, SocketStatistics, XdpRule};
use super::super::frame_memory::FrameMemory;
use super::super::port_sets::PortSets;
use super::super::ring::{ConsumerEnd, ProducerEnd};
use super::super::xsk_ring::owned::OwnedRing;
use super::rules;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// Flags of rings (`XSK_RING_FLAG_...`).
const ERROR: u32 = 1;
const NEED_POKE: u32 = 2;

/// The error of a call about what is gone (`ERROR_DEVICE_REMOVED`).
const REMOVED: DriverCode = DriverCode(1617);

/// The longest frame that a network card sends: the MTU of tests, and an Ethernet header.
const LONGEST: usize = 1500 + 14;

/// A call to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FakeCall {
    /// Making a socket.
    OpenSocket,
    /// Making a program.
    OpenProgram,
    /// Registering memory.
    Register,
    /// Making a ring.
    SetRingSize,
    /// Binding.
    Bind,
    /// Activating.
    Activate,
    /// Asking for rings.
    Rings,
    /// Poking.
    Poke,
}

impl FakeCall {
    /// All that opening a card needs.
    pub const OF_OPENING: [Self; 7] = [
        Self::OpenSocket,
        Self::OpenProgram,
        Self::Register,
        Self::SetRingSize,
        Self::Bind,
        Self::Activate,
        Self::Rings,
    ];
}

/// A network card.
#[derive(Default)]
pub(super) struct FakeNic {
    pub(super) queues: u32,
    /// The one at the other end of its wire.
    pub(super) peer: Option<u32>,
    /// Frames that it has sent, without a peer.
    pub(super) sent: Vec<Vec<u8>>,
    /// Frames that its kernel has received.
    pub(super) kernel: Vec<Vec<u8>>,
}

/// A socket, as the driver has it.
#[derive(Default)]
pub(super) struct SocketState {
    pub(super) memory: Option<Arc<FrameMemory>>,
    pub(super) rings: BTreeMap<RingKind, OwnedRing>,
    pub(super) bound: Option<(u32, u32, SocketRole)>,
    pub(super) ends: Option<DriverEnds>,
    pub(super) statistics: SocketStatistics,
    pub(super) error: u32,
}

/// The driver's ends of the rings.
pub(super) enum DriverEnds {
    Receive { fill: ConsumerEnd<1>, received: ProducerEnd<2> },
    Transmit { transmit: ConsumerEnd<2>, completed: ProducerEnd<1> },
}

impl SocketState {
    /// Sets or clears a flag of a ring.
    fn flag(&self, ring: RingKind, flag: u32, is_set: bool) {
        let change = |flags: &std::sync::atomic::AtomicU32| {
            if is_set {
                flags.fetch_or(flag, Relaxed)
            } else {
                flags.fetch_and(!flag, Relaxed)
            };
        };
        match (ring, self.rings.get(&ring)) {
            (RingKind::Fill | RingKind::Completion, Some(ring)) => change(ring.view::<1>().flags()),
            (_, Some(ring)) => change(ring.view::<2>().flags()),
            (_, None) => (),
        }
    }

    fn fail(&mut self, error: u32) {
        self.error = error;
        for ring in [RingKind::Fill, RingKind::Receive, RingKind::Transmit, RingKind::Completion] {
            self.flag(ring, ERROR, true);
        }
    }

    /// Whether something was received that has not been taken, or the ring has failed.
    pub(super) fn has_news(&self) -> bool {
        let Some(ring) = self.rings.get(&RingKind::Receive) else { return self.error != 0 };
        let ring = ring.view::<2>();
        self.error != 0 || ring.producer().load(Relaxed) != ring.consumer().load(Relaxed)
    }

    fn receive(&mut self, frame: &[u8]) {
        let (Some(DriverEnds::Receive { fill, received }), Some(memory)) = (&mut self.ends, &self.memory) else {
            return;
        };
        let has_room = received.room().is_ok_and(|room| room > 0);
        let Some([address]) = has_room.then(|| fill.take().ok().flatten()).flatten() else {
            self.statistics.no_room += 1;
            return;
        };
        let Some(chunk) = memory.chunk_at(address) else {
            self.statistics.refused_chunks += 1;
            return;
        };
        let length = frame.len().min(memory.chunk() as usize);
        self.statistics.truncated += u64::from(length < frame.len());
        let is_written = memory.write(chunk, &frame[..length]);
        assert!(is_written && received.put([address, length as u64]) == Ok(true));
        received.publish();
    }

    /// Takes all frames to send out, up to a number.
    fn transmit(&mut self, most: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let (Some(DriverEnds::Transmit { transmit, completed }), Some(memory)) = (&mut self.ends, &self.memory) else {
            return frames;
        };
        for _ in 0..most {
            let Ok(Some([address, length])) = transmit.take() else { break };
            let length = length as u32 as usize;
            let chunk = memory.chunk_at(address).filter(|_| (1..=LONGEST).contains(&length));
            let mut frame = vec![0; length.min(LONGEST)];
            // One that is refused is not completed.
            match chunk.filter(|&chunk| memory.read(chunk, &mut frame)) {
                Some(_) => {
                    frames.push(frame);
                    let _ = completed.put([address]);
                }
                None => self.statistics.refused_frames += 1,
            }
        }
        completed.publish();
        frames
    }
}

/// A program, as the driver has it.
pub(super) struct ProgramState {
    pub(super) interface: u32,
    pub(super) queue: u32,
    pub(super) rules: Vec<XdpRule>,
    pub(super) ports: Arc<PortSets>,
    pub(super) target: u64,
}

/// The whole driver.
#[derive(Default)]
pub(super) struct NetworkState {
    pub(super) nics: BTreeMap<u32, FakeNic>,
    pub(super) sockets: BTreeMap<u64, SocketState>,
    pub(super) programs: BTreeMap<u64, ProgramState>,
    pub(super) memories: Vec<Weak<FrameMemory>>,
    pub(super) last: u64,
    /// It looks at rings to transmit when it is poked only.
    pub(super) needs_poke: bool,
    /// It does not look at them at all.
    pub(super) is_stalled: bool,
    /// So many frames are lost on the wire from now on.
    pub(super) losses: u32,
    /// Calls that fail, after so many that do not.
    pub(super) refusals: BTreeMap<FakeCall, (u32, DriverCode)>,
    pub(super) calls: BTreeMap<FakeCall, u32>,
    /// The sleep of a thread ends, now or the next one.
    pub(super) is_woken: bool,
    pub(super) waiters: u32,
}

impl NetworkState {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Counts a call. It fails if that was wanted.
    pub(super) fn call(&mut self, call: FakeCall) -> Result<(), DriverCode> {
        *self.calls.entry(call).or_default() += 1;
        match self.refusals.get_mut(&call) {
            Some((0, code)) => Err(*code),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A frame arrives at a network card.
    pub(super) fn arrive(&mut self, interface: u32, frame: Vec<u8>) {
        if self.losses > 0 {
            self.losses -= 1;
            return;
        }
        let Some(nic) = self.nics.get_mut(&interface) else { return };
        // Stands for the hash of a flow.
        let queue = frame.iter().skip(26).take(12).map(|byte| u32::from(*byte)).sum::<u32>() % nic.queues;
        let is_of_queue = |program: &&ProgramState| program.interface == interface && program.queue == queue;
        let mut programs = self.programs.values().filter(is_of_queue);
        match programs.find(|program| rules::matches(&program.rules, &program.ports, &frame)) {
            Some(program) => {
                if let Some(socket) = self.sockets.get_mut(&program.target) {
                    socket.receive(&frame);
                }
            }
            None => nic.kernel.push(frame),
        }
    }

    /// Sends what sockets have to send.
    pub(super) fn run(&mut self) {
        let numbers: Vec<u64> = self.sockets.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.run_socket(number));
    }

    /// Sends what a socket has to send.
    pub(super) fn run_socket(&mut self, number: u64) {
        let Some(socket) = self.sockets.get_mut(&number).filter(|_| !self.is_stalled) else { return };
        let Some((interface, _, role)) = socket.bound.filter(|_| socket.error == 0) else { return };
        let mut frames = VecDeque::from(socket.transmit(usize::MAX));
        socket.flag(RingKind::Transmit, NEED_POKE, self.needs_poke);
        while let Some(frame) = frames.pop_front() {
            let Some(nic) = self.nics.get_mut(&interface) else { return };
            match (role, nic.peer) {
                (SocketRole::GiveBack, _) => nic.kernel.push(frame),
                (_, Some(peer)) => self.arrive(peer, frame),
                (_, None) => nic.sent.push(frame),
            }
        }
    }

    /// Sets the flag of rings that are to be poked.
    pub(super) fn set_poke(&mut self, needs_poke: bool) {
        self.needs_poke = needs_poke;
        for socket in self.sockets.values().filter(|socket| socket.ends.is_some()) {
            socket.flag(RingKind::Transmit, NEED_POKE, needs_poke);
        }
    }

    /// A network card is removed.
    pub(super) fn detach(&mut self, interface: u32, error: u32) {
        self.nics.remove(&interface);
        let bound = |socket: &&mut SocketState| socket.bound.is_some_and(|(of, ..)| of == interface);
        self.sockets.values_mut().filter(bound).for_each(|socket| socket.fail(error));
    }

    pub(super) fn poke(&mut self, number: u64) -> Result<(), DriverCode> {
        self.call(FakeCall::Poke)?;
        if self.sockets.get(&number).is_none_or(|socket| socket.error != 0) {
            return Err(REMOVED);
        }
        self.run_socket(number);
        Ok(())
    }
}
