//! Kiss-o'-Death backoff (RFC 5905 §7.4; RFC 8633 §5.4).
//!
//! After DENY or RSTR the client must stop at once; after each RATE it must poll less often. The
//! RFC does not say for how long: ntpd and ntpd-rs obey until they restart; chronyd ignores a
//! denial, and only pauses after RATE. But a kiss is one unauthenticated packet, access rules get
//! fixed, and administrators do not restart a daemon for that. So each kiss is obeyed for an hour;
//! then one request tests what the server says now. If it objects again, the next wait is twice as
//! long, up to a day: a server that denies for ever gets about one request a day. A reply clears
//! all denials: the next one may be forged, and counts as a first one.

const HOUR: i64 = 3_600_000_000_000;
const LEAST: i64 = HOUR;
const MOST: i64 = 24 * HOUR;

#[derive(Clone, Debug)]
pub(super) struct KodBackoff {
    /// How long the last kiss is obeyed, in ns.
    wait: i64,
    /// The time of the last kiss, of the last try since, or of the first reply after a denial.
    /// While service is denied: when the next try is due.
    since: i64,
    /// A try was made since the last kiss; if the server objects now, that is its response.
    tried: bool,
    /// The last kiss was a denial, and nothing else was received since.
    denied: bool,
}

impl KodBackoff {
    pub(super) const fn new() -> Self {
        Self { wait: LEAST, since: 0, tried: false, denied: false }
    }

    /// The server denies service at `now`; returns when to try again.
    pub(super) fn on_denial(&mut self, now: i64) -> i64 {
        // Only a denial of the try after a denial counts as repeated. How long the poll rate stayed
        // reduced after RATE does not matter here.
        self.wait = if self.denied { self.longer() } else { LEAST };
        self.since = now.saturating_add(self.wait);
        (self.tried, self.denied) = (true, true);
        self.since
    }

    /// The server sent RATE.
    pub(super) fn on_rate(&mut self, now: i64) {
        if self.tried {
            self.wait = self.longer();
        }
        self.since = now;
        (self.tried, self.denied) = (false, false);
    }

    fn longer(&self) -> i64 {
        self.wait.saturating_mul(2).min(MOST)
    }

    /// The server replied at `now`. Clears a denial. Once the backoff is over, returns `true` if
    /// the poll rate is reduced (`seldom`) and may rise, else resets the backoff.
    pub(super) fn on_reply(&mut self, now: i64, seldom: bool) -> bool {
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

    /// When the backoff of the last kiss ends.
    pub(super) const fn ends(&self) -> i64 {
        self.since.saturating_add(self.wait)
    }
}
