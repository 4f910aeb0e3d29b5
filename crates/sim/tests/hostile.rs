//! The fuzz targets over the committed corpus, and over seeded chance: what a fuzzer once found stays found.

use tickwire_sim::corpus::replay;
use tickwire_sim::{Rng, hostile};

fn chance(runs: u64, run: fn(&[u8])) {
    for seed in 0..runs {
        let mut rng = Rng::new(seed);
        let len = rng.next_u64() % 600;
        let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        run(&data);
    }
}

#[test]
fn arbitrary_frames_neither_crash_a_host_nor_keep_its_frames() {
    replay("frames", hostile::frames);
    chance(300, hostile::frames);
}

#[test]
fn an_attack_on_a_live_connection_neither_crashes_a_host_nor_keeps_its_frames() {
    replay("live", hostile::live);
    chance(300, hostile::live);
}

#[test]
fn an_attack_on_a_connection_that_is_being_opened_neither_crashes_a_host_nor_keeps_its_frames() {
    replay("opening", hostile::opening);
    chance(300, hostile::opening);
}
