//! Figures that no counter, server or user ever gives, but a file or a packet may: whatever they are, the clock does not panic. The test is built with
//! overflow checks, so an overflow is one.

use tickwire_clock::keeper::leap::Announcement;
use tickwire_clock::keeper::{Config, Keeper, Source};
use tickwire_clock::{Count, Exchange, Nanos, Scale, ServerState};

const UNIX: i64 = 1_767_225_600_000_000_000;

#[test]
fn a_server_that_takes_all_of_the_exchange_makes_no_round_trip_of_less_than_nothing() {
    let nominal = Scale::from_period(0.4).expect("a counter's");
    let config = Config { nominal, rate_error: 1e-4, holdover_after: 1 << 40, fresh_for: 1 << 40, tai_offset: None };
    let mut keeper = Keeper::new(config, &[Source::default()]);
    for second in 0..60_i64 {
        // 40000.8 ns, which is 40001; but each end by itself is rounded from the middle of the first exchange on, and then it is 40000.
        let sent = second * 2_500_000_000;
        let received = sent + 100_002;
        let at_server = if second < 40 { 20_000 } else { 40_001 };
        let server_received = Nanos(UNIX + second * 1_000_000_000 + (40_000 - at_server) / 2);
        let exchange = Exchange {
            sent: Count(sent as u64),
            server_received,
            server_sent: server_received.plus(at_server),
            received: Count(received as u64),
            server: ServerState { synchronised: true, stratum: 1, ..ServerState::default() },
            stamp_error: 0,
        };
        let _ = keeper.exchange(0, &exchange, Announcement::None);
    }
    assert!(keeper.server(0).round_trip() < 20_000.0, "it has been believed");
}
