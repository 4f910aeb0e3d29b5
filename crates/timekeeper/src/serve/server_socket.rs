//! One socket of the server: answers requests in batches, and keeps the transmit times of replies
//! to clients that use interleaved mode.

use super::tally::Tally;
use super::time::{Now, Time};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use tickclock::Count;
use tickwire_ntp::listener::{BATCH, NtpListener, ReceivedRequest};
use tickwire_ntp::packet::HEADER;
use tickwire_ntp::server::{Request, ServerReply, TxLatency};
use tickwire_ntp::{NtpServer, Stamp};
use tickwire_stamping::cross_timestamp::CrossTimestamp;

/// Upper bound of the time that a request waits in the socket, in ns.
const WAITS: i64 = 100_000_000;
/// Interval at which a transmit timestamp is requested even without a client in interleaved mode,
/// in ns: it measures the latency of sending.
const LEARN: i64 = 100_000_000;
/// Limit of the replies whose transmit timestamp is outstanding.
const UNDER_WAY: usize = 4 * BATCH;

/// A reply that was sent and whose transmit timestamp is outstanding.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u32,
    received: Stamp,
    /// Its index in its batch, and the counter when the batch was timestamped.
    place: usize,
    read: Count,
    asks: bool,
}

#[derive(Debug)]
pub(super) struct ServerSocket {
    listener: NtpListener,
    arrivals: Vec<ReceivedRequest>,
    /// The one in use is older than all requests still in the socket; the other is its successor. A
    /// request may have waited while others were answered.
    before: [CrossTimestamp; 2],
    pace: TxLatency,
    learnt: i64,
    under_way: VecDeque<UnderWay>,
}

impl ServerSocket {
    pub(super) fn open(address: SocketAddr, time: &Time) -> nix::Result<Self> {
        // Taken before the first request can be received.
        let before = time.cross_timestamp();
        Ok(Self {
            listener: NtpListener::bind(address)?,
            arrivals: Vec::with_capacity(BATCH),
            before: [before; 2],
            pace: TxLatency::default(),
            learnt: i64::MIN,
            under_way: VecDeque::with_capacity(UNDER_WAY),
        })
    }

    /// The clock has another counter: discards everything that is measured in counts.
    pub(super) fn begin_anew(&mut self, time: &Time) {
        self.before = [time.cross_timestamp(); 2];
        self.pace = TxLatency::default();
        self.renumber();
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// Answers received requests. Returns `true` if there may be more.
    pub(super) fn turn(&mut self, core: &mut NtpServer, time: &Time, tally: &mut Tally) -> bool {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        let more = self.listener.receive(&mut arrivals);
        let now = time.now(time.cross_timestamp());
        let mut answers: Vec<_> = arrivals
            .iter()
            .filter_map(|arrival| {
                let arrived = arrival.stamp.and_then(|stamp| CrossTimestamp::count_at(&self.before[0], &now.at, stamp));
                let arrived = now.stamp(arrived.unwrap_or(now.at.count));
                let (bytes, from) = (arrival.bytes(), arrival.from()?.ip());
                let answer = core.answer(Request { bytes, from, now: now.at.monotonic, arrived }, &now.host);
                answer.map_err(|why| tally.silent(why)).ok().map(|answer| (arrival, answer))
            })
            .collect();
        answers.sort_by_key(|(arrival, answer)| (arrival.local(), answer.asks()));
        let alike = |one: &(&ReceivedRequest, ServerReply), other: &(&ReceivedRequest, ServerReply)| {
            one.0.local() == other.0.local() && one.1.asks() == other.1.asks()
        };
        for batch in answers.chunk_by(alike) {
            self.send(batch, time, &now, tally);
        }
        // A wakeup without received requests is due to a transmit timestamp.
        if !self.under_way.is_empty() || arrivals.is_empty() {
            self.departures(core, &now);
        }
        if now.at.monotonic - self.before[1].monotonic > WAITS {
            self.before = [self.before[1], now.at];
        }
        self.arrivals = arrivals;
        more
    }

    /// Sends replies with one source address. The transmit time is wanted for all of them, or for
    /// none.
    fn send(&mut self, batch: &[(&ReceivedRequest, ServerReply)], time: &Time, now: &Now, tally: &mut Tally) {
        let learn = now.at.monotonic.saturating_sub(self.learnt) > LEARN;
        if learn {
            self.learnt = now.at.monotonic;
        }
        let asks = batch[0].1.asks();
        let read = time.count();
        let messages: Vec<(&ReceivedRequest, [u8; HEADER])> = batch
            .iter()
            .enumerate()
            .map(|(place, (arrival, answer))| {
                let leaves = read.plus(self.pace.lead(place));
                let early = now.span(read, leaves);
                (*arrival, answer.leaving(now.stamp(leaves), early).to_bytes())
            })
            .collect();
        let mut done = 0;
        while done < batch.len() {
            match self.listener.send(&messages[done..], asks || learn) {
                Ok((sent, number)) => {
                    for (index, (_, answer)) in batch[done..done + sent].iter().enumerate() {
                        tally.answered(answer.kind());
                        if asks || learn {
                            self.under_way(UnderWay {
                                number: number.wrapping_add(index as u32),
                                received: answer.receive_timestamp(),
                                place: done + index,
                                read,
                                asks,
                            });
                        }
                    }
                    done += sent;
                }
                // No buffer space: clients without a reply ask again.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => break,
                // This destination is unreachable; the others may be reachable.
                Err(_) => {
                    tally.unsent += 1;
                    done += 1;
                    if asks || learn {
                        self.renumber();
                    }
                }
            }
        }
        tally.unsent += (batch.len() - done) as u64;
        self.pace.took(batch.len(), time.count().since(read));
    }

    fn under_way(&mut self, answer: UnderWay) {
        if self.under_way.len() == UNDER_WAY {
            self.under_way.pop_front();
        }
        self.under_way.push_back(answer);
    }

    /// Processes transmit timestamps.
    fn departures(&mut self, core: &mut NtpServer, now: &Now) {
        let mut left = Vec::new();
        while self.listener.departures(|number, stamp| left.push((number, stamp))) {}
        for (number, stamp) in left {
            let Some(at) = self.under_way.iter().position(|answer| answer.number == number) else { continue };
            // Replies before it will get no timestamp any more.
            let Some(answer) = self.under_way.drain(..=at).next_back() else { continue };
            // The reply left between the two cross timestamps or shortly after `now`, so the line
            // through both holds for it.
            let Some(count) = CrossTimestamp::count_at(&self.before[0], &now.at, stamp) else { continue };
            if !self.pace.left(answer.place, count.since(answer.read)) {
                self.renumber();
                return;
            }
            if answer.asks {
                core.departed(answer.received, now.stamp(count));
            }
        }
    }

    /// Restarts the numbering: which number belongs to which reply is not known any more.
    fn renumber(&mut self) {
        self.under_way.clear();
        // Without numbers there are no transmit timestamps, and replies are in basic mode.
        let _ = self.listener.renumber();
    }
}

impl AsFd for ServerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
