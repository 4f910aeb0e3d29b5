//! Congestion control: limits the bytes in flight. All algorithms share one interface. The state is
//! plain data in the lane's region, so the choice is a tag and not a trait object.
//!
//! `loss_recovery::recovery` calls it for acknowledgements, losses and routers' marks,
//! `timers::timeouts` after a timeout. While PRR leads the window to the threshold, it does not act
//! on acknowledgements. Then, and in a few other cases, the caller assigns `cwnd`:
//!
//! | caller | case | RFC |
//! |---|---|---|
//! | `loss_recovery::recovery`, `timers::timeouts` | fast recovery, or a mark (PRR) | 6937 |
//! | `loss_recovery::recovery` | a probe repaired a loss | 8985 §7.4.2 |
//! | `loss_recovery::frto` | a timeout that may be spurious | 5682 |
//! | `setup::handshake` | a lost SYN | 5681 §3.1 |
//!
//! Files:
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
    /// Whether the window, rather than the program or the peer, limited the bytes in flight
    /// (Linux: `tcp_is_cwnd_limited`). A window that was not used proves nothing about the path,
    /// and does not grow (RFC 9438 §5.8; Reno's does not either, as on Linux).
    pub cwnd_limited: bool,
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

/// The window and its curve before a reduction, to be restored if that proves spurious.
///
/// Reno's counted bytes and HyStart++'s state are reset by a reduction and not restored. Without
/// them growth is late by at most a segment, and by the rounds that HyStart++ compares.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct SavedWindow {
    pub(super) cwnd: u32,
    ssthresh: u32,
    cubic: cubic::Epoch,
}

shared_layout! { SavedWindow { cwnd, ssthresh, cubic } }

/// The largest window: that of the largest scaled peer window.
pub(super) const MAX_WINDOW: u32 = 1 << 30;

/// The initial window (RFC 6928: ten segments).
#[must_use]
pub(super) fn initial_window(mss: u32) -> u32 {
    (10 * mss).min((2 * mss).max(14_600))
}

/// The window of the first flight, and of one after a pause. `initcwnd`: the route's, in segments;
/// 0: the default.
fn first_window(initcwnd: u16, mss: u32) -> u32 {
    match initcwnd {
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
    pub(in crate::tcp) fn begin_with(&mut self, initcwnd: u16, mss: u32) {
        self.cwnd = first_window(initcwnd, mss);
    }

    /// Whether the connection is in slow start.
    #[must_use]
    pub(in crate::tcp) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether neither a reduction nor HyStart++ has set a threshold yet. HyStart++ acts only then
    /// (RFC 9406 §4.3).
    const fn is_first_slow_start(&self) -> bool {
        self.ssthresh == MAX_WINDOW
    }

    /// New data was acknowledged, and the window may grow.
    pub(in crate::tcp) fn on_ack(&mut self, acked: &Acked, rtt: &Rtt) {
        if self.is_first_slow_start() {
            self.hystart.on_sample(acked, rtt);
        }
        if !acked.cwnd_limited {
            // Reno has no epoch: this does nothing there.
            return self.cubic.skip_unused_time(acked.now);
        }
        let mut bytes = acked.bytes;
        // Slow start.
        if self.in_slow_start() {
            let mut growth = bytes;
            if self.is_first_slow_start() {
                self.hystart.update_phase();
                growth = self.hystart.growth(bytes);
            }
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
        // Congestion avoidance, with what slow start left over.
        let grown = match self.algorithm {
            Algorithm::Cubic => self.cubic.grow(acked, bytes, rtt, self.cwnd),
            Algorithm::Reno => self.reno.grow(bytes, acked.mss, self.cwnd),
        };
        self.cwnd = grown.min(MAX_WINDOW);
    }

    /// A loss or a router's mark: lowers the threshold. The window follows by PRR, or the caller
    /// sets it.
    pub(in crate::tcp) fn on_congestion(&mut self, mss: u32) {
        let ssthresh = match self.algorithm {
            Algorithm::Cubic => self.cubic.ssthresh_after_loss(mss, self.cwnd),
            Algorithm::Reno => self.reno.ssthresh_after_loss(self.cwnd),
        };
        self.hystart = HyStart::default();
        self.ssthresh = ssthresh.max(2 * mss);
    }

    /// The retransmission timer expired (RFC 5681 §3.1, equation 4): one segment, then slow start.
    /// `first_expiry`: the first for this loss; further ones do not lower the threshold again.
    pub(in crate::tcp) fn on_timeout(&mut self, mss: u32, first_expiry: bool) {
        if first_expiry {
            self.on_congestion(mss);
        }
        self.cubic.timed_out();
        self.cwnd = mss;
    }

    /// The state to restore if a loss that is detected now proves spurious.
    pub(in crate::tcp) const fn save(&self) -> SavedWindow {
        SavedWindow { cwnd: self.cwnd, ssthresh: self.ssthresh, cubic: self.cubic.epoch }
    }

    /// The loss was spurious (RFC 9438 §4.9). If the window is by now larger than before the loss,
    /// it stays as it is (§4.9.2).
    pub(in crate::tcp) fn restore(&mut self, saved: &SavedWindow) {
        if self.cwnd <= saved.cwnd {
            (self.cwnd, self.ssthresh) = (saved.cwnd, saved.ssthresh);
            self.cubic.epoch = saved.cubic;
        }
    }

    /// The connection sends again after everything was acknowledged, soon enough for the window to
    /// be valid.
    pub(in crate::tcp) fn on_start(&mut self, now: Instant) {
        self.cubic.skip_unused_time(now);
    }

    /// The connection sends again after it was idle for longer than a timeout (RFC 5681 §4.1).
    /// `initcwnd`: the route's, in segments; 0: the default.
    pub(in crate::tcp) fn on_idle(&mut self, initcwnd: u16, mss: u32) {
        self.cubic.restart();
        // Round trips before the pause are irrelevant for the slow start that follows.
        self.hystart = HyStart::default();
        self.cwnd = self.cwnd.min(first_window(initcwnd, mss));
    }

    /// The segment size changed: the window never falls below one segment.
    pub(in crate::tcp) fn on_mss(&mut self, mss: u32) {
        self.cwnd = self.cwnd.max(mss);
    }
}
