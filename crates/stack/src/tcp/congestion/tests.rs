//! How the window grows, falls and is restored, by either algorithm.

use super::*;
use crate::time::Span;

const MSS: u32 = 1000;

fn rtt(us: u64) -> Rtt {
    let mut rtt = Rtt::default();
    rtt.sample(Instant::from_nanos(1), Span::from_micros(us));
    rtt
}

/// Acknowledges `rounds` full windows, one round trip each.
fn run(cc: &mut Congestion, from_ms: u64, rounds: u64, rtt_ms: u64) {
    for round in 0..rounds {
        let now = Instant::from_nanos((from_ms + round * rtt_ms) * 1_000_000 + 1);
        let mut left = cc.cwnd;
        let mut new_round = true;
        while left > 0 {
            let bytes = left.min(2 * MSS);
            cc.on_ack(&Acked { now, bytes, mss: MSS, cwnd_limited: true, new_round }, &rtt(rtt_ms * 1000));
            new_round = false;
            left -= bytes;
        }
    }
}

#[test]
fn ten_segments_start_and_slow_start_doubles() {
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    assert_eq!(cc.cwnd, 10 * MSS);
    assert_eq!(initial_window(9000), 18_000);
    run(&mut cc, 0, 3, 10);
    assert_eq!(cc.cwnd, 80 * MSS);
}

#[test]
fn a_window_that_was_not_used_does_not_grow() {
    let mut cc = Congestion::new(Algorithm::Reno, MSS);
    let acked = Acked { now: Instant::from_nanos(1), bytes: MSS, mss: MSS, cwnd_limited: false, new_round: false };
    cc.on_ack(&acked, &rtt(10));
    assert_eq!(cc.cwnd, 10 * MSS);
}

#[test]
fn reno_halves_and_grows_by_one_segment_a_round() {
    let mut cc = Congestion::new(Algorithm::Reno, MSS);
    cc.cwnd = 100 * MSS;
    cc.on_congestion(MSS);
    assert_eq!(cc.ssthresh, 50 * MSS);
    cc.cwnd = cc.ssthresh;
    run(&mut cc, 0, 10, 10);
    assert!((59 * MSS..=61 * MSS).contains(&cc.cwnd), "{}", cc.cwnd);
}

/// RFC 9438 §4.6, in whole segments.
#[test]
fn rfc9438_4_6_cubic_falls_to_seven_tenths_rounded_up_and_by_one_segment_at_least() {
    for (segments, threshold) in [(2, 2), (3, 2), (4, 3), (5, 4), (6, 5), (7, 5), (8, 6), (9, 7), (10, 7), (100, 70)] {
        let mut cc = Congestion::new(Algorithm::Cubic, MSS);
        cc.cwnd = segments * MSS;
        cc.on_congestion(MSS);
        assert_eq!(cc.ssthresh, threshold * MSS, "{segments}");
    }
}

#[test]
fn cubic_returns_to_the_old_window_after_k_and_then_goes_beyond() {
    // RFC 9438 §4.2: K = cbrt(W_max (1 - beta) / C) = cbrt(1000 * 0.3 / 0.4) = 9.08 s.
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    cc.cwnd = 1000 * MSS;
    cc.on_congestion(MSS);
    assert_eq!(cc.ssthresh, 700 * MSS);
    cc.cwnd = cc.ssthresh;
    run(&mut cc, 0, 45, 100); // 4.5 s: W_max is near but not reached
    assert!((930 * MSS..1000 * MSS).contains(&cc.cwnd), "{}", cc.cwnd);
    run(&mut cc, 4_500, 46, 100); // 9.1 s
    assert!((990 * MSS..1010 * MSS).contains(&cc.cwnd), "{}", cc.cwnd);
    run(&mut cc, 9_100, 60, 100); // 15.1 s: 0.4 * 6^3 = 86 segments above
    assert!((1060 * MSS..1110 * MSS).contains(&cc.cwnd), "{}", cc.cwnd);
}

/// RFC 9438 §4.8: K is 0, and W_max the window at which congestion avoidance begins.
#[test]
fn after_a_timeout_cubic_does_not_hurry_back_to_the_window_that_was_lost() {
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    cc.cwnd = 1000 * MSS;
    cc.on_timeout(MSS, true);
    cc.cwnd = cc.ssthresh;
    run(&mut cc, 0, 45, 100); // 4.5 s: 0.4 * 4.5^3 = 36 segments above
    assert!((725 * MSS..750 * MSS).contains(&cc.cwnd), "{}", cc.cwnd);
}

/// RFC 9438 §4.9: a spurious loss changes neither the window nor its growth. An acknowledgement
/// or a timeout may have detected it, and it may prove spurious at once or when the window has
/// begun to grow again.
#[test]
fn rfc9438_4_9_a_loss_that_was_none_leaves_the_curve_as_it_was() {
    let grown = |loss: &dyn Fn(&mut Congestion)| {
        let mut cc = Congestion::new(Algorithm::Cubic, MSS);
        cc.cwnd = 1000 * MSS;
        cc.on_congestion(MSS);
        cc.cwnd = cc.ssthresh;
        run(&mut cc, 0, 40, 100);
        let before = cc.save();
        loss(&mut cc);
        cc.restore(&before);
        assert_eq!(cc.cwnd, before.cwnd);
        run(&mut cc, 4_200, 100, 100);
        cc.cwnd / MSS
    };
    let without = grown(&|_| {});
    assert!(without > 1000, "beyond the old window: {without}");
    let recovery = grown(&|cc| {
        cc.on_congestion(MSS);
        cc.cwnd = cc.ssthresh;
    });
    let timeout = grown(&|cc| cc.on_timeout(MSS, true));
    let late = grown(&|cc| {
        cc.on_congestion(MSS);
        cc.cwnd = cc.ssthresh;
        run(cc, 4_100, 1, 100);
    });
    assert_eq!([recovery, timeout, late], [without; 3]);
}

/// RFC 9438 §4.9.2: a window that is larger by then than before the loss stays, with all its
/// state.
#[test]
fn rfc9438_4_9_2_what_is_found_too_late_changes_nothing() {
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    cc.cwnd = 100 * MSS;
    let before = cc.save();
    cc.on_congestion(MSS);
    cc.cwnd = cc.ssthresh;
    run(&mut cc, 0, 100, 100);
    let now = (cc.cwnd, cc.ssthresh);
    assert!(now.0 > before.cwnd);
    cc.restore(&before);
    assert_eq!((cc.cwnd, cc.ssthresh), now);
}

/// RFC 9438 §4.2: the curve does not advance while the program, and not the window, limits
/// transmission; nor during silence.
#[test]
fn rfc9438_4_2_cubic_does_not_count_the_time_in_which_the_window_is_not_used() {
    let grown = |pause: &dyn Fn(&mut Congestion) -> u64| {
        let mut cc = Congestion::new(Algorithm::Cubic, MSS);
        cc.cwnd = 100 * MSS;
        cc.on_congestion(MSS);
        cc.cwnd = cc.ssthresh;
        run(&mut cc, 0, 20, 100);
        let before = cc.cwnd;
        let from_ms = pause(&mut cc);
        run(&mut cc, from_ms, 3, 100);
        (before, cc.cwnd)
    };
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000 + 1);
    let without = grown(&|_| 2_000);
    let cwnd_limited = false;
    let questions = grown(&|cc| {
        for n in 0..600 {
            cc.on_ack(
                &Acked { now: at(2_000 + 100 * n), bytes: MSS, mss: MSS, cwnd_limited, new_round: true },
                &rtt(100),
            );
        }
        62_000
    });
    let silence = grown(&|cc| {
        cc.on_start(at(2_900));
        3_000
    });
    assert!(without.1 > without.0 + MSS, "{without:?}");
    assert_eq!([questions, silence], [without; 2]);
}

#[test]
fn cubic_is_not_slower_than_reno_on_a_short_path() {
    let mut windows = [Algorithm::Cubic, Algorithm::Reno].map(|algorithm| {
        let mut cc = Congestion::new(algorithm, MSS);
        cc.cwnd = 40 * MSS;
        cc.on_congestion(MSS);
        cc.cwnd = cc.ssthresh;
        run(&mut cc, 0, 200, 1);
        cc.cwnd
    });
    windows.sort_unstable();
    assert!(windows[1] - windows[0] < windows[0] / 4, "{windows:?}");
}

/// As on Linux in a LAN, whose round trips are far shorter than a tick.
#[test]
fn cubic_grows_by_a_segment_a_round_trip_in_the_first_milliseconds_after_a_loss() {
    let grown = |rounds: u64, us: u64| {
        let mut cc = Congestion::new(Algorithm::Cubic, MSS);
        cc.cwnd = 100 * MSS;
        cc.on_congestion(MSS);
        cc.cwnd = cc.ssthresh;
        for round in 0..rounds {
            let now = Instant::from_nanos(round * us * 1_000 + 1);
            let (bytes, mss) = (cc.cwnd, MSS);
            cc.on_ack(&Acked { now, bytes, mss, cwnd_limited: true, new_round: true }, &rtt(us));
        }
        (cc.cwnd - 70 * MSS) / MSS
    };
    assert_eq!(grown(20, 200), 20, "4 ms");
    assert!((30..=31).contains(&grown(40, 200)), "8 ms: 9/17 of a segment a round trip in the second half");
}

#[test]
fn a_timeout_starts_again_from_one_segment() {
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    cc.on_timeout(MSS, true);
    assert_eq!((cc.cwnd, cc.ssthresh), (MSS, 7 * MSS));
    cc.on_timeout(MSS, false);
    assert_eq!((cc.cwnd, cc.ssthresh), (MSS, 7 * MSS));
}

/// RFC 9406 evaluates one slow start; the next one starts without its state.
#[test]
fn slow_start_after_a_pause_is_not_left_for_what_was_before() {
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    for (round, ms) in [10, 10, 20, 20, 20, 20, 20, 20, 20, 20].into_iter().enumerate() {
        run(&mut cc, 1000 * round as u64, 1, ms);
    }
    let threshold = cc.ssthresh;
    assert!(threshold < MAX_WINDOW, "round trips doubled: slow start was left");
    cc.on_idle(0, MSS);
    assert_eq!(cc.cwnd, 10 * MSS);
    run(&mut cc, 100_000, 2, 20);
    assert_eq!((cc.cwnd, cc.ssthresh), (40 * MSS, threshold));
}

/// RFC 9406 §4.3: the threshold is known, and the window returns to it, however long round
/// trips take meanwhile.
#[test]
fn rfc9406_4_3_slow_start_after_a_timeout_goes_to_its_threshold() {
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    cc.cwnd = 1000 * MSS;
    cc.on_timeout(MSS, true);
    run(&mut cc, 0, 6, 10);
    run(&mut cc, 60, 4, 30);
    assert!((700 * MSS..710 * MSS).contains(&cc.cwnd), "{}", cc.cwnd);
}

/// A path whose delay grew while little was sent is not taken for queueing by the next burst.
#[test]
fn rfc9406_4_2_rounds_that_the_window_does_not_limit_are_known_to_slow_start() {
    let mut cc = Congestion::new(Algorithm::Cubic, MSS);
    run(&mut cc, 0, 1, 10);
    for n in 0..80 {
        let now = Instant::from_nanos(1_000_000_000 + n * 1_000_000);
        cc.on_ack(&Acked { now, bytes: MSS, mss: MSS, cwnd_limited: false, new_round: n % 8 == 0 }, &rtt(30_000));
    }
    assert_eq!(cc.cwnd, 20 * MSS);
    run(&mut cc, 2_000, 2, 30);
    assert_eq!(cc.cwnd, 80 * MSS);
}

#[test]
fn algorithms_are_found_by_name() {
    assert_eq!(Algorithm::from_name("reno"), Some(Algorithm::Reno));
    assert_eq!(Algorithm::from_name("bbr"), None);
}
