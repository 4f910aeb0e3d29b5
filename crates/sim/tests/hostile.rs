//! The fuzz targets over the committed corpus, and over seeded chance: what a fuzzer once found stays found.

use std::fs;
use std::path::Path;
use tickwire_sim::{Rng, hostile};

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seen = 0;
    for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        run(&fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen > 0, "{} has inputs", folder.display());
}

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
