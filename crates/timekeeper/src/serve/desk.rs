//! One socket of the server: what has come is answered in batches, and when answers that matter
//! have left is remembered.

use super::tally::Tally;
use super::time::{Now, Time};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use tickclock::Count;
use tickwire_ntp::listener::{Arrival, BATCH, Listener};
use tickwire_ntp::packet::HEADER;
use tickwire_ntp::sandwich::Sandwich;
use tickwire_ntp::server::{Answer, Pace};
use tickwire_ntp::{Server, Stamp};

/// No message waits for so long, in ns.
const WAITS: i64 = 100_000_000;
/// A departure is looked at so often, in ns, also when nobody asks for it: to know how long the way
/// takes.
const LEARN: i64 = 100_000_000;
/// Answers that have not told yet when they left.
const UNDER_WAY: usize = 4 * BATCH;

/// An answer that the kernel has taken.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u32,
    received: Stamp,
    /// Its place in its batch, and the counter when that was stamped.
    place: usize,
    read: Count,
    asks: bool,
}

#[derive(Debug)]
pub(super) struct Desk {
    listener: Listener,
    arrivals: Vec<Arrival>,
    /// Before whatever has come since, and the one that will be: a message may have waited while
    /// others were answered.
    before: [Sandwich; 2],
    pace: Pace,
    learnt: i64,
    under_way: VecDeque<UnderWay>,
}

impl Desk {
    pub(super) fn open(address: SocketAddr, time: &Time) -> nix::Result<Self> {
        // Before the first message can come.
        let before = time.sandwich();
        Ok(Self {
            listener: Listener::bind(address)?,
            arrivals: Vec::with_capacity(BATCH),
            before: [before; 2],
            pace: Pace::default(),
            learnt: i64::MIN,
            under_way: VecDeque::with_capacity(UNDER_WAY),
        })
    }

    /// What was known by counts is void: the clock has another counter.
    pub(super) fn begin_anew(&mut self, time: &Time) {
        self.before = [time.sandwich(); 2];
        self.pace = Pace::default();
        self.renumber();
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// Answers what has come; `true`: there may be more.
    pub(super) fn turn(&mut self, core: &mut Server, time: &Time, tally: &mut Tally) -> bool {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        let more = self.listener.receive(&mut arrivals);
        let now = time.now(time.sandwich());
        let mut answers: Vec<_> = arrivals
            .iter()
            .filter_map(|arrival| {
                let arrived = arrival.stamp.and_then(|stamp| Sandwich::count_at(&self.before[0], &now.at, stamp));
                let arrived = now.stamp(arrived.unwrap_or(now.at.count));
                let from = arrival.from()?.ip();
                let answer = core.answer(arrival.bytes(), from, now.at.monotonic, arrived, &now.host);
                answer.map_err(|why| tally.silent(why)).ok().map(|answer| (arrival, answer))
            })
            .collect();
        answers.sort_by_key(|(arrival, answer)| (arrival.local(), answer.asks()));
        let alike = |one: &(&Arrival, Answer), other: &(&Arrival, Answer)| {
            one.0.local() == other.0.local() && one.1.asks() == other.1.asks()
        };
        for batch in answers.chunk_by(alike) {
            self.send(batch, time, &now, tally);
        }
        // Who is woken for nothing that came is woken for what has left.
        if !self.under_way.is_empty() || arrivals.is_empty() {
            self.departures(core, &now);
        }
        if now.at.monotonic - self.before[1].monotonic > WAITS {
            self.before = [self.before[1], now.at];
        }
        self.arrivals = arrivals;
        more
    }

    /// Sends answers that leave by one address, and of which all or none is asked when it leaves.
    fn send(&mut self, batch: &[(&Arrival, Answer)], time: &Time, now: &Now, tally: &mut Tally) {
        let learn = now.at.monotonic.saturating_sub(self.learnt) > LEARN;
        if learn {
            self.learnt = now.at.monotonic;
        }
        let asks = batch[0].1.asks();
        let read = time.count();
        let messages: Vec<(&Arrival, [u8; HEADER])> = batch
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
                                received: answer.received(),
                                place: done + index,
                                read,
                                asks,
                            });
                        }
                    }
                    done += sent;
                }
                // No room: who is not answered asks again.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => break,
                // Nobody can be reached there; the others may be.
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

    /// Takes in what has left.
    fn departures(&mut self, core: &mut Server, now: &Now) {
        let mut left = Vec::new();
        while self.listener.departures(|number, stamp| left.push((number, stamp))) {}
        for (number, stamp) in left {
            let Some(at) = self.under_way.iter().position(|answer| answer.number == number) else { continue };
            // Those before it will not tell any more.
            let Some(answer) = self.under_way.drain(..=at).next_back() else { continue };
            // It is after `now` by less than the time between the two, so the line through both is
            // good for it.
            let Some(count) = Sandwich::count_at(&self.before[0], &now.at, stamp) else { continue };
            if !self.pace.left(answer.place, count.since(answer.read)) {
                self.renumber();
                return;
            }
            if answer.asks {
                core.departed(answer.received, now.stamp(count));
            }
        }
    }

    /// Nobody knows any more which number is whose.
    fn renumber(&mut self) {
        self.under_way.clear();
        // Without numbers there are no stamps, and answers are in basic mode.
        let _ = self.listener.renumber();
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
