//! A time server at the end of a path with delay: produces exchanges as a client with good
//! timestamps sees them.

use crate::oscillator::Oscillator;
use crate::rng::Rng;
use tickwire_clock::ensemble::SourceConfig;
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::{Exchange, ServerState};
use tickwire_clockpage::Nanos;

/// One direction of a path, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// The minimum delay, common to all packets.
    pub least: f64,
    /// Mean of the random delay on top: timestamps, wakeups, short queues.
    pub noise: f64,
    /// Packets of a million that meet a queue, and the longest delay of that queue.
    pub queue: (u32, f64),
}

impl Delay {
    /// A switch between two computers, with kernel timestamps.
    pub const LAN: Self = Self { least: 15_000.0, noise: 300.0, queue: (1_000, 50_000.0) };
    /// The same with a saturated cable in this direction: hardly a packet finds the queue of 10 ms
    /// empty.
    pub const FULL: Self = Self { queue: (950_000, 10_000_000.0), ..Self::LAN };
    /// A provider's network: half of the packets wait behind others for up to half a millisecond.
    pub const WIDE: Self = Self { least: 4_000_000.0, noise: 20_000.0, queue: (500_000, 500_000.0) };

    fn draw(&self, rng: &mut Rng) -> f64 {
        let queued = if rng.chance(self.queue.0) { rng.uniform() * self.queue.1 } else { 0.0 };
        self.least + self.noise * rng.exponential() + queued
    }
}

/// UTC with at most one leap second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utc {
    /// In seconds of the simulation: the beginning of 23:59:60, or of the omitted 23:59:59; and +1
    /// or -1.
    pub leap: Option<(f64, i32)>,
}

impl Utc {
    /// Unix time at `at` seconds of the simulation.
    #[must_use]
    pub fn unix(&self, at: f64) -> Nanos {
        let step = self.leap.map_or(0, |(leap, step)| if at >= leap { step } else { 0 });
        truth(at).plus(-i64::from(step) * 1_000_000_000)
    }

    /// The same time as served by a server that applies the leap second in this way.
    #[must_use]
    pub fn made(&self, how: Leaping, at: f64) -> Nanos {
        let Leaping { late, over } = how;
        let made = |(leap, step): (f64, i32)| match at - leap - late {
            since if since < 0.0 => 0.0,
            since if since < over => f64::from(step) * since / over,
            _ => f64::from(step),
        };
        truth(at).plus(-libm::round(self.leap.map_or(0.0, made) * 1e9) as i64)
    }
}

/// How a server applies a leap second, in seconds. The usual way, as kernels do it, is a step at
/// its instant: 23:59:59 is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Leaping {
    /// Delay after the instant, negative if before. A delay of one second repeats 00:00:00; a
    /// server that learns of the leap from other servers is later still.
    pub late: f64,
    /// Duration: a clock that stands still takes one second, others slew for longer.
    pub over: f64,
}

impl Leaping {
    /// Smeared over the day around the instant, as by Google's and Amazon's servers.
    pub const SMEARED: Self = Self { late: -43_200.0, over: 86_400.0 };
}

/// A server and the path to it.
#[derive(Clone, Debug)]
pub struct SimulatedTimeServer {
    /// Delay to the server.
    pub forth: Delay,
    /// Delay from the server.
    pub back: Delay,
    /// Error of the server's clock, in ns.
    pub error: f64,
    /// Root dispersion that it reports, in ns. It is honest if that is at least `error`.
    pub dispersion: u64,
    /// Stratum that it reports.
    pub stratum: u8,
    /// Exchanges lost, per million.
    pub loss: u32,
    /// It does not answer.
    pub silent: bool,
    /// How it applies leap seconds.
    pub leaps: Leaping,
    /// What the client is configured to know about it.
    pub known: SourceConfig,
    /// Leap announcement that it sends.
    pub announces: Announcement,
    rng: Rng,
}

/// The time at the start of every simulation: 2026-01-01.
pub(crate) const BEGIN: Nanos = Nanos(1_767_225_600_000_000_000);

/// The server's processing time, in ns.
const AT_SERVER: f64 = 20_000.0;

impl SimulatedTimeServer {
    /// A server with a correct clock on a LAN.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            forth: Delay::LAN,
            back: Delay::LAN,
            error: 0.0,
            dispersion: 100,
            stratum: 1,
            loss: 0,
            silent: false,
            leaps: Leaping::default(),
            known: SourceConfig::default(),
            announces: Announcement::None,
            rng: Rng::new(seed),
        }
    }

    /// An exchange whose request leaves at `at` seconds; `None` if it is lost. The server's
    /// timestamps contain no leap second.
    pub fn exchange(&mut self, at: f64, oscillator: &mut Oscillator) -> Option<Exchange> {
        self.exchange_in(&Utc::default(), at, oscillator)
    }

    /// An exchange in a world with the given UTC.
    pub fn exchange_in(&mut self, utc: &Utc, at: f64, oscillator: &mut Oscillator) -> Option<Exchange> {
        let (forth, back) = (self.forth.draw(&mut self.rng), self.back.draw(&mut self.rng));
        if self.rng.chance(self.loss) || self.silent {
            return None;
        }
        let sent = oscillator.count(at);
        let arrives = at * 1e9 + forth;
        let leaves = arrives + AT_SERVER;
        let received = oscillator.count((leaves + back) * 1e-9);
        let stamp = |ns: f64| utc.made(self.leaps, ns * 1e-9).plus(self.error as i64);
        let server = ServerState {
            synchronised: true,
            stratum: self.stratum,
            reference: 0x4750_5300,
            root_delay: 0,
            root_dispersion: self.dispersion,
        };
        Some(Exchange {
            sent,
            server_received: stamp(arrives),
            server_sent: stamp(leaves),
            received,
            server,
            stamp_error: 0,
        })
    }
}

/// True time at `at` seconds of the simulation, without leap seconds.
#[must_use]
pub fn truth(at: f64) -> Nanos {
    let whole = libm::floor(at);
    BEGIN.plus(whole as i64 * 1_000_000_000).plus(libm::round((at - whole) * 1e9) as i64)
}
