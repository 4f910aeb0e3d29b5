//! The fuzz targets over the committed corpus, and over seeded random bytes: defects that a fuzzer
//! found stay regression tests.

use tickwire_sim::corpus::{keep, replay};
use tickwire_sim::{Rng, hostile};

fn chance(runs: u64, run: fn(&[u8])) {
    for seed in 0..runs {
        let mut rng = Rng::new(seed);
        let len = rng.next_u64() % 600;
        let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        run(&data);
    }
}

/// In the first byte: the connection uses ECN.
const MARKS: u8 = 0x40;

/// A write of `kb` KB, after which the direction to the peer is cut or not.
fn written(kb: u8, cut: u8) -> Vec<u8> {
    vec![MARKS, 6, kb * 4, 0, 207, cut]
}

/// Attacks that pass the first checks, each written by hand: kinds of actions from 200 on
/// (`hostile::Arena::act`).
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    // Timestamps, three SACK blocks of whole segments, and an acknowledgement of what the peer has,
    // like a valid peer in recovery.
    let sacked = [200, 0b0100_1011, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 2, 1, 4, 2, 8, 1];
    // Data with an acknowledgement of three segments, marked CE by a router, with ECE and CWR set.
    let marked = [200, 0b1111_0001, 0x40 | 0x80, 0, 3, 0xff, 0xff, 20, 0, 0];
    let reneged = [200, 0b1100_0011, 0, 0, 1, 0, 10, 0, 0, 0, 0, 1];
    let time = |power: u8| [5, power];
    let recovery =
        [&written(20, 1)[..], &sacked, &time(22), &reneged, &time(24), &marked, &time(27), &[207, 0], &time(30)]
            .concat();
    let marks = [&written(10, 3)[..], &marked, &marked, &time(25), &sacked, &time(33)].concat();
    let groups = [
        [1, 205, 0, 0, 205, 0, 4].as_slice(),
        &[204, 0b0000_0001, 0, 200, 204, 0b0000_0011, 7, 0xff, 204, 0b0100_1000, 0, 9, 3],
        &[
            205, 5, 1, 205, 0, 0x10, 204, 1, 0, 9, 205, 3, 4, 204, 1, 0, 10, 206, 0, 204, 0, 1, 0, 7, 0, 0, 205, 2, 0,
            205, 5, 0,
        ],
    ];
    vec![("recovery", recovery), ("marks", marks), ("groups", groups.concat())]
}

#[test]
fn the_corpus_has_the_seeds_written_by_hand() {
    keep("live", &seeds());
    keep("opening", &seeds());
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
