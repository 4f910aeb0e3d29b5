//! The clock with oscillators and paths of all kinds: its error, and whether its bound holds.
//! Errors are in nanoseconds.

use tickwire_clock::sync::{ExchangeRefusal, Outcome, Sync, SyncConfig};
use tickwire_clockpage::Scale;
use tickwire_sim::{Delay, Oscillator, OscillatorWander, SimulatedTimeServer, truth};

const FREQUENCY: f64 = 2.5e9;

/// Only a constant frequency offset.
const STILL: OscillatorWander = OscillatorWander { skew: 10e-6, cycles: &[], walk: 0.0, white: 0.0, ageing: 0.0 };
/// A rate with a cycle of 0.05 ppm.
const SWINGING: OscillatorWander = OscillatorWander { cycles: &[(5e-8, 600.0)], ..STILL };

/// A client, its oscillator and its server.
struct Run {
    oscillator: Oscillator,
    server: SimulatedTimeServer,
    sync: Sync,
    now: f64,
    next: f64,
    exchanges: u64,
    poll: f64,
    /// The error of each reading since `measure` began.
    errors: Vec<f64>,
    /// Readings whose error exceeded the bound.
    lies: usize,
    outcomes: Vec<Result<Outcome, ExchangeRefusal>>,
}

impl Run {
    fn new(wander: OscillatorWander, poll: f64, seed: u64) -> Self {
        let nominal = Scale::from_period(1e9 / FREQUENCY).unwrap();
        Self {
            oscillator: Oscillator::new(FREQUENCY, wander, seed),
            server: SimulatedTimeServer::new(seed ^ 0x5eed),
            sync: Sync::new(SyncConfig::new(nominal)),
            now: 0.0,
            next: 0.0,
            exchanges: 0,
            poll,
            errors: Vec::new(),
            lies: 0,
            outcomes: Vec::new(),
        }
    }

    /// Eight exchanges at once, then one per poll interval, unless the server does not answer.
    fn until(&mut self, end: f64, answers: bool) -> &mut Self {
        while self.now < end {
            if self.next <= self.now {
                if answers && let Some(exchange) = self.server.exchange(self.now, &mut self.oscillator) {
                    self.outcomes.push(self.sync.exchange(&exchange));
                    self.exchanges += 1;
                    self.now += 0.05;
                }
                self.next = self.now + if self.exchanges < 8 { 0.1 } else { self.poll };
            }
            self.read();
            self.now += (self.poll / 8.0).clamp(0.1, 10.0);
        }
        self
    }

    fn read(&mut self) {
        let count = self.oscillator.count(self.now);
        if let Some(clock) = self.sync.clock(count) {
            let error = clock.time.since(truth(self.now)) as f64;
            self.lies += usize::from(error.abs() > clock.bound);
            self.errors.push(error);
        }
    }

    /// Runs until `end` and returns the 50th and 99th percentile and the maximum of the absolute
    /// error.
    fn measure(&mut self, end: f64, answers: bool) -> [f64; 3] {
        self.errors.clear();
        self.until(end, answers);
        let mut sizes: Vec<_> = self.errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let last = sizes.len() - 1;
        let figures = [sizes[last / 2], sizes[last * 99 / 100], sizes[last]];
        println!("{figures:?} of {} readings", sizes.len());
        assert_eq!(self.lies, 0, "the bound was not always true");
        figures
    }

    fn path_changes(&self) -> Vec<f64> {
        let change = |outcome: &_| if let Ok(Outcome::PathChanged(by)) = outcome { Some(*by) } else { None };
        self.outcomes.iter().filter_map(change).collect()
    }
}

#[test]
fn a_steady_oscillator_is_read_to_a_tenth_of_a_microsecond() {
    let mut run = Run::new(STILL, 1.0, 1);
    let [median, p99, _] = run.until(60.0, true).measure(1800.0, true);
    assert!(median < 30.0 && p99 < 100.0, "{median} {p99}");
}

#[test]
fn a_computer_in_an_office_is_followed_with_a_poll_of_1_s_and_of_16_s() {
    let [median, p99, most] = Run::new(OscillatorWander::OFFICE, 1.0, 2).until(60.0, true).measure(3600.0, true);
    assert!(median < 100.0 && p99 < 200.0 && most < 500.0, "{median} {p99} {most}");
    let [median, p99, _] = Run::new(OscillatorWander::OFFICE, 16.0, 3).until(600.0, true).measure(36_000.0, true);
    assert!(median < 200.0 && p99 < 500.0, "{median} {p99}");
}

#[test]
fn two_seconds_after_a_cold_start_it_is_within_a_microsecond() {
    let [_, _, most] = Run::new(OscillatorWander::OFFICE, 1.0, 1).until(2.0, true).measure(10.0, true);
    assert!(most < 1000.0, "{most}");
}

#[test]
fn a_first_exchange_that_waited_spoils_nothing() {
    for seed in 0..20 {
        let mut run = Run::new(STILL, 1.0, seed);
        // No earlier exchange shows that this round trip is a long one.
        run.server.back.least += 35_000.0;
        run.until(0.1, true);
        run.server.back = Delay::LAN;
        let [_, _, most] = run.until(2.0, true).measure(30.0, true);
        assert!(most < 2_000.0, "{seed}: {most}");
    }
}

#[test]
fn a_cycle_is_learnt_and_foretells_an_outage() {
    let mut run = Run::new(SWINGING, 1.0, 1);
    let [_, p99, _] = run.until(300.0, true).measure(1200.0, true);
    assert!(p99 < 200.0, "{p99}");
    let [_, p99, _] = run.measure(1350.0, false);
    assert!(p99 < 1000.0, "{p99}");
    let [_, p99, _] = run.measure(1800.0, true);
    assert!(p99 < 300.0, "{p99}");
}

#[test]
fn cycles_of_any_length_foretell_an_outage_at_any_of_their_points() {
    for (seed, &(lock, cycles)) in [
        (1_080, &[(5e-8, 540.0)]),
        (1_395, &[(5e-8, 620.0)]),
        (1_500, &[(5e-8, 600.0)]),
        (1_655, &[(5e-8, 662.0)]),
        (2_190, &[(5e-8, 1_095.0)]),
    ]
    .iter()
    .enumerate()
    {
        let mut run = Run::new(OscillatorWander { cycles, ..OscillatorWander::TEN_MINUTES }, 1.0, seed as u64);
        let [_, p99, _] = run.until(f64::from(lock), true).measure(f64::from(lock + 150), false);
        assert!(p99 < 1_000.0, "{cycles:?}: {p99}");
    }
}

#[test]
fn an_hour_without_a_server_costs_less_than_a_tenth_of_a_millisecond() {
    for seed in 1..4 {
        let [.., most] = Run::new(OscillatorWander::OFFICE, 1.0, seed).until(3600.0, true).measure(7200.0, false);
        assert!(most < 100_000.0, "{most}");
    }
}

#[test]
fn a_quarter_of_an_hour_between_exchanges_is_little_enough_for_a_bound_that_is_true() {
    for poll in [30.0, 60.0, 120.0, 240.0, 480.0, 960.0] {
        let [median, ..] =
            Run::new(OscillatorWander::OFFICE, poll, 4).until(20.0 * poll, true).measure(200.0 * poll, true);
        // What this oscillator's cycle contributes in a poll interval; exchanges this rare hardly
        // see the half-hour cycle.
        assert!(median < 200.0 + 0.02 * poll * poll, "poll {poll}: {median}");
    }
}

#[test]
fn a_path_that_grows_in_one_direction_does_not_move_the_clock() {
    let mut run = Run::new(OscillatorWander::OFFICE, 1.0, 5);
    run.until(600.0, true);
    run.server.forth.least += 50_000.0;
    let [.., most] = run.measure(1200.0, true);
    assert!(most < 2000.0, "{most}");
    run.server.forth.least -= 50_000.0;
    let [.., most] = run.measure(1800.0, true);
    assert!(most < 2000.0, "{most}");
    let changes = run.path_changes();
    assert!(matches!(changes[..], [there, back] if (there - 50_000.0).abs() < 1000.0 && (there + back).abs() < 1000.0));
}

#[test]
fn congestion_is_no_change_of_the_path() {
    let mut run = Run::new(OscillatorWander::OFFICE, 1.0, 5);
    run.until(600.0, true);
    let full = Delay { queue: (950_000, 10_000_000.0), ..Delay::LAN };
    (run.server.forth, run.server.back) = (full, full);
    let [_, p99, _] = run.measure(1200.0, true);
    assert!(p99 < 5000.0, "{p99}");
    assert_eq!(run.path_changes(), []);
}

#[test]
fn a_server_that_is_set_is_doubted_first_and_then_believed() {
    let mut run = Run::new(OscillatorWander::OFFICE, 1.0, 6);
    run.until(600.0, true);
    run.server.error = 1e6;
    let [.., most] = run.measure(605.0, true);
    assert!(most < 200.0, "{most}");
    run.until(640.0, true);
    assert!(run.outcomes.contains(&Ok(Outcome::ServerStepped)));
    assert!((run.errors.last().unwrap() - 1e6).abs() < 2000.0);
}

#[test]
fn the_same_exchanges_give_the_same_clock_to_the_last_bit() {
    let clock = || {
        let mut run = Run::new(OscillatorWander::OFFICE, 1.0, 7);
        run.until(300.0, true);
        let count = run.oscillator.count(run.now + 1.0);
        format!("{:?}", run.sync.clock(count))
    };
    assert_eq!(clock(), clock());
}

#[test]
fn stamps_of_the_program_move_a_clock_of_kernel_stamps_little() {
    let mut run = Run::new(STILL, 1.0, 8);
    run.until(120.0, true);
    // 4 us late at both ends, like a program that the scheduler delays: the round trip alone shows
    // half of that.
    for _ in 0..10 {
        let exchange = run.server.exchange(run.now, &mut run.oscillator).unwrap();
        let exchange = tickwire_clock::Exchange {
            sent: exchange.sent.plus(10_000),
            received: exchange.received.plus(10_000),
            stamp_error: 5_000,
            ..exchange
        };
        run.sync.exchange(&exchange).unwrap();
        run.now += 1.0;
        run.read();
    }
    let [.., most] = run.measure(140.0, true);
    assert!(most < 300.0, "{most}");
}
