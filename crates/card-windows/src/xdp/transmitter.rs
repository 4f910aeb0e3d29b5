//! Frames for the driver: a socket with its rings, and memory for frames.

use super::driver::{DriverCode, RingKind, SocketRole, SocketStatistics, XdpSocket};
use super::error::{XdpCardEnd, XdpError};
use super::frame_memory::FrameMemory;
use super::ring::{ConsumerEnd, ProducerEnd};
use super::ring_failure;
use std::sync::Arc;

/// A transmit queue.
pub(super) struct XdpTransmitter<S> {
    socket: S,
    transmit: ProducerEnd<2>,
    completed: ConsumerEnd<1>,
    memory: Arc<FrameMemory>,
    /// Chunks that are not with the driver.
    free: Vec<u32>,
    /// Of each chunk: the driver has it.
    with_driver: Vec<bool>,
    /// Frames that were put in since the last flush.
    unpublished: u32,
    /// Descriptors that made no sense.
    malformed: u64,
    /// Frames that the driver has refused, and whose chunks were taken back.
    refused: u64,
}

/// Why there is no transmitter.
pub(super) enum NoTransmitter {
    /// It cannot be bound.
    Bind(DriverCode),
    /// Something else.
    Other(XdpError),
}

impl<S: XdpSocket> XdpTransmitter<S> {
    /// Binds a socket to a queue and activates it, with so many chunks of so many bytes, which are
    /// powers of two.
    pub(super) fn open(
        socket: S,
        role: SocketRole,
        (interface, queue): (u32, u32),
        (chunk, chunks): (u32, u32),
    ) -> Result<Self, NoTransmitter> {
        // The driver takes memory only from a socket that is not bound (up to version 1.3).
        let mut transmitter = Self::prepare(socket, chunk, chunks).map_err(NoTransmitter::Other)?;
        transmitter.socket.bind(interface, queue, role).map_err(NoTransmitter::Bind)?;
        let refused = |code| NoTransmitter::Other(XdpError::Refused { step: "begin to send", code });
        transmitter.socket.activate().map_err(refused)?;
        Ok(transmitter)
    }

    fn prepare(mut socket: S, chunk: u32, chunks: u32) -> Result<Self, XdpError> {
        let refused = |step| move |code| XdpError::Refused { step, code };
        let memory = Arc::new(FrameMemory::new(chunk, chunks));
        socket.register(&memory).map_err(refused("use memory for frames"))?;
        for ring in [RingKind::Transmit, RingKind::Completion] {
            socket.set_ring_size(ring, chunks).map_err(refused("make a ring to send"))?;
        }
        let seen = refused("show a ring to send");
        let transmit = socket.frame_ring(RingKind::Transmit, chunks).map_err(seen)?;
        let completed = socket.address_ring(RingKind::Completion, chunks).map_err(seen)?;
        let transmit = ProducerEnd::new(transmit.ok_or(XdpError::Layout(RingKind::Transmit))?);
        let completed = ConsumerEnd::new(completed.ok_or(XdpError::Layout(RingKind::Completion))?);
        let (free, with_driver) = ((0..chunks).rev().collect(), vec![false; chunks as usize]);
        Ok(Self { socket, transmit, completed, memory, free, with_driver, unpublished: 0, malformed: 0, refused: 0 })
    }

    /// Puts a frame in; it is sent after [`XdpTransmitter::flush`]. Returns `false` if there is no
    /// room, also after a flush.
    pub(super) fn send(&mut self, frame: &[u8]) -> Result<bool, XdpCardEnd> {
        if self.free.is_empty() {
            self.flush()?;
            self.take_refused();
        }
        let Some(chunk) = self.free.pop() else { return Ok(false) };
        let broken = |error| XdpCardEnd::RingBroken { ring: RingKind::Transmit, error };
        let is_in = self.memory.write(chunk, frame)
            && self.transmit.put([self.memory.address_of(chunk), frame.len() as u64]).map_err(broken)?;
        if is_in {
            self.with_driver[chunk as usize] = true;
            self.unpublished += 1;
        } else {
            self.free.push(chunk);
        }
        Ok(is_in)
    }

    /// Has the driver send what was put in, and takes back what it has sent.
    pub(super) fn flush(&mut self) -> Result<(), XdpCardEnd> {
        if std::mem::take(&mut self.unpublished) > 0 {
            self.transmit.publish();
        }
        // Also if nothing is new: the driver asks for it when its completions had no room. But not
        // if it has taken all: what it has taken it completes by itself.
        if self.transmit.needs_poke() && !self.transmit.is_consumed() {
            let failed = |code| XdpCardEnd::Call { ring: RingKind::Transmit, code };
            self.socket.poke(RingKind::Transmit).map_err(failed)?;
        }
        self.reclaim()
    }

    /// Takes chunks back that have been sent.
    fn reclaim(&mut self) -> Result<(), XdpCardEnd> {
        let broken = |error| XdpCardEnd::RingBroken { ring: RingKind::Completion, error };
        while let Some([address]) = self.completed.take().map_err(broken)? {
            let chunk = self.memory.chunk_at(address);
            // A chunk that the driver does not have was given back before.
            match chunk.filter(|&chunk| std::mem::take(&mut self.with_driver[chunk as usize])) {
                Some(chunk) => self.free.push(chunk),
                None => self.malformed += 1,
            }
        }
        Ok(())
    }

    /// Takes chunks back of frames that the driver has refused, for instance because they are
    /// longer than the network card sends. It only counts those, so they are known when it has no
    /// others.
    fn take_refused(&mut self) {
        let missing = self.with_driver.len() - self.free.len();
        if missing <= self.with_driver.len() / 2 || !self.transmit.is_consumed() {
            return;
        }
        let counted = self.socket.statistics().map_or(0, |counters| counters.refused_frames);
        if counted.saturating_sub(self.refused) < missing as u64 {
            return;
        }
        self.refused += missing as u64;
        for (chunk, is_with_driver) in (0..).zip(&mut self.with_driver) {
            if std::mem::take(is_with_driver) {
                self.free.push(chunk);
            }
        }
    }

    /// To be called when there is nothing else to do: pokes the driver if it asks for that, and
    /// finds out whether it has given up.
    pub(super) fn check(&mut self) -> Result<(), XdpCardEnd> {
        self.flush()?;
        self.take_refused();
        for (ring, has_failed) in
            [(RingKind::Transmit, self.transmit.has_failed()), (RingKind::Completion, self.completed.has_failed())]
        {
            if has_failed {
                return Err(ring_failure(&self.socket, ring));
            }
        }
        Ok(())
    }

    /// What the driver has counted, and descriptors that made no sense.
    pub(super) fn counters(&self) -> (SocketStatistics, u64) {
        (self.socket.statistics().unwrap_or_default(), self.malformed)
    }
}
