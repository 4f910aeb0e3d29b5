//! The bound holds when later measurements are better than those the clock was built on: servers
//! that correct themselves, paths that become shorter. It also holds with little information: noise
//! in one direction only, and silence.

use tickwire_sim::timekeeping::FREQUENCY;
use tickwire_sim::{Delay, OscillatorWander, SimulatedTimeServer, Timekeeping};

/// A clock with one server, read four times a second.
fn with(server: SimulatedTimeServer, poll: f64, seed: u64) -> Timekeeping {
    let mut run = Timekeeping::new(OscillatorWander::OFFICE, vec![server], poll, 0.0, seed);
    run.rate = 4.0;
    run
}

/// Runs until `until` and checks that every reading since the last call was within its bound.
/// Returns their median bound in ns.
fn is_true(run: &mut Timekeeping, until: f64) -> i64 {
    run.until(until, |_| ());
    let summary = run.figures().summary().expect("the clock knew the time");
    println!("until {until}: {summary:?}");
    assert_eq!(summary.outside, 0, "until {until}: {summary:?}");
    summary.bound
}

const MS: f64 = 1e6;

/// A server that is wrong, and reports so in its root dispersion.
fn wrong(seed: u64) -> SimulatedTimeServer {
    let mut server = SimulatedTimeServer::new(seed);
    (server.error, server.dispersion) = (8.0 * MS, 10_000_000);
    server
}

#[test]
fn a_server_that_corrects_itself_says_nothing_of_its_answers_before() {
    for seed in 0..5 {
        let mut run = with(wrong(seed), 16.0, seed);
        is_true(&mut run, 960.0);
        (run.servers[0].error, run.servers[0].dispersion) = (0.0, 1_000);
        is_true(&mut run, 1_200.0);
        assert!(is_true(&mut run, 3_600.0) < 30_000, "and then it is believed");
    }
}

#[test]
fn a_server_that_slews_is_followed_at_its_distance() {
    for (seed, rate, poll) in [(0, 20e-6, 16.0), (1, 20e-6, 1.0), (2, 100e-6, 16.0), (3, 500e-6, 4.0), (4, 5e-6, 64.0)]
    {
        let mut run = with(wrong(seed), poll, seed);
        is_true(&mut run, 1_600.0);
        while run.servers[0].error > 0.0 {
            let error = (run.servers[0].error - rate * 1e9 * poll).max(0.0);
            (run.servers[0].error, run.servers[0].dispersion) = (error, (error * 1.05) as u64 + 1_000);
            let next = run.now() + poll;
            run.until(next, |_| ());
        }
        let end = run.now();
        is_true(&mut run, end + 1_000.0 + 50.0 * poll);
    }
}

#[test]
fn another_reference_is_waited_for_with_the_bound_of_the_old_one() {
    let mut run = with(wrong(1), 16.0, 1);
    run.servers[0].stratum = 3;
    is_true(&mut run, 960.0);
    run.servers[0] = SimulatedTimeServer::new(1);
    is_true(&mut run, 1_100.0);
    assert!(is_true(&mut run, 3_600.0) < 30_000);
}

/// Minimum delays to and from the server, in ns.
fn set_path(server: &mut SimulatedTimeServer, forth: f64, back: f64) {
    (server.forth.least, server.back.least) = (forth, back);
}

#[test]
fn a_path_that_becomes_shorter_shows_what_it_hid() {
    let (ms, us) = (1e6, 1e3);
    for (seed, poll, from, to) in [
        // A standing queue drains.
        (1, 1.0, [20.0 * ms, 15.0 * us], [15.0 * us, 15.0 * us]),
        (2, 16.0, [20.0 * ms, 15.0 * us], [15.0 * us, 15.0 * us]),
        (3, 1.0, [15.0 * us, 20.0 * ms], [15.0 * us, 15.0 * us]),
        (4, 16.0, [2.0 * ms, 15.0 * us], [15.0 * us, 15.0 * us]),
        (5, 1.0, [95.0 * us, 5.0 * us], [5.0 * us, 5.0 * us]),
        (6, 1.0, [5.0 * us, 95.0 * us], [5.0 * us, 5.0 * us]),
        (7, 1.0, [20.0 * ms, 4.0 * ms], [4.0 * ms, 4.0 * ms]),
        // The clock was right, and remains so.
        (8, 1.0, [50.0 * us, 50.0 * us], [50.0 * us, 5.0 * us]),
        (9, 16.0, [50.0 * us, 50.0 * us], [5.0 * us, 5.0 * us]),
        // A small change, within the interval.
        (10, 1.0, [17.0 * us, 15.0 * us], [15.0 * us, 15.0 * us]),
        (11, 1.0, [30.0 * us, 15.0 * us], [15.0 * us, 15.0 * us]),
    ] {
        let mut run = with(SimulatedTimeServer::new(seed), poll, seed);
        set_path(&mut run.servers[0], from[0], from[1]);
        is_true(&mut run, 60.0 * poll);
        set_path(&mut run.servers[0], to[0], to[1]);
        is_true(&mut run, 200.0 * poll);
        let bound = is_true(&mut run, 1_000.0 * poll) as f64;
        // Where the clock was right, the delay that one direction lost is an asymmetry that the
        // clock has learnt, and the bound keeps it.
        let path = if seed < 8 { to } else { from };
        assert!(bound < (path[0] + path[1]) / 2.0 + 3.0 * us, "{seed}: {bound}");
    }
}

#[test]
fn a_queue_that_drains_is_followed_down() {
    for (seed, poll) in [(1, 1.0), (2, 4.0), (3, 16.0)] {
        let mut run = with(SimulatedTimeServer::new(seed), poll, seed);
        set_path(&mut run.servers[0], 20e6, 15e3);
        is_true(&mut run, 60.0 * poll);
        for step in (0..40).rev() {
            set_path(&mut run.servers[0], 15e3 + f64::from(step) * 0.5e6, 15e3);
            let next = run.now() + poll;
            is_true(&mut run, next);
        }
        let end = run.now();
        is_true(&mut run, end + 200.0 * poll);
        assert!(is_true(&mut run, end + 2_000.0 * poll) < 20_000);
    }
}

#[test]
fn noise_in_one_direction_is_a_bias() {
    // The minimum delay, and the longest random delay of replies.
    for (seed, (least, wait)) in
        [(2e3, 20e3), (2e3, 40e3), (5e3, 30e3), (5e3, 60e3), (15e3, 100e3)].into_iter().enumerate()
    {
        let mut run = with(SimulatedTimeServer::new(seed as u64), 1.0, seed as u64);
        let quick = Delay { least, noise: 50.0, queue: (0, 0.0) };
        (run.servers[0].forth, run.servers[0].back) = (quick, Delay { queue: (1_000_000, wait), ..quick });
        is_true(&mut run, 7_200.0);
    }
}

#[test]
fn a_room_that_warms_while_no_server_answers() {
    // The poll interval, and the change of the rate, with a time constant of five minutes.
    for (poll, ppm) in [(1.0, 0.2), (1.0, -0.5), (1.0, 1.0), (16.0, -1.0), (64.0, 0.5), (64.0, 1.0)] {
        let mut run = with(SimulatedTimeServer::new(1), poll, 1);
        is_true(&mut run, 3_600.0);
        run.servers[0].silent = true;
        let (begun, tau) = (run.now(), 300.0_f64);
        let mut ahead = 0;
        for second in 1..=7_200 {
            let t = f64::from(second);
            let ns = ppm * 1e3 * (t - tau * (1.0 - (-t / tau).exp()));
            let counts = (ns * 1e-9 * FREQUENCY) as i64;
            run.until(begun + t, |_| ());
            run.oscillator.jump(counts - ahead);
            ahead = counts;
        }
        is_true(&mut run, begun + 7_201.0);
    }
}
