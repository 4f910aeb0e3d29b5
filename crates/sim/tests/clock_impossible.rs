//! Values that no counter, server or user ever produces, but a file or a packet may contain: none
//! makes the clock panic. The test is built with overflow checks, so an overflow is a panic, too.

use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::ensemble::table::Table;
use tickwire_clock::ensemble::{Ensemble, EnsembleConfig, SourceConfig};
use tickwire_clock::{Exchange, ServerState};
use tickwire_clockpage::{Count, Nanos, Scale};
use tickwire_sim::Rng;

const SERVERS: usize = 3;
const UNIX: i64 = 1_767_225_600_000_000_000;
const NUMBERS: [f64; 8] = [0.0, 1e-300, 1e-4, 1.0, -1.0, f64::MAX, f64::INFINITY, f64::NAN];

fn one<T: Copy>(of: &[T], rng: &mut Rng) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// Mostly near a value, sometimes at the limits of the type.
fn near(value: i64, by: u64, rng: &mut Rng) -> i64 {
    match rng.below(8) {
        0 => one(&[i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX], rng),
        1 => rng.next_u64() as i64,
        _ => value.wrapping_add(rng.below(by) as i64),
    }
}

fn table(rng: &mut Rng) -> Option<Table> {
    let offset = one(&[i32::MIN, 36, i32::MAX - 1], rng);
    let second = one(&[offset.wrapping_add(1), i32::MIN, i32::MAX], rng);
    let entries = vec![(Nanos(near(0, 1, rng)), offset), (Nanos(near(UNIX, 1 << 50, rng)), second)];
    Table::new(entries, Nanos(near(UNIX, 1 << 60, rng))).ok()
}

fn ensemble(rng: &mut Rng) -> (Ensemble, Scale) {
    let exponent = rng.uniform() * 12.0 - 3.0;
    let nominal = Scale::from_period(libm::pow(10.0, one(&[exponent, 6.0, 9.0, -3.0], rng))).expect("a counter's");
    let config = EnsembleConfig {
        nominal,
        rate_error: one(&NUMBERS, rng),
        holdover_after: near(10_000_000_000, 1 << 40, rng),
        fresh_for: near(5_000_000_000, 1, rng),
        tai_offset: one(&[None, Some(37), Some(i32::MAX), Some(i32::MIN)], rng),
    };
    let asymmetry = |rng: &mut Rng| if rng.chance(500_000) { 0.0 } else { one(&NUMBERS, rng) };
    let sources: [_; SERVERS] =
        core::array::from_fn(|_| SourceConfig { asymmetry: asymmetry(rng), smeared: rng.chance(100_000) });
    let mut ensemble = Ensemble::new(config, &sources).after(rng.next_u64() as u32, Count(rng.next_u64()));
    if let Some(table) = table(rng).filter(|_| rng.chance(700_000)) {
        ensemble.set_leap_table(table);
    }
    (ensemble, nominal)
}

fn exchange(at: i64, nominal: Scale, rng: &mut Rng) -> Exchange {
    let sent = near(nominal.counts(at), 2, rng);
    let received =
        if rng.chance(100_000) { near(sent, 9, rng) } else { sent.wrapping_add(nominal.counts(40_000).max(1)) };
    let server_received = near(UNIX.wrapping_add(at), 20_000, rng);
    let figure = |rng: &mut Rng| one(&[0, 1, 1_000_000, 1 << 40, u64::MAX], rng);
    Exchange {
        sent: Count(sent as u64),
        server_received: Nanos(server_received),
        server_sent: Nanos(server_received.wrapping_add(one(&[0, 1, 1_000, 40_000], rng))),
        received: Count(received as u64),
        server: ServerState {
            synchronised: !rng.chance(10_000),
            stratum: one(&[1, 1, 1, 1, 1, 2, 15, 16], rng),
            reference: 0,
            root_delay: figure(rng),
            root_dispersion: figure(rng),
        },
        stamp_error: one(&[0, 0, 5_000, u32::MAX], rng),
    }
}

#[test]
fn nothing_makes_the_clock_panic() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let (mut ensemble, nominal) = ensemble(&mut rng);
        let steady = rng.chance(500_000);
        let mut at = 0_i64;
        for _ in 0..60 {
            at = at.wrapping_add(if steady {
                1_000_000_000
            } else {
                one(&[1, 1_000_000_000, 1 << 40, 1 << 60], &mut rng)
            });
            let server = rng.below(SERVERS as u64) as usize;
            let exchange = exchange(at, nominal, &mut rng);
            let announced = one(&[Announcement::None, Announcement::Insert, Announcement::Delete], &mut rng);
            // Accepted or refused: both are valid.
            let _ = ensemble.exchange(server, &exchange, announced);
            if rng.chance(20_000) {
                ensemble.disrupt(Count(rng.next_u64()));
            }
            if rng.chance(20_000) {
                ensemble.set_silence_timeout(server, rng.next_u64() as i64);
            }
            let now = Count(near(exchange.received.0 as i64, 1 << 30, &mut rng) as u64);
            let parameters = ensemble.parameters(now);
            let reading = parameters.reading(Count(near(now.0 as i64, 1 << 30, &mut rng) as u64));
            let _ = (reading.interval(), parameters.elapsed(now, Count(rng.next_u64())), ensemble.standings());
            let _ = parameters.count_at(Nanos(rng.next_u64() as i64));
        }
    }
}

#[test]
fn a_server_that_takes_all_of_the_exchange_makes_no_round_trip_of_less_than_nothing() {
    let nominal = Scale::from_period(0.4).expect("a counter's");
    let config =
        EnsembleConfig { nominal, rate_error: 1e-4, holdover_after: 1 << 40, fresh_for: 1 << 40, tai_offset: None };
    let mut ensemble = Ensemble::new(config, &[SourceConfig::default()]);
    for second in 0..60_i64 {
        // 40000.8 ns, which rounds to 40001. Each end rounded by itself from the middle of the
        // first exchange gives 40000.
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
        let _ = ensemble.exchange(0, &exchange, Announcement::None);
    }
    assert!(ensemble.server(0).round_trip() < 20_000.0, "it has been believed");
}
