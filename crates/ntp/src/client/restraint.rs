//! For how long a kiss is obeyed (RFC 5905 §7.4; RFC 8633 §5.4).
//!
//! A server that denies service (DENY, RSTR) must be left alone at once, and one that is asked too
//! often (RATE) must be asked less often each time that it says so. For how long is not said: ntpd
//! and ntpd-rs mean until they are started anew; chronyd does not mind a denial, and after RATE it
//! only pauses. But a kiss is one packet that nobody has signed, access rules are mended, and
//! nobody starts a daemon anew for that. So each is obeyed for an hour; then it is tried, once,
//! what the server says now. If it objects, the next wait is twice as long, up to a day: a server
//! that never changes its mind is asked about once a day. One that answers is forgiven its denials:
//! the next one may be forged, and counts for no more than the first.

const HOUR: i64 = 3_600_000_000_000;
const LEAST: i64 = HOUR;
const MOST: i64 = 24 * HOUR;

#[derive(Clone, Debug)]
pub(super) struct Restraint {
    /// How long the last kiss is obeyed, in ns.
    wait: i64,
    /// The last kiss, or the last try since, or the first answer after a denial. As long as service
    /// is denied: when that is tried next.
    since: i64,
    /// It was tried since the last kiss; if it objects now, that is the answer.
    tried: bool,
    /// The last kiss was a denial, and nothing else was heard since.
    denied: bool,
}

impl Restraint {
    pub(super) const fn new() -> Self {
        Self { wait: LEAST, since: 0, tried: false, denied: false }
    }

    /// The server denies service at `now`; gives when to try again.
    pub(super) fn denied(&mut self, now: i64) -> i64 {
        // Only what answers the try after a denial is more than a first one: how long the server's
        // pace was left alone is another matter.
        self.wait = if self.denied { self.longer() } else { LEAST };
        self.since = now.saturating_add(self.wait);
        (self.tried, self.denied) = (true, true);
        self.since
    }

    /// The server wants to be asked less often.
    pub(super) fn slowed(&mut self, now: i64) {
        if self.tried {
            self.wait = self.longer();
        }
        self.since = now;
        (self.tried, self.denied) = (false, false);
    }

    fn longer(&self) -> i64 {
        self.wait.saturating_mul(2).min(MOST)
    }

    /// The server has answered at `now`; `true`: it has not objected for so long that it may be
    /// asked more often, if it is asked seldom. If not, all is forgiven.
    pub(super) fn answered(&mut self, now: i64, seldom: bool) -> bool {
        if self.denied {
            *self = Self { since: now, ..Self::new() };
        }
        let over = now >= self.ends();
        match over {
            true if seldom => (self.since, self.tried) = (now, true),
            true => *self = Self::new(),
            false => {}
        }
        over && seldom
    }

    pub(super) const fn is_denied(&self) -> bool {
        self.denied
    }

    /// When the kiss has been obeyed for long enough.
    pub(super) const fn ends(&self) -> i64 {
        self.since.saturating_add(self.wait)
    }
}
