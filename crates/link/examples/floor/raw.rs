//! Bare frames through a lane: the least that any stack must cost.

use std::time::{Duration, Instant};
use tickwire_link::port::{Kicked, Port, Received};
use tickwire_link::region::Region;
use tickwire_stack::frame::{FRAME_SIZE, FrameId};
use tickwire_stack::{Memory, Transmit};

/// Frames kept in the fill ring.
const FILL: usize = 1024;
/// Ethernet, IPv4 and UDP headers.
pub const HEADERS: usize = 42;

/// A lane's frames and rings without a stack.
pub struct Raw {
    // Before the region, which its slices point into.
    memory: Memory<'static>,
    port: Port,
    _region: Region,
    free: Vec<FrameId>,
    filled: usize,
    pieces: u64,
}

impl Raw {
    pub fn new((region, port): (Region, Port)) -> Self {
        // SAFETY: nobody else uses this region, and the memory goes no later than the region, with this value.
        let memory = unsafe { region.memory() };
        let free = (0..region.limits().frames).collect();
        let mut raw = Self { memory, port, _region: region, free, filled: 0, pieces: 0 };
        raw.refill();
        raw
    }

    fn refill(&mut self) {
        while self.filled < FILL {
            let free = &mut self.free;
            match self.port.refill(|| {
                if self.filled < FILL {
                    self.filled += 1;
                    free.pop()
                } else {
                    None
                }
            }) {
                0 => break,
                _ => continue,
            }
        }
    }

    fn bytes(&mut self, frame: FrameId) -> &mut [u8] {
        &mut self.memory.frames.bytes[frame as usize * FRAME_SIZE..][..FRAME_SIZE]
    }

    /// Queues one packet; `false` if frames or ring are full.
    pub fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let Some(frame) = self.free.pop() else { return false };
        write(&mut self.bytes(frame)[..len]);
        let mut transmission = self.port.transmission();
        let put = transmission.put(Transmit { frame, offset: 0, len: len as u16, more: false });
        transmission.submit();
        if !put {
            self.free.push(frame);
        }
        put
    }

    pub fn kick(&self) -> Kicked {
        self.port.kick().expect("the device is up")
    }

    /// Frames received whose packet went on in the next.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    pub fn unsent(&self) -> bool {
        self.port.unsent()
    }

    /// Takes what has come, and gives every packet to `see`.
    pub fn poll(&mut self, mut see: impl FnMut(&[u8])) -> u32 {
        let Self { memory, port, free, filled, pieces, .. } = self;
        port.completed(|frame| free.push(frame));
        let received = port.receive(|Received { frame, offset, len, more }| {
            *pieces += u64::from(more);
            let start = frame as usize * FRAME_SIZE + usize::from(offset);
            see(&memory.frames.bytes[start..][..usize::from(len)]);
            free.push(frame);
            *filled -= 1;
        });
        if received > 0 {
            self.refill();
        }
        received
    }
}

/// An Ethernet frame with IPv4, UDP and a payload, from one end to the other.
pub fn packet(from: ([u8; 6], [u8; 4]), to: ([u8; 6], [u8; 4]), port: u16, payload: usize) -> Vec<u8> {
    let mut p = vec![0; HEADERS + payload];
    p[..6].copy_from_slice(&to.0);
    p[6..12].copy_from_slice(&from.0);
    p[12..14].copy_from_slice(&[8, 0]);
    p[14] = 0x45;
    p[16..18].copy_from_slice(&((28 + payload) as u16).to_be_bytes());
    p[22] = 64;
    p[23] = 17;
    p[26..30].copy_from_slice(&from.1);
    p[30..34].copy_from_slice(&to.1);
    let sum: u32 = p[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    p[24..26].copy_from_slice(&folded.to_be_bytes());
    p[34..36].copy_from_slice(&port.to_be_bytes());
    p[36..38].copy_from_slice(&port.to_be_bytes());
    p[38..40].copy_from_slice(&((8 + payload) as u16).to_be_bytes());
    p
}

/// Whether a received frame is one of ours: IPv4, UDP, to this port.
pub fn is_ours(frame: &[u8], port: u16) -> bool {
    frame.len() > HEADERS && frame[12..14] == [8, 0] && frame[23] == 17 && frame[36..38] == port.to_be_bytes()
}

/// Sends `request` and waits for an answer, so many times; the times in nanoseconds. Gives up on a lost packet after ten seconds (on a busy machine one may come late).
pub fn ping(raw: &mut Raw, request: &[u8], port: u16, times: usize) -> Option<Vec<u32>> {
    let mut all = Vec::with_capacity(times);
    while all.len() < times {
        let begin = Instant::now();
        raw.send(request.len(), |p| p.copy_from_slice(request)).then_some(())?;
        raw.kick();
        let mut back = false;
        let mut spins = 0u32;
        while !back {
            raw.poll(|frame| back |= is_ours(frame, port));
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(4096) && begin.elapsed() > Duration::from_secs(10) {
                return None;
            }
        }
        all.push(begin.elapsed().as_nanos() as u32);
    }
    Some(all)
}

/// Answers every packet until told to stop.
pub fn pong(raw: &mut Raw, answer: &[u8], port: u16, stop: impl Fn() -> bool) {
    let mut polls = 0u32;
    loop {
        let mut asked = 0;
        raw.poll(|frame| asked += u32::from(is_ours(frame, port)));
        for _ in 0..asked {
            raw.send(answer.len(), |p| p.copy_from_slice(answer));
        }
        if asked > 0 {
            raw.kick();
        }
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(1024) && stop() {
            return;
        }
    }
}

/// Sends as fast as it goes for a while. Says how many went.
pub fn flood(raw: &mut Raw, packet: &[u8], time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut sent = 0;
    while Instant::now() < end {
        for _ in 0..64 {
            if !raw.send(packet.len(), |p| p.copy_from_slice(packet)) {
                break;
            }
            sent += 1;
        }
        if raw.unsent() {
            raw.kick();
        }
        raw.poll(|_| ());
    }
    sent
}

/// Counts what comes until told to stop.
pub fn drain(raw: &mut Raw, port: u16, stop: impl Fn() -> bool) -> u64 {
    let mut received = 0;
    let mut polls = 0u32;
    loop {
        raw.poll(|frame| received += u64::from(is_ours(frame, port)));
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(1024) && stop() {
            return received;
        }
    }
}
