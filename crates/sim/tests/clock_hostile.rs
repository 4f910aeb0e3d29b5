//! What liars, dead servers and a broken counter can do to a clock that asks several servers: nothing that its bound does not hold, and nothing that lasts.

use tickwire_sim::{TimeServer, Timekeeping, Wander};

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

fn run(servers: Vec<TimeServer>, poll: f64, seed: u64) -> Timekeeping {
    Timekeeping::new(Wander::OFFICE, servers, poll, 0.0, seed)
}

fn servers(count: u64) -> Vec<TimeServer> {
    (0..count).map(|number| TimeServer::new(1 + number)).collect()
}

/// Error and bound of what is published at `at`, in ns, and how often readers were told that times cannot be compared.
fn published(run: &mut Timekeeping, at: f64) -> (f64, f64, u32) {
    run.until(at, |_| ());
    let at = at.max(run.now());
    let reading = run.reading(at);
    let disruptions = run.keeper.parameters(run.oscillator.count(at)).disruptions;
    (reading.utc().since(run.utc.unix(at)) as f64, reading.bound as f64, disruptions)
}

/// The time is known, and well.
fn is_good(run: &mut Timekeeping, at: f64) -> u32 {
    let (error, bound, disruptions) = published(run, at);
    assert!(
        error.abs() <= bound && bound < MS,
        "{at} s: error {error} ns, bound {bound} ns, {:?}",
        run.keeper.standings()
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
        assert!((wrong - error).abs() < MS, "nobody else is there");
        (run.servers[1].silent, run.servers[2].silent) = (false, false);
        assert_eq!(is_good(&mut run, 65.0), before + 1, "readers are told that the time was set");
        run.figures();
        assert_eq!(is_good(&mut run, 2000.0), before + 1);
        assert_eq!(run.figures().outside, 0);
    }
}

#[test]
fn a_server_alone_that_is_set_far_sets_the_time_and_readers_are_told() {
    let mut run = run(servers(1), 1.0, 2);
    assert_eq!(is_good(&mut run, 600.0), 0);
    run.servers[0].error = -5.0 * SECOND;
    let (error, bound, disruptions) = published(&mut run, 620.0);
    assert!((error + 5.0 * SECOND).abs() < bound && bound < MS, "{error} {bound}");
    assert_eq!(disruptions, 1);
}

#[test]
fn nothing_leads_over_a_break_that_the_servers_have_shown() {
    // Nearly two years of a bridge at 10 ppm; and a jump that shows only in servers so near.
    for jump in [600.0, -600.0, 0.001] {
        let mut run = run(servers(3), 1.0, 3);
        is_good(&mut run, 600.0);
        run.oscillator.jump((jump * 2.5e9) as i64);
        assert_eq!(is_good(&mut run, 603.0), 1, "{jump}");
        assert_eq!(run.keeper.breaks(), 1);
        run.figures();
        assert_eq!(is_good(&mut run, 3000.0), 1, "{jump}");
        assert_eq!(run.figures().outside, 0);
    }
}
