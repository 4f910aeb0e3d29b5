//! The poll schedule: a burst at the start, then a steady interval; slower if a server is silent or
//! sends RATE.

use super::kod_backoff::KodBackoff;
use crate::kiss::Kiss;

const SECOND: i64 = 1_000_000_000;

/// Poll intervals, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The usual interval.
    pub usual: i64,
    /// The longest: for servers that are silent or send RATE.
    pub longest: i64,
}

/// Requests in the burst, and the greatest interval between them: enough to find a quiet moment,
/// and over within two seconds.
const BURST: u32 = 8;
const BURST_INTERVAL: i64 = 200_000_000;
/// The least time between two bursts, so that a server whose replies repeatedly show counter breaks
/// is not flooded.
const BURST_AGAIN: i64 = 16 * SECOND;
/// The longest timeout of a reply.
const REPLY_TIMEOUT: i64 = SECOND;
/// Retries of a lost exchange within one interval, if the interval has room for them.
const MAX_RETRIES: u32 = 2;
/// After this many silent intervals in a row the interval doubles.
const SILENT_INTERVALS: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    poll: Poll,
    /// The interval that the server permits: the usual one, as lengthened by RATE kisses.
    permitted: i64,
    interval: i64,
    /// Requests of the burst that are left.
    burst: u32,
    /// When the last burst began.
    burst_at: i64,
    due: i64,
    /// Start of the interval in which the last request lies.
    begun: i64,
    /// Retries within the interval.
    retries: u32,
    /// Intervals in a row without a reply.
    silent_intervals: u32,
    waiting: bool,
    reach: u8,
    kod: KodBackoff,
}

impl Schedule {
    pub(super) const fn new(poll: Poll, now: i64) -> Self {
        Self {
            poll,
            permitted: poll.usual,
            interval: poll.usual,
            burst: BURST,
            burst_at: now,
            due: now,
            begun: now,
            retries: 0,
            silent_intervals: 0,
            waiting: false,
            reach: 0,
            kod: KodBackoff::new(),
        }
    }

    pub(super) const fn due(&self) -> i64 {
        self.due
    }

    pub(super) const fn interval(&self) -> i64 {
        self.interval
    }

    pub(super) const fn permitted(&self) -> i64 {
        self.permitted
    }

    pub(super) const fn reach(&self) -> u8 {
        self.reach
    }

    /// Until when no request is sent because the server denies service.
    pub(super) fn denied_until(&self) -> Option<i64> {
        self.kod.is_denied().then_some(self.due)
    }

    /// After a RATE kiss: when the poll rate may rise again.
    pub(super) fn slowed_until(&self) -> Option<i64> {
        (self.permitted > self.poll.usual).then(|| self.kod.ends())
    }

    /// Sets the least interval between requests until a reply arrives.
    pub(super) fn slow_down(&mut self, interval: i64) {
        self.interval = self.interval.max(interval);
    }

    /// A request is sent.
    pub(super) fn on_request(&mut self, now: i64) {
        let retry = self.waiting && self.retries > 0 && now.saturating_sub(self.begun) < self.interval;
        if !retry {
            self.begun = now;
            self.retries = 0;
            self.reach <<= 1;
            if self.waiting {
                self.silence();
            }
        }
        self.waiting = true;
        self.burst = self.burst.saturating_sub(1);
        let reply_timeout = REPLY_TIMEOUT.min(self.interval / 4);
        let next = self.begun.saturating_add(self.pace());
        // Retries only if the interval is long enough that this is no flood.
        let retry_at = now.saturating_add(reply_timeout);
        self.due = if self.retries < MAX_RETRIES && self.interval >= 4 * SECOND && retry_at < next && self.burst == 0 {
            self.retries += 1;
            retry_at
        } else {
            next
        };
    }

    /// Restarts at once with a burst, unless the server denies service, has sent RATE, or a burst
    /// began recently.
    pub(super) fn begin_again(&mut self, now: i64) {
        let restrained = self.kod.is_denied() || self.permitted > self.poll.usual;
        if restrained || now.saturating_sub(self.burst_at) < BURST_AGAIN {
            return;
        }
        (self.burst, self.burst_at) = (BURST, now);
        (self.waiting, self.retries, self.due) = (false, 0, now);
    }

    /// The interval before the last request passed without a reply.
    fn silence(&mut self) {
        self.silent_intervals += 1;
        if self.silent_intervals >= SILENT_INTERVALS {
            self.silent_intervals = 0;
            self.interval = self.interval.saturating_mul(2).min(self.poll.longest.max(self.permitted));
        }
    }

    fn pace(&self) -> i64 {
        if self.burst > 0 { BURST_INTERVAL.min(self.interval) } else { self.interval }
    }

    /// A reply arrived.
    pub(super) fn on_reply(&mut self, now: i64) {
        self.waiting = false;
        self.silent_intervals = 0;
        self.retries = 0;
        self.reach |= 1;
        if self.kod.on_reply(now, self.permitted > self.poll.usual) {
            self.permitted = (self.permitted / 2).max(self.poll.usual);
        }
        self.interval = self.permitted;
        self.due = self.begun.saturating_add(self.pace());
    }

    /// The server refuses service (RFC 5905 §7.4).
    pub(super) fn on_kiss(&mut self, kiss: Kiss, now: i64) {
        self.waiting = false;
        self.retries = 0;
        let longest = self.poll.longest.max(self.permitted);
        self.due = match kiss {
            Kiss::Deny | Kiss::Restricted => {
                self.burst = 0;
                // If the retry gets no response at all, the server is polled as slowly as a silent
                // one.
                self.interval = longest;
                self.kod.on_denial(now)
            }
            Kiss::Rate => {
                self.burst = 0;
                self.permitted = self.permitted.saturating_mul(2).min(longest);
                self.interval = self.interval.max(self.permitted);
                self.kod.on_rate(now);
                now.saturating_add(self.interval)
            }
            Kiss::NtsNak | Kiss::Other(_) => now.saturating_add(self.interval),
        };
    }
}
