//! Bare frames through a lane: the least that any stack must cost.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_linux::mapped_ring::MappedRing;

/// Ethernet, IPv4 and UDP headers.
pub const HEADERS: usize = 42;

/// At most so many packets are taken in one go.
const BATCH: u32 = 64;

/// The longest packet that a ring brings.
const LONGEST: usize = 1 << 17;

/// A lane's ring and TAP device without a stack.
pub struct Raw {
    rx: RecordRing<MappedRing>,
    tap: std::fs::File,
    buffer: Vec<u8>,
}

impl Raw {
    pub fn new((rx, tap): (RecordRing<MappedRing>, OwnedFd)) -> Self {
        Self { rx, tap: tap.into(), buffer: vec![0; LONGEST] }
    }

    /// Sends one packet; `false` if the device does not take it.
    pub fn send(&mut self, packet: &[u8]) -> bool {
        self.tap.write(packet).is_ok()
    }

    /// Receives the waiting packets, and passes each to `see`.
    pub fn poll(&mut self, mut see: impl FnMut(&[u8])) -> u32 {
        let Self { rx, buffer, .. } = self;
        if rx.is_empty() {
            return 0;
        }
        rx.read(BATCH, |packet, read| {
            let bytes = &mut buffer[..packet.len as usize];
            read(0, bytes);
            see(bytes);
        })
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

/// Sends `request` and waits for an answer, so many times; the times in nanoseconds. Gives up on a
/// lost packet after ten seconds (on a busy machine one may come late).
pub fn ping(raw: &mut Raw, request: &[u8], port: u16, times: usize) -> Option<Vec<u32>> {
    let mut all = Vec::with_capacity(times);
    while all.len() < times {
        let begin = Instant::now();
        raw.send(request).then_some(())?;
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
            raw.send(answer);
        }
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(1024) && stop() {
            return;
        }
    }
}

/// Sends as fast as possible for a while. Returns how many packets were sent.
pub fn flood(raw: &mut Raw, packet: &[u8], time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut sent = 0;
    while Instant::now() < end {
        for _ in 0..64 {
            sent += u64::from(raw.send(packet));
        }
        raw.poll(|_| ());
    }
    sent
}

/// Counts received packets until told to stop.
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
