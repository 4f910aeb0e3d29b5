//! A hostile program and a hostile network: seeds of the fuzz target `forwarder`, its corpus, and
//! random inputs.

#[path = "hostile/mod.rs"]
mod hostile;

use tickwire_sim::corpus;

/// A frame near to a good one: the bytes that [`hostile`] asks for.
fn near(kind: u8, ends: [u8; 4]) -> Vec<u8> {
    // A port that is not used; IPv4; addresses and ports; the kind.
    let mut bytes = [&[0, 7, 0][..], &ends, &[kind]].concat();
    // What the kind asks for, no changed byte, not cut short.
    bytes.extend(match kind {
        0 => &[0xaa, 0, 255][..],
        1 => &[2, 0, 1, 0, 255],
        2 => &[0xaa, 0, 1, 0, 255],
        _ => &[0xaa, 0, 1, 1, 0, 255],
    });
    bytes
}

/// Initial inputs, by the name of the seed in the corpus.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    // The host and the program's port, the peer and another port; and the other way.
    let puts = |kind| [&[3][..], &near(kind, [0, 0, 1, 2])].concat();
    let comes = |kind, how| [&[1][..], &near(kind, [1, 2, 0, 0]), &[how]].concat();
    let forged = |at: u16, bytes: &[u8]| [&[4][..], &at.to_be_bytes(), &[bytes.len() as u8], bytes].concat();
    let producer = |far: u16, at: u16| [&[5][..], &far.to_be_bytes(), &at.to_be_bytes()].concat();
    let consumer = |far: u16, at: u16| [&[6][..], &far.to_be_bytes(), &at.to_be_bytes()].concat();
    vec![
        ("program-sends", [puts(0), puts(1), puts(2), puts(3), vec![8, 5]].concat()),
        ("network", [comes(0, 0), comes(1, 4), comes(2, 3), comes(3, 9), vec![8, 5]].concat()),
        ("half-a-record", [forged(0, &[0, 0, 0, 0x80]), producer(0, 64), vec![8, 1]].concat()),
        ("a-long-record", [forged(0, &[0xff, 0xff, 0xff, 0x3f]), producer(0, 4096), puts(0)].concat()),
        ("positions", [producer(1, 3), consumer(0xffff, 8), producer(0xffff, 1), puts(0), vec![9, 4, 0]].concat()),
        ("receive-ring", [consumer(0, 5), vec![7, 0, 0, 4, 1, 2, 3, 4], comes(0, 0), consumer(1, 1)].concat()),
    ]
}

#[test]
fn the_fuzzers_corpus_is_there_and_all_of_it_is_withstood() {
    corpus::keep("forwarder", &seeds());
    corpus::replay("forwarder", |bytes| {
        hostile::check(bytes);
    });
}

#[test]
fn a_program_with_a_good_frame_gets_it_out() {
    let (_, bytes) = seeds().swap_remove(0);
    assert!(hostile::check(&bytes) >= 1, "the seeds do not reach what they are for");
}

#[test]
fn random_inputs_and_changed_seeds_are_withstood() {
    let mut random = tickwire_sim::Rng::new(35);
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
