//! A time server at the end of a path that delays: exchanges as a client with good stamps would see
//! them.

use crate::oscillator::Oscillator;
use crate::rng::Rng;
use tickwire_clock::keeper::Source;
use tickwire_clock::keeper::leap::Announcement;
use tickwire_clock::{Exchange, Nanos, ServerState};

/// One direction of a path, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// What every packet takes.
    pub least: f64,
    /// Mean of what comes on top at random: stamps, wake-ups, queues of few packets.
    pub noise: f64,
    /// How many packets of a million meet a queue, and how long that is at most.
    pub queue: (u32, f64),
}

impl Delay {
    /// A switch between two computers, with the kernel's stamps.
    pub const LAN: Self = Self { least: 15_000.0, noise: 300.0, queue: (1_000, 50_000.0) };
    /// The same with a cable that is full in this direction: hardly a packet finds the queue of 10
    /// ms empty.
    pub const FULL: Self = Self { queue: (950_000, 10_000_000.0), ..Self::LAN };
    /// A provider's network: half of the packets wait behind others for up to half a millisecond.
    pub const WIDE: Self = Self { least: 4_000_000.0, noise: 20_000.0, queue: (500_000, 500_000.0) };

    fn draw(&self, rng: &mut Rng) -> f64 {
        let queued = if rng.chance(self.queue.0) { rng.uniform() * self.queue.1 } else { 0.0 };
        self.least + self.noise * rng.exponential() + queued
    }
}

/// UTC, as far as it has a leap second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utc {
    /// In seconds of the simulation: the beginning of 23:59:60, or of the 23:59:59 that is left
    /// out; and +1 or -1.
    pub leap: Option<(f64, i32)>,
}

impl Utc {
    /// Unix time at `at` seconds of the simulation.
    #[must_use]
    pub fn unix(&self, at: f64) -> Nanos {
        let step = self.leap.map_or(0, |(leap, step)| if at >= leap { step } else { 0 });
        truth(at).plus(-i64::from(step) * 1_000_000_000)
    }

    /// The same as a server tells it that makes a leap second in this way.
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

/// How a server makes a leap second, in seconds. The usual way is at its instant and at once, as
/// kernels do it: 23:59:59 is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Leaping {
    /// It begins so much after the instant, or before: after a second it is 00:00:00 that is
    /// repeated, and who learns of it from others is later.
    pub late: f64,
    /// It takes so long: one that stands still takes a second, others slew.
    pub over: f64,
}

impl Leaping {
    /// Over the day around it, as Google's and Amazon's servers do.
    pub const SMEARED: Self = Self { late: -43_200.0, over: 86_400.0 };
}

/// A server and the path to it.
#[derive(Clone, Debug)]
pub struct TimeServer {
    /// The way there.
    pub forth: Delay,
    /// The way back.
    pub back: Delay,
    /// How far the server's clock is off, in ns.
    pub error: f64,
    /// How far it says that it may be off, in ns: its root dispersion. Honest, if that is at least
    /// `error`.
    pub dispersion: u64,
    /// What it says its distance from the reference is.
    pub stratum: u8,
    /// How many exchanges of a million are lost.
    pub loss: u32,
    /// It does not answer.
    pub silent: bool,
    /// How it makes leap seconds.
    pub leaps: Leaping,
    /// What the client's user knows of it.
    pub known: Source,
    /// What it says of the end of the day.
    pub announces: Announcement,
    rng: Rng,
}

/// The time at the beginning of every simulation: 2026-01-01.
pub(crate) const BEGIN: Nanos = Nanos(1_767_225_600_000_000_000);

/// How long the server takes to answer, in ns.
const AT_SERVER: f64 = 20_000.0;

impl TimeServer {
    /// A server with a right clock on a LAN.
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
            known: Source::default(),
            announces: Announcement::None,
            rng: Rng::new(seed),
        }
    }

    /// An exchange whose request leaves at `at` seconds; `None` if it is lost. Server stamps know
    /// no leap seconds.
    pub fn exchange(&mut self, at: f64, oscillator: &mut Oscillator) -> Option<Exchange> {
        self.exchange_in(&Utc::default(), at, oscillator)
    }

    /// An exchange in a world with this UTC.
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

/// True time at `at` seconds of the simulation, in a world without leap seconds.
#[must_use]
pub fn truth(at: f64) -> Nanos {
    let whole = libm::floor(at);
    BEGIN.plus(whole as i64 * 1_000_000_000).plus(libm::round((at - whole) * 1e9) as i64)
}
