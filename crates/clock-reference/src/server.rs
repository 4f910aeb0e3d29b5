//! An NTP server whose clock is the truth.
//!
//! The exact transmit time of a reply is known only afterwards, from the kernel's timestamp. In
//! interleaved mode (RFC 9769 §2) the next reply carries it. In basic mode the reply carries an
//! estimate: the counter before the system call plus the recent median delay from there to the
//! driver. Alternatively a BPF program at the device completes the reply (`bpf/stamp.c`); then
//! every reply is in basic mode.

use crate::Truth;
use crate::path::Delays;
use crate::socket::{Departure, Socket};
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tickclock::{Count, Nanos, counter};
use tickwire_ntp::{Mode, NtpPacket, Short, Stamp};
use tickwire_sim::Rng;

/// Replies that are remembered for interleaved mode.
const REMEMBERED: usize = 64;
/// Replies over which the delay to the driver is measured.
const TYPICAL: usize = 15;
/// Default of that delay before it is measured, in ns.
const USUAL: i64 = 8_000;
/// Error of the delay while too few replies were measured, in ns.
const UNSURE: i64 = 30_000;
/// The last part of a delay, in ns, is a spin instead of a sleep, because a sleep ends late.
const SPIN: i64 = 300_000;
/// log2 s: 2 ns.
const PRECISION: i8 = -29;

/// A reply that was sent, with its transmit timestamp once that is known.
struct Answered {
    number: u32,
    /// The receive timestamp in the reply. An interleaved request repeats it as its origin
    /// timestamp.
    received: Stamp,
    /// Just before the system call.
    program: Count,
    delays: Delays,
    left: Option<Stamp>,
}

/// What sets the transmit timestamp of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitStamping {
    /// This program, and in interleaved mode the kernel's timestamp.
    Told,
    /// The BPF program at the device.
    Completed,
}

/// The server.
pub struct ReferenceServer {
    truth: Truth,
    leaving: TransmitStamping,
    socket: Socket,
    answered: VecDeque<Answered>,
    answers: Arc<AtomicU64>,
    typical: VecDeque<i64>,
    rng: Rng,
}

impl ReferenceServer {
    /// Binds a server to this address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(truth: Truth, address: SocketAddr, leaving: TransmitStamping) -> Result<Self> {
        let socket = Socket::bind(address, truth.kind(), truth.period())
            .with_context(|| format!("cannot serve at {address}"))?;
        let rng = Rng::new(truth.recipe().path.seed);
        let (answered, typical) = (VecDeque::new(), VecDeque::new());
        Ok(Self { truth, leaving, socket, answered, answers: Arc::default(), typical, rng })
    }

    /// The number of replies sent, readable while the server runs.
    #[must_use]
    pub fn answers(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.answers)
    }

    /// Serves until something can be read from `stop`, or its other end is closed.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<()> {
        while self.socket.wait(stop)? {
            self.turn();
        }
        Ok(())
    }

    /// Processes transmit timestamps and received requests, and replies.
    fn turn(&mut self) {
        self.departures();
        while let Some(arrival) = self.socket.receive() {
            let Some(at) = arrival.at else { continue };
            let Ok((request, _)) = NtpPacket::parse(&arrival.bytes) else { continue };
            if request.mode != Mode::Client {
                continue;
            }
            let t = self.truth.seconds(at);
            let Some(delays) = self.truth.recipe().path.draw(t, &mut self.rng) else { continue };
            self.hold(at.plus(self.truth.counts(delays.forth + delays.back)));
            let received = Stamp::from_unix(self.truth.at(at).plus(delays.forth));
            let interleaved =
                request.origin_timestamp != Stamp(0) && request.receive_timestamp != request.transmit_timestamp;
            let before = (interleaved && self.leaving == TransmitStamping::Told)
                .then(|| self.answered.iter().find(|answered| answered.received == request.origin_timestamp))
                .flatten()
                .and_then(|answered| answered.left);
            let (way, unsure) = self.typical();
            let (truth, leaving) = (&self.truth, self.leaving);
            let sent = self.socket.send(&arrival.from, |now| {
                let here = truth.at(now.count).plus(-delays.back);
                let answer = match leaving {
                    TransmitStamping::Told => NtpPacket {
                        root_dispersion: Short::from_ns(if before.is_some() { 0 } else { unsure }),
                        ..answer(&request, received, before, here.plus(way))
                    },
                    TransmitStamping::Completed => NtpPacket {
                        reference_timestamp: Stamp(now.monotonic.unsigned_abs()),
                        ..answer(&request, received, None, here)
                    },
                };
                answer.to_bytes().to_vec()
            });
            // A client that is gone gets no reply.
            let Ok((number, program)) = sent else { continue };
            self.answers.fetch_add(1, Ordering::Relaxed);
            if self.answered.len() == REMEMBERED {
                self.answered.pop_front();
            }
            self.answered.push_back(Answered { number, received, program, delays, left: None });
            self.departures();
        }
    }

    fn departures(&mut self) {
        for Departure { number, at } in self.socket.departures() {
            let Some(answered) = self.answered.iter_mut().find(|answered| answered.number == number) else { continue };
            answered.left = Some(Stamp::from_unix(self.truth.at(at).plus(-answered.delays.back)));
            if self.typical.len() == TYPICAL {
                self.typical.pop_front();
            }
            self.typical.push_back(self.truth.at(at).since(self.truth.at(answered.program)));
        }
    }

    /// The median delay from the program to the driver, and its maximum deviation, in ns.
    fn typical(&self) -> (i64, u64) {
        let mut sorted: Vec<_> = self.typical.iter().copied().collect();
        sorted.sort_unstable();
        let way = sorted.get(sorted.len() / 2).copied().unwrap_or(USUAL);
        let unsure = if sorted.len() < TYPICAL { UNSURE } else { (sorted[TYPICAL - 1] - way).max(way - sorted[0]) };
        (way, unsure.unsigned_abs())
    }

    /// Waits until the counter reaches a value.
    fn hold(&self, until: Count) {
        let left = |now: Count| (until.since(now) as f64 * self.truth.period()) as i64;
        let sleep = left(counter::read(self.truth.kind())) - SPIN;
        if sleep > 0 {
            std::thread::sleep(Duration::from_nanos(sleep.unsigned_abs()));
        }
        while counter::read(self.truth.kind()) < until {
            std::hint::spin_loop();
        }
    }
}

/// The reply to a request: in interleaved mode if the transmit timestamp of the previous reply is
/// known, else with `leaves`.
fn answer(request: &NtpPacket, received: Stamp, before: Option<Stamp>, leaves: Nanos) -> NtpPacket {
    let (origin, transmitted) = match before {
        Some(before) => (request.receive_timestamp, before),
        None => (request.transmit_timestamp, Stamp::from_unix(leaves)),
    };
    NtpPacket {
        mode: Mode::Server,
        stratum: 1,
        precision: PRECISION,
        root_delay: Short(0),
        root_dispersion: Short(0),
        reference_id: u32::from_be_bytes(*b"TRUE"),
        reference_timestamp: received,
        origin_timestamp: origin,
        receive_timestamp: received,
        transmit_timestamp: transmitted,
        ..*request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interleaved_answer_gives_the_other_number_back() {
        let mut request = NtpPacket::request(Stamp(5));
        let plain = answer(&request, Stamp(8), None, Nanos(0));
        assert_eq!(
            (plain.origin_timestamp, plain.receive_timestamp, plain.transmit_timestamp),
            (Stamp(5), Stamp(8), Stamp::from_unix(Nanos(0)))
        );
        request.interleave(Stamp(6), Stamp(7));
        let interleaved = answer(&request, Stamp(8), Some(Stamp(9)), Nanos(0));
        assert_eq!(
            (interleaved.origin_timestamp, interleaved.receive_timestamp, interleaved.transmit_timestamp),
            (Stamp(6), Stamp(8), Stamp(9))
        );
    }
}
