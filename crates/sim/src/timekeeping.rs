//! A clock daemon in virtual time: it polls its servers, disciplines the clock and publishes it.
//! Programs read it at random instants, and each reading is compared with the true time.

use crate::figures::ClockErrors;
use crate::oscillator::{Oscillator, OscillatorWander};
use crate::rng::Rng;
use crate::time_server::{SimulatedTimeServer, Utc, truth};
use tickwire_clock::Exchange;
use tickwire_clock::ensemble::{self, Ensemble};
use tickwire_clock::sync::{ExchangeRefusal, Outcome};
use tickwire_clockpage::{Count, Parameters, Reading, Scale, Status};

/// The counter's nominal frequency in Hz.
pub const FREQUENCY: f64 = 2.5e9;
/// TAI - UTC.
pub const TAI_OFFSET: i32 = 37;

/// Requests in the burst at the start, and seconds between them.
const BURST: u32 = 8;
const BURST_INTERVAL: f64 = 0.2;
/// A break of the counter starts another burst, but not within this many seconds of the last.
const BURST_AGAIN: f64 = 16.0;
/// Holdover begins after this many poll intervals plus `TIMEOUT` seconds.
const POLLS: f64 = 8.0;
const TIMEOUT: f64 = 2.0;
/// The page is stale after this many ns.
const FRESH: i64 = 5_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// The result of an exchange.
#[derive(Clone, Debug)]
pub struct Happened {
    /// Time of the request in seconds.
    pub at: f64,
    /// The server's index.
    pub server: usize,
    /// The exchange.
    pub exchange: Exchange,
    /// The clock's verdict on it.
    pub outcome: Result<Outcome, ExchangeRefusal>,
}

/// The daemon, its environment and its readers.
#[derive(Debug)]
pub struct Timekeeping {
    /// What drives the counter.
    pub oscillator: Oscillator,
    /// The servers that it polls.
    pub servers: Vec<SimulatedTimeServer>,
    /// The clock.
    pub ensemble: Ensemble,
    /// True UTC.
    pub utc: Utc,
    /// Reads per second.
    pub rate: f64,
    poll: f64,
    due: Vec<f64>,
    asked: Vec<u32>,
    burst: f64,
    next_read: f64,
    rng: Rng,
    page: Parameters,
    published: f64,
    figures: ClockErrors,
}

impl Timekeeping {
    /// A daemon that polls these servers every `poll` seconds. It starts at `start` seconds.
    ///
    /// # Panics
    /// If there is no server.
    #[must_use]
    pub fn new(wander: OscillatorWander, servers: Vec<SimulatedTimeServer>, poll: f64, start: f64, seed: u64) -> Self {
        assert!(!servers.is_empty());
        let config = ensemble::EnsembleConfig {
            nominal: Scale::from_period(1e9 / FREQUENCY).expect("a counter's frequency"),
            rate_error: 100e-6,
            holdover_after: ((poll * POLLS + TIMEOUT) * 1e9) as i64,
            fresh_for: FRESH,
            tai_offset: Some(TAI_OFFSET),
        };
        let mut oscillator = Oscillator::new(FREQUENCY, wander, seed);
        oscillator.count(start);
        Self {
            oscillator,
            ensemble: Ensemble::new(config, &servers.iter().map(|server| server.known).collect::<Vec<_>>()),
            utc: Utc::default(),
            rate: 1.0,
            poll,
            // Staggered, so that requests do not coincide.
            due: (0..servers.len()).map(|number| start + 0.01 * number as f64).collect(),
            asked: vec![0; servers.len()],
            burst: start,
            servers,
            next_read: start,
            rng: Rng::new(seed ^ 0x0070_6167_6500),
            page: Parameters::UNKNOWN,
            published: start,
            figures: ClockErrors::default(),
        }
    }

    /// Time of the last event, in seconds.
    #[must_use]
    pub const fn now(&self) -> f64 {
        self.oscillator.now()
    }

    /// Advances the time to `end`, in seconds; calls `seen` with every exchange.
    pub fn until(&mut self, end: f64, mut seen: impl FnMut(&Happened)) {
        loop {
            let (server, due) =
                self.due.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).expect("a server");
            while self.next_read < due.min(end) {
                self.read(self.next_read);
                self.next_read += (0.5 + self.rng.uniform()) / self.rate;
            }
            if due >= end {
                return;
            }
            self.asked[server] += 1;
            let pause = if self.asked[server] < BURST { BURST_INTERVAL } else { self.poll };
            self.due[server] = due + pause;
            self.ask(server, due.max(self.now()), &mut seen);
        }
    }

    fn ask(&mut self, server: usize, at: f64, seen: &mut impl FnMut(&Happened)) {
        self.tick(at);
        let Some(exchange) = self.servers[server].exchange_in(&self.utc, at, &mut self.oscillator) else { return };
        let breaks = self.ensemble.breaks();
        let outcome = self.ensemble.exchange(server, &exchange, self.servers[server].announces);
        if self.ensemble.breaks() != breaks {
            self.ask_again();
        }
        self.publish();
        // Programs also read during an exchange, but the simulation's time must not go back.
        self.next_read = self.next_read.max(self.now());
        seen(&Happened { at, server, exchange, outcome });
    }

    /// The host detects that the counter has broken.
    pub fn disrupt(&mut self) {
        let now = self.now();
        self.ensemble.disrupt(self.oscillator.count(now));
        self.ask_again();
        self.publish();
    }

    /// Polls all servers again, in a burst.
    fn ask_again(&mut self) {
        let now = self.now();
        if now - self.burst < BURST_AGAIN {
            return;
        }
        self.burst = now;
        self.asked.fill(0);
        self.due.iter_mut().enumerate().for_each(|(number, due)| *due = now + 0.01 * number as f64);
    }

    /// Publishes at every full second.
    fn tick(&mut self, at: f64) {
        let second = libm::floor(at);
        if second > self.published && second >= self.now() {
            self.oscillator.count(second);
            self.publish();
        }
    }

    /// Publishes the clock page now.
    pub fn publish(&mut self) {
        let now = self.now();
        self.page = self.ensemble.parameters(self.oscillator.count(now));
        self.published = now;
    }

    /// The page's reading at `at` seconds, which must not be before any earlier event.
    pub fn reading(&mut self, at: f64) -> Reading {
        self.tick(at);
        self.page.reading(self.oscillator.count(at))
    }

    /// The page's reading at `at` seconds for an earlier counter value.
    pub fn reading_of(&mut self, at: f64, count: Count) -> Reading {
        self.tick(at);
        self.page.reading_of(count, || self.oscillator.count(at))
    }

    fn read(&mut self, at: f64) {
        let reading = self.reading(at);
        if reading.status.contains(Status::SYNCHRONISED) {
            let error = reading.tai.since(truth(at).plus(i64::from(TAI_OFFSET) * SECOND));
            self.figures.take(error, reading.bound);
        } else {
            self.figures.unknown += 1;
        }
    }

    /// The errors of readings since the last call.
    pub fn figures(&mut self) -> ClockErrors {
        core::mem::take(&mut self.figures)
    }
}
