//! Several servers in virtual time: leap seconds, falsetickers, smears, and a counter that breaks.

use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::ensemble::table::Table;
use tickwire_clock::ensemble::{SourceConfig, Standing};
use tickwire_clockpage::{Nanos, Status};
use tickwire_sim::timekeeping::{FREQUENCY, TAI_OFFSET};
use tickwire_sim::{Leaping, OscillatorWander, SimulatedTimeServer, Timekeeping, truth};

/// 2026-07-01 00:00:00 in seconds of the simulation, which begins on 2026-01-01.
const MIDNIGHT: f64 = 181.0 * 86_400.0;
const HOUR: f64 = 3600.0;
const SECOND: i64 = 1_000_000_000;

fn servers(count: u64) -> Vec<SimulatedTimeServer> {
    (0..count).map(|number| SimulatedTimeServer::new(100 + number)).collect()
}

/// A run that begins `seconds` before `MIDNIGHT`, with a leap second of `step` there.
fn before_midnight(servers: Vec<SimulatedTimeServer>, seconds: f64, step: i32) -> Timekeeping {
    let mut run = Timekeeping::new(OscillatorWander::OFFICE, servers, 16.0, MIDNIGHT - seconds, 1);
    run.utc.leap = Some((if step > 0 { MIDNIGHT } else { MIDNIGHT - 1.0 }, step));
    run
}

/// All readings so far were within their bound, and there were some.
fn was_true(run: &mut Timekeeping) {
    let figures = run.figures();
    assert!(figures.reads() > 100, "{}", figures.reads());
    assert_eq!(figures.outside, 0);
}

#[test]
fn leap_seconds_are_applied_at_their_instant() {
    for (step, announcement) in [(1, Announcement::Insert), (-1, Announcement::Delete)] {
        let mut all = servers(3);
        all.iter_mut().for_each(|server| server.announces = announcement);
        let mut run = before_midnight(all, 2.0 * HOUR, step);
        let (leap, _) = run.utc.leap.unwrap();
        run.until(leap - 3.0, |_| ());
        for tenth in 0..60 {
            let at = leap - 3.0 + f64::from(tenth) / 10.0 + 0.05;
            run.until(at, |_| ());
            let at = at.max(run.now());
            let reading = run.reading(at);
            let error = reading.utc().since(run.utc.unix(at));
            assert!(error.unsigned_abs() <= reading.bound, "{step} {tenth}: {error} of {}", reading.bound);
            let inserted = step > 0 && (leap..leap + 1.0).contains(&at);
            assert_eq!(reading.status.contains(Status::LEAP_SECOND), inserted, "{step} {tenth}");
            assert_eq!(reading.offset, TAI_OFFSET + if at >= leap { step } else { 0 });
        }
        // Servers continue to announce it for a while, and then stop.
        run.until(leap + HOUR, |_| ());
        run.servers.iter_mut().for_each(|server| server.announces = Announcement::None);
        run.until(leap + 30.0 * HOUR, |_| ());
        let reading = run.reading(leap + 30.0 * HOUR);
        assert_eq!(reading.offset, TAI_OFFSET + step);
        was_true(&mut run);
    }
}

#[test]
fn one_liars_announcement_is_ignored() {
    let mut all = servers(3);
    all[1].announces = Announcement::Insert;
    let mut run = before_midnight(all, 2.0 * HOUR, 0);
    run.utc.leap = None;
    for at in [-1800.0, -10.0, 10.0, HOUR] {
        run.until(MIDNIGHT + at, |_| ());
        let reading = run.reading(MIDNIGHT + at);
        assert_eq!((reading.offset, reading.status.contains(Status::LEAP_SECOND)), (TAI_OFFSET, false));
        assert!(reading.utc().since(run.utc.unix(MIDNIGHT + at)).unsigned_abs() <= reading.bound);
    }
    was_true(&mut run);
}

#[test]
fn a_table_announces_a_leap_that_no_server_does() {
    let entries = vec![(Nanos(1_483_228_800 * SECOND), 37), (truth(MIDNIGHT), 38)];
    let table = |expires| Table::new(entries.clone(), truth(expires)).unwrap();
    for (expires, offset) in [(MIDNIGHT + 1e6, 38), (MIDNIGHT - 1e6, 37)] {
        let mut run = before_midnight(servers(3), 2.0 * HOUR, 1);
        run.ensemble.set_leap_table(table(expires));
        run.until(MIDNIGHT + 1.5, |_| ());
        let reading = run.reading(MIDNIGHT + 1.5);
        assert_eq!(reading.offset, offset, "an expired table tells of no leap");
    }
}

#[test]
fn a_server_that_is_set_and_servers_that_are_wrong_are_outvoted() {
    let mut all = servers(5);
    all[4].error = 3e6;
    let mut run = Timekeeping::new(OscillatorWander::OFFICE, all, 1.0, 0.0, 2);
    run.until(600.0, |_| ());
    // The selected server, so that its error matters.
    let followed = run.ensemble.chosen().unwrap();
    assert_ne!(followed, 4);
    run.servers[followed].error = -2e6;
    run.until(1200.0, |_| ());
    for wrong in [4, followed] {
        assert_eq!(run.ensemble.standings()[wrong], Standing::Outvoted, "{wrong}");
    }
    assert_eq!(run.ensemble.parameters(run.oscillator.clone().count(1200.0)).disruptions, 0);
    let figures = run.figures().summary().unwrap();
    assert!(figures.outside == 0 && figures.max < 100_000, "{figures:?}");
}

/// The published clock removes the difference gradually, which says nothing about the counter.
#[test]
fn the_counters_period_is_not_that_of_a_clock_on_its_way_to_another_server() {
    let mut all = servers(2);
    // Within both bounds, so no server is outvoted.
    all[1].error = 10_000.0;
    let mut run = Timekeeping::new(OscillatorWander::OFFICE, all, 1.0, 0.0, 5);
    run.until(600.0, |_| ());
    let first = run.ensemble.chosen().unwrap();
    run.servers[first].silent = true;
    let end = (600..6000).map(f64::from).find(|&second| {
        run.until(second, |_| ());
        run.ensemble.chosen() != Some(first)
    });
    let count = run.oscillator.clone().count(end.expect("the other one is followed some day") + 1.0);
    let published = run.ensemble.clock(count).unwrap();
    let known = run.ensemble.followed(count).unwrap();
    let truth = 1e9 / FREQUENCY / (1.0 + OscillatorWander::OFFICE.skew);
    assert!((published.period / truth - 1.0).abs() > 3e-7, "on its way: {}", published.period);
    assert!((known.period / truth - 1.0).abs() < 1e-7, "{}", known.period);
}

#[test]
fn a_counter_that_jumps_is_found_out_within_one_poll() {
    // Forward as when a virtual machine was stopped, back as on another host, and by as little as
    // 100 us.
    for counts in [250_000_000_000, -250_000_000_000, 250_000] {
        let mut run = Timekeeping::new(OscillatorWander::OFFICE, servers(3), 16.0, 0.0, 3);
        run.until(HOUR, |_| ());
        was_true(&mut run);
        run.oscillator.jump(counts);
        run.until(HOUR + 16.5, |_| ());
        run.figures();
        let page = run.ensemble.parameters(run.oscillator.clone().count(run.now() + 1.0));
        assert_eq!(page.disruptions, 1, "{counts}");
        assert!(page.status.contains(Status::SYNCHRONISED), "{counts}");
        run.until(2.0 * HOUR, |_| ());
        was_true(&mut run);
    }
}

#[test]
fn of_a_count_from_before_a_break_nothing_is_told_afterwards() {
    // Detected by the host, or shown by the servers; and the counter of a processor that has slept
    // restarts.
    for (counts, noticed) in
        [(250_000_000_000, false), (250_000, false), (250_000_000_000, true), (-2_500_000_000_000, true)]
    {
        let mut run = Timekeeping::new(OscillatorWander::OFFICE, servers(3), 16.0, 0.0, 3);
        run.until(HOUR, |_| ());
        let then = run.now();
        let before = run.oscillator.count(then);
        let reading = run.reading_of(then, before);
        assert!(reading.utc().since(run.utc.unix(then)).unsigned_abs() <= reading.bound && reading.is_known());
        run.oscillator.jump(counts);
        if noticed {
            run.disrupt();
        }
        for later in [17.0, 600.0] {
            run.until(HOUR + later, |_| ());
            let now = run.now();
            let reading = run.reading_of(now, before);
            assert!(!reading.is_known(), "{counts} after {later} s: {reading:?}");
            let (count, truth) = (run.oscillator.count(now), run.utc.unix(now));
            let reading = run.reading_of(now, count);
            assert!(reading.utc().since(truth).unsigned_abs() <= reading.bound && reading.is_known(), "{reading:?}");
            assert_eq!(reading.disruptions, 1, "{counts} after {later} s");
        }
    }
}

#[test]
fn a_suspend_is_published_until_a_server_has_answered() {
    let mut run = Timekeeping::new(OscillatorWander::OFFICE, servers(3), 16.0, 0.0, 4);
    run.until(HOUR + 2.0, |_| ());
    run.disrupt();
    let reading = run.reading(run.now() + 0.01);
    assert!(reading.status.contains(Status::DISRUPTED) && reading.bound == u64::MAX, "{reading:?}");
    run.until(HOUR + 20.0, |_| ());
    let reading = run.reading(run.now() + 0.01);
    assert!(!reading.status.contains(Status::DISRUPTED) && reading.bound < 1_000_000, "{reading:?}");
    was_true(&mut run);
}

#[test]
fn a_server_that_is_to_be_polled_rarely_is_not_silent_in_between() {
    let holdover = |silence_timeout: Option<i64>, silence: f64| {
        let mut run = Timekeeping::new(OscillatorWander::OFFICE, servers(1), 1.0, 0.0, 6);
        run.until(60.0, |_| ());
        if let Some(silence_timeout) = silence_timeout {
            run.ensemble.set_silence_timeout(0, silence_timeout);
        }
        run.servers[0].silent = true;
        run.until(60.0 + silence, |_| ());
        let reading = run.reading(60.0 + silence);
        assert!(reading.status.contains(Status::SYNCHRONISED));
        reading.status.contains(Status::HOLDOVER)
    };
    // Eight poll intervals and 2 s, for polls of 1 s and of 16 s.
    let seldom = Some(130 * SECOND);
    assert_eq!([holdover(None, 9.0), holdover(None, 12.0)], [false, true]);
    assert_eq!([holdover(seldom, 12.0), holdover(seldom, 128.0), holdover(seldom, 132.0)], [false, false, true]);
}

const SMEARED: SourceConfig = SourceConfig { asymmetry: 0.0, smeared: true };

#[test]
fn smeared_servers_are_not_mixed() {
    let mut all = servers(4);
    for smeared in &mut all[2..] {
        (smeared.leaps, smeared.known) = (Leaping::SMEARED, SMEARED);
    }
    all[..2].iter_mut().for_each(|server| server.announces = Announcement::Insert);
    let mut run = before_midnight(all, 20.0 * HOUR, 1);
    run.until(MIDNIGHT + 20.0 * HOUR, |happened| {
        assert!(
            happened.server < 2 || happened.outcome.is_err() || happened.at < MIDNIGHT - 19.9 * HOUR,
            "{happened:?}"
        );
    });
    assert_eq!(run.ensemble.standings()[2..], [Standing::Smeared; 2]);
    assert!(run.ensemble.chosen().unwrap() < 2);
    was_true(&mut run);
}

#[test]
fn smeared_servers_alone_are_followed_as_such() {
    let mut all = servers(3);
    for smeared in &mut all {
        (smeared.leaps, smeared.known) = (Leaping::SMEARED, SMEARED);
    }
    let mut run = before_midnight(all, 20.0 * HOUR, 1);
    for hours in [-19.0, -6.0, 0.0, 6.0, 19.0] {
        let at = MIDNIGHT + hours * HOUR;
        run.until(at, |_| ());
        let reading = run.reading(at.max(run.now()));
        let error = reading.utc().since(run.utc.made(Leaping::SMEARED, at));
        assert!(error.unsigned_abs() <= reading.bound, "{hours}: {error} {reading:?}");
        assert!(reading.status.contains(Status::SMEARED) && !reading.status.contains(Status::TAI_KNOWN));
    }
}

#[test]
fn a_smear_that_is_not_configured_is_detected() {
    // Three against two: without the leap table the three would win.
    let mut all = servers(5);
    all[..3].iter_mut().for_each(|server| server.leaps = Leaping::SMEARED);
    let mut run = before_midnight(all, 30.0 * HOUR, 1);
    let table = Table::new(vec![(Nanos(1_483_228_800 * SECOND), 37), (truth(MIDNIGHT), 38)], truth(MIDNIGHT + 1e7));
    run.ensemble.set_leap_table(table.unwrap());
    run.until(MIDNIGHT - 11.5 * HOUR, |_| ());
    assert!(run.ensemble.chosen().unwrap() >= 3, "{:?}", run.ensemble.standings());
    run.until(MIDNIGHT + 20.0 * HOUR, |_| ());
    assert_eq!(run.ensemble.standings()[..3], [Standing::Smeared; 3]);
    let figures = run.figures().summary().unwrap();
    assert!(figures.outside * 100 < figures.reads, "{figures:?}");
    assert!(figures.p99 < 1_000_000, "{figures:?}");
}

#[test]
fn a_leap_second_that_all_servers_make_breaks_nothing() {
    let mut all = servers(3);
    all.iter_mut().for_each(|server| server.announces = Announcement::Insert);
    let mut run = before_midnight(all, 2.0 * HOUR, 1);
    run.until(MIDNIGHT + 2.0 * HOUR, |_| ());
    assert_eq!(run.ensemble.parameters(run.oscillator.clone().count(run.now() + 1.0)).disruptions, 0);
    was_true(&mut run);
}
