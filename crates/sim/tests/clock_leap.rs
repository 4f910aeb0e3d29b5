//! Leap seconds as real servers apply them, servers that are stepped across one, and servers whose
//! date is wrong.

use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::ensemble::table::Table;
use tickwire_clock::sync::ExchangeRefusal;
use tickwire_clockpage::{Nanos, Status};
use tickwire_sim::timekeeping::TAI_OFFSET;
use tickwire_sim::{Leaping, OscillatorWander, SimulatedTimeServer, Timekeeping, truth};

/// 2026-07-01 00:00:00 in seconds of the simulation, which begins on 2026-01-01.
const MIDNIGHT: f64 = 181.0 * 86_400.0;
const DAY: f64 = 86_400.0;
const SECOND: i64 = 1_000_000_000;

fn servers(count: u64) -> Vec<SimulatedTimeServer> {
    (0..count).map(|number| SimulatedTimeServer::new(100 + number)).collect()
}

/// The leap seconds of 2015 and 2017, and one of `step` at `MIDNIGHT`.
fn table(step: i32) -> Table {
    let past = [(1_435_708_800, TAI_OFFSET - 1), (1_483_228_800, TAI_OFFSET)];
    let past = past.map(|(unix, offset)| (Nanos(unix * SECOND), offset));
    let entries = past.into_iter().chain([(truth(MIDNIGHT), TAI_OFFSET + step)]);
    Table::new(entries.collect(), truth(MIDNIGHT + 150.0 * DAY)).unwrap()
}

/// A run that begins `seconds` before `MIDNIGHT`, with a leap second there; returns the run and the
/// leap's instant.
fn before_midnight(servers: Vec<SimulatedTimeServer>, poll: f64, seconds: f64, step: i32) -> (Timekeeping, f64) {
    let mut run = Timekeeping::new(OscillatorWander::OFFICE, servers, poll, MIDNIGHT - seconds, 1);
    let leap = if step > 0 { MIDNIGHT } else { MIDNIGHT - 1.0 };
    run.utc.leap = Some((leap, step));
    (run, leap)
}

/// Error and bound of the published Unix time at `at`, in ns.
fn published(run: &mut Timekeeping, at: f64) -> (i64, u64) {
    run.until(at, |_| ());
    let at = at.max(run.now());
    let reading = run.reading(at);
    (reading.utc().since(run.utc.unix(at)), reading.bound)
}

#[test]
fn a_leap_second_is_right_in_whatever_way_servers_make_it() {
    // A step at the instant, or a second late so that 00:00:00 is repeated; standing still for the
    // second; slewed; by servers that learn of the leap from others.
    let ways = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 12.0), (10.0, 0.0), (300.0, 0.0), (0.0, 2000.0)];
    for (late, over) in ways {
        for (poll, count, step, tabled) in
            [(1.0, 1, 1, true), (1.0, 3, -1, true), (1.0, 1, 1, false), (16.0, 1, -1, false), (16.0, 3, 1, true)]
        {
            let mut all = servers(count);
            let announces = if step > 0 { Announcement::Insert } else { Announcement::Delete };
            all.iter_mut().for_each(|server| {
                (server.leaps, server.announces) = (Leaping { late, over }, announces);
            });
            let (mut run, leap) = before_midnight(all, poll, 600.0, step);
            if tabled {
                run.ensemble.set_leap_table(table(step));
            }
            let (near, far) =
                ((-30..150).map(|tenth| f64::from(tenth) / 10.0), (2..300).map(|ten| f64::from(10 * ten)));
            for since in near.chain(far) {
                let at = leap + since + 0.05;
                let (error, bound) = published(&mut run, at);
                assert!(
                    error.unsigned_abs() <= bound && bound < 100_000_000,
                    "{late} s late, over {over} s, poll {poll} s, {count} servers, {step} s, after {since} s: {error} of {bound}"
                );
            }
            assert_eq!(run.ensemble.parameters(run.oscillator.clone().count(leap + 3600.0)).disruptions, 0);
        }
    }
}

/// A leap second that all servers announce and none applies.
fn false_alarm(poll: f64, count: u64, tabled: bool) -> Timekeeping {
    let mut all = servers(count);
    all.iter_mut().for_each(|server| server.announces = Announcement::Insert);
    let (mut run, _) = before_midnight(all, poll, 600.0, 1);
    run.utc.leap = None;
    if tabled {
        run.ensemble.set_leap_table(table(1));
    }
    run
}

#[test]
fn a_leap_second_that_no_server_makes_is_taken_back_unless_a_table_has_it() {
    for (poll, count) in [(1.0, 1), (16.0, 1), (16.0, 3)] {
        let mut run = false_alarm(poll, count, false);
        let (error, _) = published(&mut run, MIDNIGHT + 2.5);
        assert!((error + SECOND).abs() < 1_000_000, "a false alarm is not detectable yet: {error}");
        for since in [604.0 + 2.0 * poll, 1e3, 1e4, 0.9 * DAY, 1.1 * DAY] {
            let (error, bound) = published(&mut run, MIDNIGHT + since);
            let disruptions = run.ensemble.parameters(run.oscillator.clone().count(run.now() + 1.0)).disruptions;
            assert!(error.unsigned_abs() <= bound && bound < 1_000_000, "{poll} {count} {since}: {error} of {bound}");
            assert_eq!(disruptions, 1, "readers are told");
        }
        // With a table the servers are wrong: they are ignored for a day.
        let mut run = false_alarm(poll, count, true);
        for since in [3.0 + 9.0 * poll, 1e3, 0.9 * DAY] {
            let (error, bound) = published(&mut run, MIDNIGHT + since);
            let error = error + SECOND;
            assert!(
                error.unsigned_abs() <= bound && bound < SECOND as u64,
                "{poll} {count} {since}: {error} of {bound}"
            );
        }
    }
}

#[test]
fn once_a_leap_second_is_taken_back_no_server_is_late_with_it() {
    for poll in [128.0, 1024.0] {
        let mut run = false_alarm(poll, 3, false);
        let mut outcomes = Vec::new();
        run.until(MIDNIGHT + 12.0 * poll, |happened| {
            if happened.at > MIDNIGHT + 3.0 {
                outcomes.push(happened.outcome);
            }
        });
        // Two of three are a majority: the eighth reply of the second one is already used.
        let (denials, rest) = outcomes.split_at(8 + 7 + 7);
        assert!(denials.iter().all(|outcome| *outcome == Err(ExchangeRefusal::Leaping)), "poll {poll}: {denials:?}");
        assert!(rest.len() > 9 && rest.iter().all(Result::is_ok), "poll {poll}: {rest:?}");
        let at = run.now() + 0.5;
        assert!(!run.reading(at).status.contains(Status::HOLDOVER), "poll {poll}");
    }
}

#[test]
fn a_server_that_is_set_over_a_leap_second_is_right_at_once() {
    // Across the leap second of 2017, forward and back.
    let year = 365.0 * DAY * 1e9;
    for (wrong, right) in [(-12.0 * year, 0.0), (0.0, -12.0 * year)] {
        let mut all = servers(1);
        all[0].error = wrong;
        let mut run = Timekeeping::new(OscillatorWander::OFFICE, all, 1.0, 0.0, 2);
        run.ensemble.set_leap_table(table(1));
        run.until(600.0, |_| ());
        run.servers[0].error = right;
        let mut set = false;
        for second in 600..660 {
            let at = f64::from(second) + 0.5;
            let (error, bound) = published(&mut run, at);
            let off = |from: f64| (error - from as i64).unsigned_abs() > bound;
            set |= !off(right);
            assert!(!off(if set { right } else { wrong }), "{second}: {error} of {bound}");
        }
        assert!(set);
    }
}

#[test]
fn an_outvoted_server_does_not_set_the_date() {
    let mut all = servers(4);
    all.iter_mut().for_each(|server| server.announces = Announcement::Insert);
    // Its date is the end of the year, when another leap second is possible.
    all[3].error = 183.5 * DAY * 1e9;
    let (mut run, leap) = before_midnight(all, 16.0, 7200.0, 1);
    for since in [-3600.0, -10.0, 100.0, 7200.0] {
        let (error, bound) = published(&mut run, leap + since);
        let offset = run.reading(run.now()).offset;
        assert!(error.unsigned_abs() <= bound && bound < 1_000_000, "{since}: {error} of {bound}");
        assert_eq!(offset, TAI_OFFSET + i32::from(since > 0.0));
    }
}
