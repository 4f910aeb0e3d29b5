//! The long-term period, for differences of time: from two good exchanges up to a week apart.
//!
//! ```text
//! p = 1/2 [ (Tb_n - Tb_f)/(Ta_n - Ta_f) + (Te_n - Te_f)/(Tf_n - Tf_f) ]  (Veitch et al. 2009)
//! error = (E_n + E_f + |Rhat_n - Rhat_f| + 50 ns) / (Tb_n - Tb_f),   E_i = RTT_i - Rhat
//! ```
//!
//! It changes only for a period with a smaller error, or with an error below 1e-9, because a
//! difference clock must be smooth.

use crate::exchange::Exchange;
use std::collections::VecDeque;
use tickwire_clockpage::Scale;

/// Length of a block in seconds; the best exchange of each block is kept.
const BLOCK: f64 = 1024.0;
/// Number of blocks that are kept: a week.
const BLOCKS: usize = 591;
/// Error of the timestamps in ns, added to what the round trips show.
const STAMP: f64 = 50.0;
/// A period whose relative error is below this replaces any other.
const GOOD: f64 = 1e-9;

#[derive(Clone, Copy, Debug)]
struct Best {
    exchange: Exchange,
    /// RTT - Rhat, and Rhat, in ns.
    excess: f64,
    round_trip: f64,
}

/// The best exchanges, and the period estimated from them.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    nominal: Scale,
    blocks: VecDeque<Best>,
    /// The block that is being filled.
    open: Option<(Exchange, Best)>,
    period: Option<(f64, f64)>,
}

impl Difference {
    pub(super) const fn new(nominal: Scale) -> Self {
        Self { nominal, blocks: VecDeque::new(), open: None, period: None }
    }

    /// Nanoseconds per count, once two exchanges give an estimate.
    pub(super) fn period(&self) -> Option<f64> {
        self.period.map(|(period, _)| period)
    }

    /// Adds an exchange that was used.
    pub(super) fn take(&mut self, exchange: &Exchange, excess: f64, round_trip: f64) {
        let this = Best { exchange: *exchange, excess, round_trip };
        let within = |begun: &Exchange| (self.nominal.nanos(exchange.sent.since(begun.sent)) as f64) < BLOCK * 1e9;
        match &mut self.open {
            Some((begun, best)) if within(begun) => {
                if excess <= best.excess {
                    *best = this;
                }
            }
            open => {
                if let Some((_, best)) = open.replace((*exchange, this)) {
                    self.blocks.push_back(best);
                }
                if self.blocks.len() > BLOCKS {
                    self.blocks.pop_front();
                }
            }
        }
        let far = self.blocks.front().copied().or(self.open.map(|(_, best)| best));
        let Some((period, error)) = far.and_then(|far| between(&far, &this)) else { return };
        if self.period.is_none_or(|(_, known)| error < known || error < GOOD) {
            self.period = Some((period, error));
        }
    }
}

/// The period estimated from two exchanges, and its relative error.
fn between(far: &Best, near: &Best) -> Option<(f64, f64)> {
    let (f, n) = (&far.exchange, &near.exchange);
    let forth = n.server_received.since(f.server_received) as f64 / n.sent.since(f.sent) as f64;
    let back = n.server_sent.since(f.server_sent) as f64 / n.received.since(f.received) as f64;
    let span = n.server_received.since(f.server_received) as f64;
    let error = (near.excess + far.excess + (near.round_trip - far.round_trip).abs() + STAMP) / span;
    let period = (forth + back) / 2.0;
    (period.is_finite() && span > 0.0 && error.is_finite()).then_some((period, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::ServerState;
    use tickwire_clockpage::{Count, Nanos};

    /// An exchange at a second, by a counter of 2 ns that is 10 ppm fast, with `queue` ns of
    /// queueing on the way to the server.
    fn exchange(second: i64, queue: i64) -> Exchange {
        let count = |ns: i64| Count((ns / 2 + ns / 200_000) as u64);
        let at = second * 1_000_000_000;
        Exchange {
            sent: count(at),
            server_received: Nanos(at + 20_000 + queue),
            server_sent: Nanos(at + 25_000 + queue),
            received: count(at + 45_000 + queue),
            server: ServerState::default(),
            stamp_error: 0,
        }
    }

    #[test]
    fn good_exchanges_far_apart_tell_the_period_and_bad_ones_change_nothing() {
        let mut difference = Difference::new(Scale::from_period(2.0).unwrap());
        let truth = 2.0 / (1.0 + 10e-6);
        for second in (0..100_000).step_by(16) {
            let queue = if second % 7 == 0 { 0 } else { 3_000 };
            difference.take(&exchange(second, queue), queue as f64, 45_000.0);
        }
        let error = difference.period().unwrap() / truth - 1.0;
        assert!(error.abs() < 1e-10, "{error}");
        let before = difference.period();
        difference.take(&exchange(100_016, 900_000), 900_000.0, 45_000.0);
        assert_eq!(difference.period(), before);
        assert!(difference.blocks.len() < 100);
    }
}
