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
/// The timeout of a reply.
const TIMEOUT: i64 = SECOND;
/// Retries of a lost exchange within one interval, if the interval has room for them.
const AGAIN: u32 = 2;
/// After this many silent intervals in a row the interval doubles.
const SILENT: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    poll: Poll,
    /// The usual interval, as lengthened by RATE kisses.
    least: i64,
    interval: i64,
    /// Requests of the burst that are left.
    burst: u32,
    /// When the last burst began.
    burst_at: i64,
    due: i64,
    /// Start of the interval in which the last request lies.
    begun: i64,
    again: u32,
    silent: u32,
    waiting: bool,
    reach: u8,
    restraint: KodBackoff,
}

impl Schedule {
    pub(super) const fn new(poll: Poll, now: i64) -> Self {
        Self {
            poll,
            least: poll.usual,
            interval: poll.usual,
            burst: BURST,
            burst_at: now,
            due: now,
            begun: now,
            again: 0,
            silent: 0,
            waiting: false,
            reach: 0,
            restraint: KodBackoff::new(),
        }
    }

    pub(super) const fn due(&self) -> i64 {
        self.due
    }

    pub(super) const fn interval(&self) -> i64 {
        self.interval
    }

    pub(super) const fn allowed(&self) -> i64 {
        self.least
    }

    pub(super) const fn reach(&self) -> u8 {
        self.reach
    }

    /// Until when no request is sent because the server denies service.
    pub(super) fn denied(&self) -> Option<i64> {
        self.restraint.is_denied().then_some(self.due)
    }

    /// After a RATE kiss: when the poll rate may rise again.
    pub(super) fn slowed(&self) -> Option<i64> {
        (self.least > self.poll.usual).then(|| self.restraint.ends())
    }

    /// Sets the least interval between requests until a reply arrives.
    pub(super) fn slow_down(&mut self, interval: i64) {
        self.interval = self.interval.max(interval);
    }

    /// A request is sent.
    pub(super) fn asked(&mut self, now: i64) {
        let retry = self.waiting && self.again > 0 && now.saturating_sub(self.begun) < self.interval;
        if !retry {
            self.begun = now;
            self.again = 0;
            self.reach <<= 1;
            if self.waiting {
                self.silence();
            }
        }
        self.waiting = true;
        self.burst = self.burst.saturating_sub(1);
        let silence_timeout = TIMEOUT.min(self.interval / 4);
        let next = self.begun.saturating_add(self.pace());
        // Retries only if the interval is long enough that this is no flood.
        let retry = now.saturating_add(silence_timeout);
        self.due = if self.again < AGAIN && self.interval >= 4 * SECOND && retry < next && self.burst == 0 {
            self.again += 1;
            retry
        } else {
            next
        };
    }

    /// Restarts at once with a burst, unless the server denies service, has sent RATE, or a burst
    /// began recently.
    pub(super) fn begin_again(&mut self, now: i64) {
        let restrained = self.restraint.is_denied() || self.least > self.poll.usual;
        if restrained || now.saturating_sub(self.burst_at) < BURST_AGAIN {
            return;
        }
        (self.burst, self.burst_at) = (BURST, now);
        (self.waiting, self.again, self.due) = (false, 0, now);
    }

    /// The interval before the last request passed without a reply.
    fn silence(&mut self) {
        self.silent += 1;
        if self.silent >= SILENT {
            self.silent = 0;
            self.interval = self.interval.saturating_mul(2).min(self.poll.longest.max(self.least));
        }
    }

    fn pace(&self) -> i64 {
        if self.burst > 0 { BURST_INTERVAL.min(self.interval) } else { self.interval }
    }

    pub(super) fn answered(&mut self, now: i64) {
        self.waiting = false;
        self.silent = 0;
        self.again = 0;
        self.reach |= 1;
        if self.restraint.answered(now, self.least > self.poll.usual) {
            self.least = (self.least / 2).max(self.poll.usual);
        }
        self.interval = self.least;
        self.due = self.begun.saturating_add(self.pace());
    }

    /// The server refuses service (RFC 5905 §7.4).
    pub(super) fn kissed(&mut self, kiss: Kiss, now: i64) {
        self.waiting = false;
        self.again = 0;
        let longest = self.poll.longest.max(self.least);
        self.due = match kiss {
            Kiss::Deny | Kiss::Restricted => {
                self.burst = 0;
                // If the retry gets no response at all, the server is polled as slowly as a silent
                // one.
                self.interval = longest;
                self.restraint.denied(now)
            }
            Kiss::Rate => {
                self.burst = 0;
                self.least = self.least.saturating_mul(2).min(longest);
                self.interval = self.interval.max(self.least);
                self.restraint.slowed(now);
                now.saturating_add(self.interval)
            }
            Kiss::NtsNak | Kiss::Other(_) => now.saturating_add(self.interval),
        };
    }
}
