//! A driver that hands over anything: seeds of the fuzz target `windivert`, its corpus, and random
//! inputs.

#[path = "hostile/mod.rs"]
mod hostile;

use tickwire_sim::{Rng, corpus};

/// A packet and its record, as [`hostile`] reads them: the version, how many bytes follow, and what
/// is changed of the record.
fn packet(is_v6: bool, length: u16, changed: &[u8]) -> Vec<u8> {
    // (Not raw bytes; no byte of the packet is changed.)
    let mut bytes = [&[1][..], &length.to_be_bytes(), &[u8::from(is_v6), 0]].concat();
    bytes.extend(vec![0x50; usize::from(length.min(64))]);
    bytes.extend([0, if is_v6 { 1 } else { 0 }, (changed.len() / 2) as u8]);
    bytes.extend(changed);
    bytes
}

/// A batch of these, whose length and number are right; each second frame is given back.
fn batch(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0, packets.len() as u8];
    packets.iter().for_each(|packet| bytes.extend(packet));
    bytes.extend([1, 1]);
    bytes.extend((0..packets.len()).map(|place| place as u8));
    bytes
}

/// Initial inputs, by the name of the seed in the corpus.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (four, six) = (packet(false, 30, &[]), packet(true, 1400, &[]));
    vec![
        ("two-packets", batch(&[four.clone(), six.clone()])),
        ("merged-segments", batch(&[packet(false, 2900, &[]), packet(true, 2900, &[])])),
        ("a-stray", batch(&[packet(false, 9, &[16, 9]), packet(false, 9, &[10, 2]), four.clone()])),
        ("another-family", batch(&[packet(false, 9, &[10, 0x10]), four.clone()])),
        ("a-stamp-of-the-future", batch(&[packet(false, 9, &[7, 0x7f]), packet(false, 9, &[7, 0xff])])),
        (
            "claims",
            [vec![4, 0, 0, 80, 4, 4, 0, 81, 4, 10, 0, 82], batch(std::slice::from_ref(&four)), vec![4, 8, 0, 80]]
                .concat(),
        ),
        ("lost", [vec![2], batch(&[four]), vec![5, 1, 0], batch(&[six])].concat()),
    ]
}

#[test]
fn the_fuzzers_corpus_is_there_and_all_of_it_is_withstood() {
    corpus::keep("windivert", &seeds());
    corpus::replay("windivert", |bytes| {
        hostile::check(bytes);
    });
}

#[test]
fn good_packets_become_frames() {
    for (name, bytes) in seeds().iter().take(2) {
        assert_eq!(hostile::check(bytes), 2, "{name}: the seeds do not reach what they are for");
    }
}

#[test]
fn random_inputs_and_changed_seeds_are_withstood() {
    let mut random = Rng::new(35);
    for round in 0..400 {
        let mut bytes: Vec<u8> = (0..round).map(|_| random.next_u64() as u8).collect();
        hostile::check(&bytes);
        bytes = seeds().swap_remove(round % seeds().len()).1;
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        hostile::check(&bytes);
    }
}
