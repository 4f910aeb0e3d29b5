//! When to ask: a burst at the start, then at a steady pace; slower where a server is silent or
//! says that it is asked too often.

use super::restraint::Restraint;
use crate::kiss::Kiss;

const SECOND: i64 = 1_000_000_000;

/// How often to ask, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The usual interval.
    pub usual: i64,
    /// The longest: for servers that are silent, or want to be asked less often.
    pub longest: i64,
}

/// Requests in the burst, and the most time between them: enough to find a quiet moment, and over
/// within two seconds.
const BURST: u32 = 8;
const BURST_INTERVAL: i64 = 200_000_000;
/// Between two bursts there is so much time at least: servers whose answers show breaks of the
/// counter again and again are not asked all the time.
const BURST_AGAIN: i64 = 16 * SECOND;
/// How long an answer may take.
const PATIENCE: i64 = SECOND;
/// How often a lost answer is asked for again within one interval, if the interval has room for it.
const AGAIN: u32 = 2;
/// So many silent intervals in a row, and the next is twice as long.
const SILENT: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    poll: Poll,
    /// What the server's wishes have made of the usual interval.
    least: i64,
    interval: i64,
    /// Requests of the burst that are left.
    burst: u32,
    /// When the last burst began.
    burst_at: i64,
    due: i64,
    /// When the interval began in which the last request lies.
    begun: i64,
    again: u32,
    silent: u32,
    waiting: bool,
    reach: u8,
    restraint: Restraint,
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
            restraint: Restraint::new(),
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

    /// Until when it is left alone because it denies service.
    pub(super) fn denied(&self) -> Option<i64> {
        self.restraint.is_denied().then_some(self.due)
    }

    /// When it may be asked more often again, if it has said that it is asked too often.
    pub(super) fn slowed(&self) -> Option<i64> {
        (self.least > self.poll.usual).then(|| self.restraint.ends())
    }

    /// Until an answer comes, requests are so far apart at least.
    pub(super) fn slow_down(&mut self, interval: i64) {
        self.interval = self.interval.max(interval);
    }

    /// A request goes out.
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
        let patience = PATIENCE.min(self.interval / 4);
        let next = self.begun.saturating_add(self.pace());
        // Asked again only where the interval is long enough that this is no flood.
        let retry = now.saturating_add(patience);
        self.due = if self.again < AGAIN && self.interval >= 4 * SECOND && retry < next && self.burst == 0 {
            self.again += 1;
            retry
        } else {
            next
        };
    }

    /// All that was learnt is void: asks at once, and in a burst, unless the server denies service,
    /// wants to be asked less often, or had a burst a moment ago.
    pub(super) fn begin_again(&mut self, now: i64) {
        let restrained = self.restraint.is_denied() || self.least > self.poll.usual;
        if restrained || now.saturating_sub(self.burst_at) < BURST_AGAIN {
            return;
        }
        (self.burst, self.burst_at) = (BURST, now);
        (self.waiting, self.again, self.due) = (false, 0, now);
    }

    /// The interval before the last request passed without an answer.
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

    /// The server does not want to serve (RFC 5905 §7.4).
    pub(super) fn kissed(&mut self, kiss: Kiss, now: i64) {
        self.waiting = false;
        self.again = 0;
        let longest = self.poll.longest.max(self.least);
        self.due = match kiss {
            Kiss::Deny | Kiss::Restricted => {
                self.burst = 0;
                // If it does not even say no when it is tried again, it is asked as seldom as one
                // that is silent.
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
