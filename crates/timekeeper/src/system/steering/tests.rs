//! A kernel's clock in virtual time: how it runs, the other programs that steer it, and the result.

use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use tickclock::Nanos;

const TICK: i64 = 10_000;

/// A kernel's clock, seen by the steering and by the test.
#[derive(Debug, Default)]
struct Clock {
    state: KernelClockState,
    ahead: f64,
    steps: Vec<i64>,
    told: Option<KernelStatus>,
    tai: Option<i32>,
    writes: usize,
    refuses: bool,
}

#[derive(Clone, Debug, Default)]
struct Fake(Rc<RefCell<Clock>>);

impl Fake {
    fn change(&self, change: impl FnOnce(&mut Clock)) -> Result<(), Errno> {
        let mut clock = self.0.borrow_mut();
        if clock.refuses {
            return Err(Errno::EPERM);
        }
        clock.writes += 1;
        change(&mut clock);
        Ok(())
    }
}

impl Kernel for Fake {
    fn look(&mut self) -> Result<KernelClockState, Errno> {
        Ok(self.0.borrow().state)
    }

    fn take_over(&mut self) -> Result<(), Errno> {
        self.change(|clock| clock.state = KernelClockState { tick: TICK, looped: false, offset: 0, ..clock.state })
    }

    fn set_frequency(&mut self, units: i64) -> Result<(), Errno> {
        // A kernel may round.
        self.change(|clock| clock.state.frequency = units - 1)
    }

    fn step(&mut self, ns: i64) -> Result<(), Errno> {
        self.change(|clock| {
            clock.ahead += ns as f64;
            clock.steps.push(ns);
        })
    }

    fn tell(&mut self, told: KernelStatus) -> Result<(), Errno> {
        self.change(|clock| {
            clock.told = Some(told);
            clock.state.most_error = told.most_error;
        })
    }

    fn set_tai(&mut self, offset: i32) -> Result<(), Errno> {
        self.change(|clock| clock.tai = Some(offset))
    }

    fn usual_tick(&self) -> i64 {
        TICK
    }
}

/// A machine whose clock is steered.
struct Machine {
    fake: Fake,
    steering: Steering<Fake>,
    second: i64,
    /// By how much the system clock runs too fast by itself, in ppm.
    drift: f64,
    status: Status,
    bound: u64,
    leap: Leap,
    rival: bool,
}

impl Machine {
    fn new(ahead: f64, drift: f64) -> Self {
        let fake = Fake::default();
        {
            let mut clock = fake.0.borrow_mut();
            clock.ahead = ahead;
            clock.state = KernelClockState {
                tick: TICK,
                most_error: 16_000_000,
                unsynchronised: true,
                ..KernelClockState::default()
            };
        }
        let steering = Steering::new(fake.clone(), 100e6);
        let status = Status::SYNCHRONISED | Status::TAI_KNOWN;
        Self { fake, steering, second: 0, drift, status, bound: 50_000, leap: Leap::default(), rival: false }
    }

    fn clock(&self) -> std::cell::RefMut<'_, Clock> {
        self.fake.0.borrow_mut()
    }

    fn run(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.second += 1;
            let ahead = {
                let mut clock = self.clock();
                let ppm = clock.state.frequency as f64 / UNITS_PER_PPM;
                clock.ahead += (self.drift + ppm) * 1e3;
                clock.state.most_error = (clock.state.most_error + 500).min(16_000_000);
                clock.ahead
            };
            let reading = Reading {
                status: self.status,
                tai: Nanos(self.second * SECOND),
                offset: 37,
                error: 1_000,
                bound: self.bound,
                age: 0,
                disruptions: 0,
            };
            let now = Now { at: self.second * SECOND, ahead, base: -self.drift, reading, leap: self.leap };
            let rival = self.rival.then(|| CompetingDaemon { name: "chronyd".into(), process: 7 });
            self.steering.turn(&now, || rival);
        }
    }

    fn why(&self) -> String {
        self.steering.report().why.unwrap_or_default()
    }
}

#[test]
fn a_clock_that_is_far_off_is_set_at_the_start_and_slewed_ever_after() {
    let mut machine = Machine::new(-3600e9, 20.0);
    machine.run(8);
    assert_eq!(machine.clock().writes, 0, "first it checks for other programs that steer");
    machine.run(30);
    assert_eq!(machine.clock().steps.len(), 1);
    machine.run(60);
    assert!(machine.clock().ahead.abs() < 20.0, "{}", machine.clock().ahead);
    machine.clock().ahead += 5e9;
    machine.run(100);
    assert_eq!(machine.clock().steps.len(), 1, "never again");
    assert!((machine.clock().ahead - (5e9 - 100.0 * 480e3)).abs() < 3e6, "{}", machine.clock().ahead);
}

#[test]
fn a_time_that_may_be_wrong_by_a_second_sets_no_clock_and_leaves_one_that_is_steered_alone() {
    let mut machine = Machine { bound: 3600 * SECOND as u64, ..Machine::new(-3600e9, 20.0) };
    machine.run(100);
    assert_eq!(machine.clock().writes, 0, "two servers disagree by two hours");
    machine.bound = 50_000;
    machine.run(100);
    assert!(machine.clock().ahead.abs() < 20.0, "{}", machine.clock().ahead);
    machine.bound = 3600 * SECOND as u64;
    machine.clock().ahead += 1e9;
    machine.run(100);
    assert!((machine.clock().ahead - 1e9).abs() < 1e5, "{}", machine.clock().ahead);
    assert!(!machine.clock().told.unwrap().synchronised);
}

#[test]
fn a_clock_that_is_a_little_off_is_slewed_at_once() {
    let mut machine = Machine::new(40e6, -30.0);
    machine.run(200);
    assert!(machine.clock().steps.is_empty());
    assert!(machine.clock().ahead.abs() < 20.0, "{}", machine.clock().ahead);
    let report = machine.steering.report();
    assert!(report.steered && (report.frequency_ppm.unwrap() - 30.0).abs() < 0.01, "{report:?}");
    let told = machine.clock().told.unwrap();
    assert!(told.synchronised && told.error == 2 && (51..60).contains(&told.most_error), "{told:?}");
    assert_eq!(machine.clock().tai, Some(37));
}

#[test]
fn nothing_is_touched_while_a_known_daemon_runs() {
    let mut machine = Machine::new(40e6, 0.0);
    machine.rival = true;
    machine.run(1000);
    assert_eq!(machine.clock().writes, 0);
    assert!(machine.why().contains("chronyd (process 7)"), "{}", machine.why());
    machine.rival = false;
    machine.run(200);
    assert!(machine.clock().ahead.abs() < 20.0);
    assert_eq!(machine.why(), "");
    // And when one starts, the clock is left to it.
    machine.rival = true;
    machine.run(64);
    let writes = machine.clock().writes;
    machine.run(1000);
    assert_eq!(machine.clock().writes, writes);
}

#[test]
fn nothing_is_touched_while_an_unknown_program_steers() {
    let mut machine = Machine::new(40e6, 0.0);
    for _ in 0..100 {
        machine.run(5);
        machine.clock().state.frequency += 100;
    }
    assert_eq!(machine.clock().writes, 0);
    assert!(machine.why().contains("another program steers"), "{}", machine.why());
    // A program that only sets the error estimate, as ntpd does with the kernel's loop.
    let mut machine = Machine::new(40e6, 0.0);
    for _ in 0..100 {
        machine.run(5);
        machine.clock().state.most_error = 1000;
    }
    assert_eq!(machine.clock().writes, 0);
}

#[test]
fn a_program_that_interferes_gets_the_clock_and_each_time_for_longer() {
    let change: [fn(&mut KernelClockState); 3] =
        [|state| state.frequency += 1000, |state| state.tick += 1, |state| state.looped = true];
    for change in change {
        let mut machine = Machine::new(0.0, 10.0);
        machine.run(100);
        let mut waited = Vec::new();
        for _ in 0..3 {
            assert!(machine.steering.report().steered);
            change(&mut machine.clock().state);
            machine.run(1);
            assert!(machine.why().contains("another program has changed"), "{}", machine.why());
            let begin = machine.second;
            while !machine.steering.report().steered {
                machine.run(1);
            }
            waited.push(machine.second - begin);
        }
        assert_eq!(waited, [64, 512, 4096]);
    }
}

#[test]
fn without_the_time_the_clock_goes_on_at_its_rate_and_says_so() {
    let mut machine = Machine::new(0.0, 10.0);
    machine.run(100);
    machine.bound = u64::MAX;
    machine.clock().ahead = 1e6;
    machine.run(50);
    assert!((machine.clock().ahead - 1e6).abs() < 2e3, "it is not corrected: {}", machine.clock().ahead);
    assert!(!machine.clock().told.unwrap().synchronised);
    machine.bound = 50_000;
    machine.run(100);
    assert!(machine.clock().ahead.abs() < 20.0);
    machine.status = machine.status.with(Status::HOLDOVER, true);
    machine.clock().ahead = 1e4;
    machine.run(100);
    assert!(machine.clock().ahead.abs() < 20.0, "in holdover our clock is still the better one");
}

#[test]
fn a_clock_that_is_set_later_is_left_alone_until_the_next_start() {
    let mut machine = Machine::new(0.0, 10.0);
    machine.run(100);
    machine.clock().ahead = -3600e9;
    machine.run(50);
    assert!((machine.clock().ahead + 3600e9).abs() < 1e4);
    assert!(
        machine.why().contains("3600.0 s back") && !machine.clock().told.unwrap().synchronised,
        "{}",
        machine.why()
    );
    machine.clock().ahead = 0.0;
    machine.run(50);
    assert_eq!(machine.why(), "");
}

#[test]
fn a_leap_second_is_announced_on_its_day_and_not_corrected_while_it_lasts() {
    let mut machine = Machine::new(0.0, 10.0);
    machine.leap = Leap { offset: 37, step: 1, at: Nanos(90_000 * SECOND) };
    machine.run(100);
    assert_eq!(machine.clock().told.unwrap().leap, adjtime::KernelLeap::None, "tomorrow");
    machine.second = 89_000;
    machine.run(998);
    assert_eq!(machine.clock().told.unwrap().leap, adjtime::KernelLeap::Insert);
    // The kernel's clock has not gone back yet, ours has.
    machine.clock().ahead = 1e9;
    machine.run(3);
    assert!((machine.clock().ahead - 1e9).abs() < 1e3, "{}", machine.clock().ahead);
    machine.clock().ahead = 0.0;
    machine.run(3);
    assert!(machine.clock().ahead.abs() < 1e3);
    assert_eq!(machine.clock().told.unwrap().leap, adjtime::KernelLeap::None);
}

#[test]
fn at_the_end_the_clock_goes_on_without_what_pulled_it() {
    let mut machine = Machine::new(0.0, 10.0);
    machine.run(100);
    machine.clock().ahead = 1e6;
    machine.run(1);
    assert!((machine.clock().state.frequency as f64 / UNITS_PER_PPM + 260.0).abs() < 5.0);
    machine.steering.end();
    assert!((machine.clock().state.frequency as f64 / UNITS_PER_PPM + 10.0).abs() < 0.1);
    // Unless another program has taken it over by then.
    machine.clock().state.frequency = 12_345;
    machine.steering.end();
    assert_eq!(machine.clock().state.frequency, 12_345);
}

#[test]
fn a_kernel_that_refuses_is_told_of_and_asked_again() {
    let mut machine = Machine::new(0.0, 10.0);
    machine.run(100);
    machine.clock().refuses = true;
    machine.run(100);
    assert!(machine.why().contains("the kernel refuses: EPERM"), "{}", machine.why());
    machine.clock().refuses = false;
    machine.run(100);
    assert!(machine.steering.report().steered);
}
