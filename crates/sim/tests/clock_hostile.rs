//! What falsetickers, dead servers and a broken counter can do to a clock with several servers:
//! nothing outside of its bound, and nothing that lasts.

use tickwire_clock::ensemble::Standing;
use tickwire_clockpage::Count;
use tickwire_sim::{Delay, OscillatorWander, SimulatedTimeServer, Timekeeping};

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

fn run(servers: Vec<SimulatedTimeServer>, poll: f64, seed: u64) -> Timekeeping {
    Timekeeping::new(OscillatorWander::OFFICE, servers, poll, 0.0, seed)
}

fn servers(count: u64) -> Vec<SimulatedTimeServer> {
    (0..count).map(|number| SimulatedTimeServer::new(1 + number)).collect()
}

/// Error and bound of the published time at `at`, in ns, and the number of times readers were
/// notified that times before and after cannot be compared.
fn published(run: &mut Timekeeping, at: f64) -> (f64, f64, u32) {
    run.until(at, |_| ());
    let at = at.max(run.now());
    let reading = run.reading(at);
    let disruptions = run.ensemble.parameters(run.oscillator.count(at)).disruptions;
    (reading.utc().since(run.utc.unix(at)) as f64, reading.bound as f64, disruptions)
}

/// The counter's value.
fn counted(run: &mut Timekeeping) -> Count {
    let now = run.now();
    run.oscillator.count(now)
}

/// The time is within a small bound.
fn is_good(run: &mut Timekeeping, at: f64) -> u32 {
    let (error, bound, disruptions) = published(run, at);
    assert!(
        error.abs() <= bound && bound < MS,
        "{at} s: error {error} ns, bound {bound} ns, {:?}",
        run.ensemble.standings()
    );
    disruptions
}

#[test]
fn a_liar_that_was_followed_is_left_at_once_when_the_others_outvote_it() {
    for error in [3600.0 * SECOND, -3600.0 * SECOND, 20.0 * MS] {
        let mut all = servers(3);
        all[0].error = error;
        (all[1].silent, all[2].silent) = (true, true);
        let mut run = run(all, 1.0, 1);
        let (wrong, _, before) = published(&mut run, 60.0);
        assert!((wrong - error).abs() < MS, "it is the only server");
        (run.servers[1].silent, run.servers[2].silent) = (false, false);
        let (then, count) = (run.now(), counted(&mut run));
        assert_eq!(is_good(&mut run, 65.0), before + 1, "readers are told that the time was set");
        let reading = run.reading_of(run.now(), count);
        assert!(
            reading.utc().since(run.utc.unix(then)).unsigned_abs() <= reading.bound && reading.is_known(),
            "{reading:?}"
        );
        run.figures();
        assert_eq!(is_good(&mut run, 2000.0), before + 1);
        assert_eq!(run.figures().outside, 0);
    }
}

#[test]
fn a_server_alone_that_is_set_far_sets_the_time_and_readers_are_told() {
    let mut run = run(servers(1), 1.0, 2);
    assert_eq!(is_good(&mut run, 600.0), 0);
    let count = counted(&mut run);
    run.servers[0].error = -5.0 * SECOND;
    let (error, bound, disruptions) = published(&mut run, 620.0);
    assert!((error + 5.0 * SECOND).abs() < bound && bound < MS, "{error} {bound}");
    assert_eq!(disruptions, 1);
    // A counter that jumped by 5 s would look the same.
    assert!(!run.reading_of(run.now(), count).is_known());
    run.until(640.0, |_| ());
    let count = counted(&mut run);
    assert!(run.reading_of(run.now(), count).is_known());
}

#[test]
fn nothing_leads_over_a_break_that_the_servers_have_shown() {
    // A bridge over nearly two years at 10 ppm; and a jump that is visible only with servers this
    // near.
    for jump in [600.0, -600.0, 0.001] {
        let mut run = run(servers(3), 1.0, 3);
        is_good(&mut run, 600.0);
        run.oscillator.jump((jump * 2.5e9) as i64);
        assert_eq!(is_good(&mut run, 603.0), 1, "{jump}");
        assert_eq!(run.ensemble.breaks(), 1);
        run.figures();
        assert_eq!(is_good(&mut run, 3000.0), 1, "{jump}");
        assert_eq!(run.figures().outside, 0);
    }
}

/// Every reading until `end` was within its bound, and `disruptions` did not change.
fn stays_true(run: &mut Timekeeping, end: f64) {
    run.figures();
    let (_, _, before) = published(run, run.now());
    let (error, bound, after) = published(run, end);
    assert!(error.abs() <= bound, "{end} s: error {error} ns, bound {bound} ns, {:?}", run.ensemble.standings());
    let figures = run.figures();
    assert!(figures.reads() > 100 && figures.outside == 0, "{} of {}", figures.outside, figures.reads());
    assert_eq!(before, after);
}

#[test]
fn a_wide_server_makes_no_majority_with_a_liar() {
    // Early or late, and from the beginning or later.
    for error in [-40.0 * MS, 40.0 * MS] {
        for begin in [0.0, 60.0] {
            let mut all = servers(3);
            // It reports that its time may be wrong by 100 ms; it is wrong by 30 ms.
            (all[2].dispersion, all[2].error) = (100_000_000, 30.0 * MS);
            let mut run = run(all, 1.0, 4);
            run.until(begin, |_| ());
            run.servers[1].error = error;
            run.until(begin + 20.0, |_| ());
            stays_true(&mut run, 3600.0);
            let (_, bound, _) = published(&mut run, 3601.0);
            assert!((40.0 * MS..300.0 * MS).contains(&bound), "no majority shows which server is right: {bound}");
        }
    }
}

/// The limit of a majority vote: see Limits in docs/clock.md.
#[test]
fn a_liar_that_no_interval_contradicts_moves_the_time_by_no_more_than_they_leave_open() {
    let near_and_far = |error: f64| {
        let mut all = servers(3);
        all[0].error = error;
        all[1..].iter_mut().for_each(|far| {
            far.dispersion = 20_000_000;
            (far.forth, far.back) = (Delay::WIDE, Delay::WIDE);
        });
        let mut run = run(all, 1.0, 13);
        let (error, bound, _) = published(&mut run, 600.0);
        (error, bound, run.ensemble.standings()[0])
    };
    // The usual case that the bound is designed for: one near server, two far ones.
    let (error, bound, standing) = near_and_far(0.0);
    assert!(error.abs() <= bound && bound < 50_000.0 && standing == Standing::Followed, "{error} {bound}");
    for lie in [10.0 * MS, -10.0 * MS] {
        let (error, bound, standing) = near_and_far(lie);
        assert!((error - lie).abs() <= bound && bound < 50_000.0 && standing == Standing::Followed, "{error} {bound}");
    }
    // 20 ms of dispersion plus half a round trip of 8 ms.
    let (error, bound, standing) = near_and_far(30.0 * MS);
    assert!(error.abs() <= bound && bound > 20.0 * MS && standing == Standing::Outvoted, "{error} {bound}");
}

#[test]
fn a_dead_server_has_no_vote() {
    let mut run = run(servers(3), 16.0, 5);
    run.until(3600.0, |_| ());
    // Neither the selected server nor the one that will lie.
    let followed = run.ensemble.chosen().unwrap();
    let [dead, liar] = [(followed + 1) % 3, (followed + 2) % 3];
    run.servers[dead].silent = true;
    // The dead server's bound grows until it includes both.
    run.until(90_000.0, |_| ());
    run.servers[liar].error = -5.0 * MS;
    stays_true(&mut run, 96_000.0);
    assert_eq!(run.ensemble.standings()[dead], Standing::Silent);
    run.servers[dead].silent = false;
    assert_eq!(is_good(&mut run, 97_000.0), 0, "and it decides when it is back");
}

#[test]
fn after_an_outage_of_all_servers_the_first_that_is_back_is_not_believed_alone() {
    let mut run = run(servers(3), 16.0, 6);
    run.until(3600.0, |_| ());
    run.servers.iter_mut().for_each(|server| server.silent = true);
    run.until(7200.0, |_| ());
    let followed = run.ensemble.chosen().unwrap();
    let liar = (followed + 1) % 3;
    (run.servers[liar].silent, run.servers[liar].error) = (false, 2.0 * SECOND);
    stays_true(&mut run, 7600.0);
    run.servers.iter_mut().for_each(|server| server.silent = false);
    assert_eq!(is_good(&mut run, 7700.0), 0);
}

#[test]
fn a_dead_server_does_not_hold_out_for_ever_against_one_that_lives() {
    for (count, poll) in [(2, 1.0), (3, 16.0)] {
        let mut run = run(servers(count), poll, 12);
        run.until(3600.0, |_| ());
        let followed = run.ensemble.chosen().unwrap();
        let alive = (followed + 1) % run.servers.len();
        run.servers.iter_mut().for_each(|server| server.silent = true);
        run.until(7200.0, |_| ());
        // The server was set while all servers were silent; as it is the last one left, its time
        // becomes the time.
        (run.servers[alive].silent, run.servers[alive].error) = (false, -2.0 * SECOND);
        stays_true(&mut run, 10_700.0);
        assert!(matches!(run.ensemble.standings()[alive], Standing::Disputed(_)), "{:?}", run.ensemble.standings());
        let (error, bound, disruptions) = published(&mut run, 11_100.0);
        assert!((error + 2.0 * SECOND).abs() <= bound && bound < MS, "{error} {bound} {:?}", run.ensemble.standings());
        assert_eq!((disruptions, run.ensemble.chosen()), (1, Some(alive)));
        // The server that returns contradicts the other one, and neither has a majority.
        run.servers[followed].silent = false;
        let (error, bound, _) = published(&mut run, 11_200.0);
        assert!((error + 2.0 * SECOND).abs() < MS && bound > 2.0 * SECOND, "{error} {bound}");
    }
}

#[test]
fn a_server_that_is_far_from_the_reference_has_no_vote_beside_others() {
    let mut all = servers(3);
    all[2].dispersion = 1_600_000_000;
    let mut run = run(all, 1.0, 7);
    is_good(&mut run, 60.0);
    assert_eq!(run.ensemble.standings()[2], Standing::Far);
}

/// Seconds without a known time; all readings until the end were within their bound.
fn told_after(run: &mut Timekeeping, begun: f64) -> f64 {
    run.rate = 1000.0;
    run.figures();
    run.until(begun + 5.0, |_| ());
    let figures = run.figures();
    assert!(figures.outside == 0 && figures.reads() > 500, "{} of {}", figures.outside, figures.reads());
    f64::from(u32::try_from(figures.unknown).unwrap()) / 1000.0
}

#[test]
fn the_first_that_is_heard_is_not_believed_alone() {
    // At the start and after a break that the host has detected, whichever server lies.
    for liar in 0..3 {
        let mut all = servers(3);
        all[liar].error = 3600.0 * SECOND;
        let mut run = run(all, 64.0, 8);
        let cold = told_after(&mut run, 0.0);
        assert!(cold < 0.1, "{cold} s");
        is_good(&mut run, 600.0);
        run.oscillator.jump(1 << 40);
        run.disrupt();
        let broken = told_after(&mut run, 600.0);
        assert!(broken < 0.1, "{broken} s");
        is_good(&mut run, 610.0);
    }
}

#[test]
fn an_absent_server_is_waited_for_at_the_start_but_not_for_long() {
    let cold = |silent: usize| {
        let mut all = servers(3);
        all[..silent].iter_mut().for_each(|server| server.silent = true);
        told_after(&mut run(all, 16.0, 9), 0.0)
    };
    assert!(cold(0) < 0.1 && cold(1) < 0.1);
    assert!((2.8..4.2).contains(&cold(2)), "{}", cold(2));
}

#[test]
fn what_a_server_said_hours_ago_is_no_sign_that_the_counter_has_broken() {
    let mut run = run(servers(3), 16.0, 10);
    run.until(3600.0, |_| ());
    let followed = run.ensemble.chosen().unwrap();
    let [dead, liar] = [(followed + 1) % 3, (followed + 2) % 3];
    // Its last sample is an outlier.
    run.servers[dead].error = SECOND;
    run.until(3616.5, |_| ());
    run.servers[dead].silent = true;
    run.until(10.0 * 3600.0, |_| ());
    run.servers[liar].error = 3600.0 * SECOND;
    stays_true(&mut run, 11.0 * 3600.0);
    assert_eq!(run.ensemble.breaks(), 0);
}

#[test]
fn of_two_servers_the_one_that_is_set_is_not_followed_there() {
    let mut run = run(servers(2), 1.0, 11);
    run.until(600.0, |_| ());
    let followed = run.ensemble.chosen().unwrap();
    run.servers[followed].error = 60.0 * SECOND;
    stays_true(&mut run, 1200.0);
    let (error, bound, _) = published(&mut run, 1201.0);
    assert!(error.abs() < MS && bound > 59.0 * SECOND, "no majority shows which server is right: {error} {bound}");
}
