//! Congestion control: limits the bytes in flight. All algorithms share one interface. The state is
//! plain data in the lane's region, so the choice is a tag and not a trait object.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `cubic` | CUBIC's congestion avoidance, the default | 9438 |
//! | `reno` | Reno's congestion avoidance | 5681 §3.1 |
//! | `hystart` | when the first slow start ends (HyStart++) | 9406 |
//! | `ecn` | explicit congestion notification | 3168 |

mod cubic;
pub(super) mod ecn;
mod hystart;
mod reno;
#[cfg(test)]
mod tests;

use crate::tcp::timers::rtt::Rtt;
use crate::time::Instant;
use cubic::Cubic;
use hystart::HyStart;
use reno::Reno;
use zerocopy::FromZeros;

/// The algorithm of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum Algorithm {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic = 0,
    /// Reno (RFC 5681).
    Reno = 1,
}

shared_layout! { enum Algorithm { Cubic, Reno } }

impl Algorithm {
    /// The name by which programs know it (`TCP_CONGESTION`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }

    /// The algorithm of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Cubic, Self::Reno].into_iter().find(|a| a.name() == name)
    }
}

/// The input of congestion control from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    /// Arrival time.
    pub now: Instant,
    /// Bytes newly acknowledged.
    pub bytes: u32,
    /// Maximum segment size, in bytes.
    pub mss: u32,
    /// Whether the window, rather than the program or the peer, limited the bytes in flight (RFC
    /// 7661 §4.3 in spirit: a window that was not used proves nothing).
    pub limited: bool,
    /// Whether this acknowledgement begins a new round trip.
    pub new_round: bool,
}

/// The congestion state of one connection; windows are in bytes.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct Congestion {
    /// The congestion window.
    pub cwnd: u32,
    /// The slow start threshold.
    pub ssthresh: u32,
    /// The algorithm.
    pub algorithm: Algorithm,
    cubic: Cubic,
    reno: Reno,
    hystart: HyStart,
}

shared_layout! { Congestion { cwnd, ssthresh, algorithm, cubic, reno, hystart } }

/// The state that a loss changes, as it was before.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Before {
    pub(super) cwnd: u32,
    ssthresh: u32,
    cubic: cubic::Epoch,
}

shared_layout! { Before { cwnd, ssthresh, cubic } }

/// The largest window: that of the largest scaled peer window.
pub(super) const MAX_WINDOW: u32 = 1 << 30;

/// The initial window (RFC 6928: ten segments).
#[must_use]
pub(super) fn initial_window(mss: u32) -> u32 {
    (10 * mss).min((2 * mss).max(14_600))
}

/// The window of the first flight, and of one after a pause, on a route with an initcwnd of
/// `segments`; 0: the default.
fn first_window(segments: u16, mss: u32) -> u32 {
    match segments {
        0 => initial_window(mss),
        segments => u32::from(segments).saturating_mul(mss).min(MAX_WINDOW),
    }
}

impl Congestion {
    /// The state of a new connection.
    #[must_use]
    pub(in crate::tcp) fn new(algorithm: Algorithm, mss: u32) -> Self {
        Self {
            cwnd: initial_window(mss),
            ssthresh: MAX_WINDOW,
            algorithm,
            cubic: Cubic::default(),
            reno: Reno::default(),
            hystart: HyStart::default(),
        }
    }

    /// Sets the initial window to the route's, in segments; 0: the default.
    pub(in crate::tcp) fn begin_with(&mut self, segments: u16, mss: u32) {
        self.cwnd = first_window(segments, mss);
    }

    /// Whether the connection is in slow start.
    #[must_use]
    pub(in crate::tcp) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// New data was acknowledged, and the window may grow.
    pub(in crate::tcp) fn on_ack(&mut self, acked: &Acked, rtt: &Rtt) {
        // RFC 9406 §4.3: only the first slow start has no known threshold.
        let first = self.ssthresh == MAX_WINDOW;
        if first {
            self.hystart.hear(acked, rtt);
        }
        if !acked.limited {
            return self.cubic.pause(acked.now);
        }
        let mut bytes = acked.bytes;
        if self.in_slow_start() {
            let growth = if first { self.hystart.growth(bytes) } else { bytes };
            let room = self.ssthresh - self.cwnd;
            self.cwnd += growth.min(room);
            if self.hystart.leaves_slow_start() {
                self.ssthresh = self.cwnd;
                self.hystart = HyStart::default();
            }
            if growth <= room {
                self.cwnd = self.cwnd.min(MAX_WINDOW);
                return;
            }
            bytes = growth - room;
        }
        let grown = match self.algorithm {
            Algorithm::Cubic => self.cubic.avoid(acked, bytes, rtt, self.cwnd),
            Algorithm::Reno => self.reno.avoid(bytes, acked.mss, self.cwnd),
        };
        self.cwnd = grown.min(MAX_WINDOW);
    }

    /// A loss was detected: sets the slow start threshold; PRR then leads the window to it.
    pub(in crate::tcp) fn on_loss(&mut self, mss: u32) {
        let reduced = match self.algorithm {
            Algorithm::Cubic => self.cubic.reduce(mss, self.cwnd),
            Algorithm::Reno => self.reno.reduce(self.cwnd),
        };
        self.hystart = HyStart::default();
        self.ssthresh = reduced.max(2 * mss);
    }

    /// The retransmission timer expired (RFC 5681 §3.1, equation 4): one segment, then slow start.
    pub(in crate::tcp) fn on_timeout(&mut self, mss: u32, first: bool) {
        if first {
            self.on_loss(mss);
        }
        self.cubic.timed_out();
        self.cwnd = mss;
    }

    /// The state to restore if a loss that is detected now proves spurious.
    pub(in crate::tcp) const fn before(&self) -> Before {
        Before { cwnd: self.cwnd, ssthresh: self.ssthresh, cubic: self.cubic.epoch }
    }

    /// The loss was spurious (RFC 9438 §4.9). If the window is by now larger than before the loss,
    /// it stays as it is (§4.9.2).
    pub(in crate::tcp) fn restore(&mut self, before: &Before) {
        if self.cwnd <= before.cwnd {
            (self.cwnd, self.ssthresh) = (before.cwnd, before.ssthresh);
            self.cubic.epoch = before.cubic;
        }
    }

    /// The connection sends again after everything was acknowledged, soon enough for the window to
    /// be valid.
    pub(in crate::tcp) fn on_start(&mut self, now: Instant) {
        self.cubic.pause(now);
    }

    /// The connection sends again after it was idle for longer than a timeout (RFC 5681 §4.1).
    pub(in crate::tcp) fn on_idle(&mut self, first: u16, mss: u32) {
        self.cubic.restart();
        // Round trips before the pause are irrelevant for the slow start that follows.
        self.hystart = HyStart::default();
        self.cwnd = self.cwnd.min(first_window(first, mss));
    }

    /// The segment size changed: the window never falls below one segment.
    pub(in crate::tcp) fn on_mss(&mut self, mss: u32) {
        self.cwnd = self.cwnd.max(mss);
    }
}
