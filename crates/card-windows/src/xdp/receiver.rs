//! What a receive queue of a network card receives: a socket with its rings, and memory for frames.
//!
//! The driver takes memory only from a socket that is not bound (up to version 1.3). It binds a
//! socket to any number, and looks for the queue when a program is attached to it.

use super::driver::{DriverCode, RingKind, SocketRole, SocketStatistics, XdpDriver, XdpRule, XdpSocket};
use super::error::{XdpCardEnd, XdpError, is_no_queue};
use super::frame_memory::FrameMemory;
use super::ring::{ConsumerEnd, ProducerEnd};
use super::ring_failure;
use std::sync::Arc;

/// Frames that a receive queue has room for.
pub(super) const RECEIVE_FRAMES: u32 = 1024;

/// The most receive queues of a network card.
pub(super) const MOST_QUEUES: u32 = 128;

/// The shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

/// A frame that a queue has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuedFrame {
    /// Its length.
    pub(super) length: usize,
    /// It had not been seen when the ring was looked at before.
    pub(super) is_first: bool,
}

/// A receive queue.
pub(super) struct XdpReceiver<S> {
    socket: S,
    received: ConsumerEnd<2>,
    fill: ProducerEnd<1>,
    memory: Arc<FrameMemory>,
    /// Of each chunk: the driver has it.
    with_driver: Vec<bool>,
    /// Descriptors that made no sense.
    malformed: u64,
}

/// Why there is no receiver.
enum NoReceiver {
    /// There is no such queue, or it cannot be bound.
    Bind(DriverCode),
    /// Something else.
    Other(XdpError),
}

impl<S: XdpSocket> XdpReceiver<S> {
    /// Binds a socket and activates it, with so many chunks of so many bytes, which are powers of
    /// two.
    fn open(socket: S, (interface, queue): (u32, u32), (chunk, chunks): (u32, u32)) -> Result<Self, NoReceiver> {
        let mut receiver = Self::prepare(socket, chunk, chunks).map_err(NoReceiver::Other)?;
        receiver.socket.bind(interface, queue, SocketRole::Receive).map_err(NoReceiver::Bind)?;
        let refused = |code| NoReceiver::Other(XdpError::Refused { step: "begin to receive", code });
        receiver.socket.activate().map_err(refused)?;
        Ok(receiver)
    }

    fn prepare(mut socket: S, chunk: u32, chunks: u32) -> Result<Self, XdpError> {
        let refused = |step| move |code| XdpError::Refused { step, code };
        let memory = Arc::new(FrameMemory::new(chunk, chunks));
        socket.register(&memory).map_err(refused("use memory for frames"))?;
        for ring in [RingKind::Receive, RingKind::Fill] {
            socket.set_ring_size(ring, chunks).map_err(refused("make a ring to receive"))?;
        }
        let seen = refused("show a ring to receive");
        let received = socket.frame_ring(RingKind::Receive, chunks).map_err(seen)?;
        let fill = socket.address_ring(RingKind::Fill, chunks).map_err(seen)?;
        let received = ConsumerEnd::new(received.ok_or(XdpError::Layout(RingKind::Receive))?);
        let mut fill = ProducerEnd::new(fill.ok_or(XdpError::Layout(RingKind::Fill))?);
        let mut with_driver = vec![false; chunks as usize];
        for chunk in 0..chunks {
            let is_in = fill.put([memory.address_of(chunk)]).map_err(|_| XdpError::Layout(RingKind::Fill))?;
            with_driver[chunk as usize] = is_in;
        }
        fill.publish();
        Ok(Self { socket, received, fill, memory, with_driver, malformed: 0 })
    }

    /// Copies the next frame that has been received, if there is one. The chunk goes back to the
    /// driver. What makes no sense is counted and skipped.
    pub(super) fn receive(&mut self, frame: &mut [u8]) -> Result<Option<QueuedFrame>, XdpCardEnd> {
        // A driver that goes on writing what makes no sense does not hold this thread up.
        for _ in 0..self.with_driver.len() {
            let is_first = self.received.is_read_up();
            let broken = |error| XdpCardEnd::RingBroken { ring: RingKind::Receive, error };
            let Some([address, length]) = self.received.take().map_err(broken)? else { return Ok(None) };
            // The upper bits are an offset, which is 0, as no headroom was asked for; and those of
            // the length are not used.
            let (chunk, length) = (self.memory.chunk_at(address), length as u32 as usize);
            // A chunk that the driver does not have was given back before.
            let Some(chunk) = chunk.filter(|&chunk| std::mem::take(&mut self.with_driver[chunk as usize])) else {
                self.malformed += 1;
                continue;
            };
            let room = frame.len().min(self.memory.chunk() as usize);
            let is_read = (SHORTEST..=room).contains(&length) && self.memory.read(chunk, &mut frame[..length]);
            self.refill(chunk)?;
            match is_read {
                true if length < self.memory.chunk() as usize => return Ok(Some(QueuedFrame { length, is_first })),
                // It was cut off, which the driver counts.
                true => (),
                false => self.malformed += 1,
            }
        }
        Ok(None)
    }

    fn refill(&mut self, chunk: u32) -> Result<(), XdpCardEnd> {
        let broken = |error| XdpCardEnd::RingBroken { ring: RingKind::Fill, error };
        // There is room for all chunks, unless the driver gives back what it has not consumed.
        self.with_driver[chunk as usize] = self.fill.put([self.memory.address_of(chunk)]).map_err(broken)?;
        self.malformed += u64::from(!self.with_driver[chunk as usize]);
        self.fill.publish();
        Ok(())
    }

    /// To be called when nothing more has been received: pokes the driver if it asks for that, and
    /// finds out whether it has given up.
    pub(super) fn check(&mut self) -> Result<(), XdpCardEnd> {
        if self.fill.needs_poke() {
            let failed = |code| XdpCardEnd::Call { ring: RingKind::Fill, code };
            self.socket.poke(RingKind::Fill).map_err(failed)?;
        }
        for (ring, has_failed) in
            [(RingKind::Receive, self.received.has_failed()), (RingKind::Fill, self.fill.has_failed())]
        {
            if has_failed {
                return Err(ring_failure(&self.socket, ring));
            }
        }
        Ok(())
    }

    pub(super) fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    pub(super) fn target(&self) -> &S {
        &self.socket
    }

    /// What the driver has counted, and descriptors that made no sense.
    pub(super) fn counters(&self) -> (SocketStatistics, u64) {
        (self.socket.statistics().unwrap_or_default(), self.malformed)
    }
}

/// Binds a socket to each receive queue of an interface. Queues are numbered from 0; how many there
/// are is not told, so a program that matches nothing is attached to each in turn.
pub(super) fn open_receivers<D: XdpDriver>(
    driver: &mut D,
    interface: u32,
    chunk: u32,
) -> Result<Vec<XdpReceiver<D::Socket>>, XdpError> {
    let (mut receivers, no_ports) = (Vec::new(), Arc::default());
    for queue in 0..=MOST_QUEUES {
        let socket = driver.open_socket().map_err(XdpError::of_open)?;
        let receiver = match XdpReceiver::open(socket, (interface, queue), (chunk, RECEIVE_FRAMES)) {
            Ok(receiver) => receiver,
            Err(NoReceiver::Bind(code)) if queue > 0 && is_no_queue(code) => break,
            Err(NoReceiver::Bind(code)) => return Err(XdpError::of_bind(code, interface)),
            Err(NoReceiver::Other(error)) => return Err(error),
        };
        match driver.open_program(interface, queue, &[XdpRule::UdpPorts], &no_ports, receiver.target()) {
            Ok(_) if queue == MOST_QUEUES => return Err(XdpError::TooManyQueues { most: MOST_QUEUES }),
            Ok(program) => drop(program),
            Err(code) if queue > 0 && is_no_queue(code) => break,
            Err(code) => return Err(XdpError::Refused { step: "look at what arrives", code }),
        }
        receivers.push(receiver);
    }
    Ok(receivers)
}
