//! Hostile messages: regression tests of the fuzzer's findings.

mod hostile;

use proptest::prelude::*;
use tickwire_ntp::extension::append;
use tickwire_ntp::{Kiss, Mode, NtpPacket, Stamp};
use tickwire_sim::corpus;

/// The fuzzer's initial inputs, by the name of the seed in the corpus: one of every kind of
/// message, to a server and to a client.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let request = |number: u64| NtpPacket::request(Stamp(number)).to_bytes();
    let answer = |stratum: u8, reference_id: u32| NtpPacket {
        mode: Mode::Server,
        stratum,
        reference_id,
        receive_timestamp: Stamp(0xec00_0001_0000_0001),
        transmit_timestamp: Stamp(0xec00_0001_0000_1000),
        ..NtpPacket::request(Stamp(0))
    };
    let records = |first: u8, all: &[(u8, [u8; 48])]| {
        let mut bytes = vec![first];
        for (what, record) in all {
            bytes.extend([*what, 48]);
            bytes.extend(record);
        }
        bytes
    };
    let mut interleaved = NtpPacket::request(Stamp(5));
    interleaved.interleave(Stamp(6), Stamp(7));
    let interleaved = interleaved.to_bytes();
    let time = answer(1, u32::from_be_bytes(*b"GPS\0")).to_bytes();
    let kiss = |kiss: Kiss| answer(0, kiss.to_reference()).to_bytes();
    let mut fields = answer(2, 9).to_bytes().to_vec();
    append(&mut fields, 0x0104, &[7; 32]);
    append(&mut fields, 0x0404, &[1; 40]);
    let agreed = [
        &[4, 5, 0x80, 1, 0, 2, 0, 0, 0, 4, 0, 2, 0, 15][..],
        &[0, 5, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 6, 0, 1, b'a', 0, 7, 0, 2, 0, 123, 0x80, 0, 0, 0],
    ];
    let mut cookies = Vec::new();
    append(&mut cookies, 0x0204, &[8; 20]);
    append(&mut cookies, 0x0204, &[9; 20]);
    let proofs = |whats: &[u8]| {
        let mut bytes = vec![8];
        for what in whats {
            bytes.extend([*what, cookies.len() as u8]);
            bytes.extend(&cookies);
        }
        bytes
    };
    vec![
        ("nts-agreed", agreed.concat()),
        ("nts-refused", vec![4, 0, 0x80, 1, 0, 2, 0, 0, 0x80, 2, 0, 2, 0, 1]),
        ("nts-proved", proofs(&[7, 7, 5, 7])),
        ("nts-forged", proofs(&[0, 1, 3, 4, 6, 9, 11, 7])),
        ("codec-answer", time.to_vec()),
        ("codec-fields", fields),
        ("server-basic", records(0, &[(0, request(2)), (1, request(4)), (0x19, request(6))])),
        ("server-interleaved", records(0, &[(0x11, interleaved), (0x11, interleaved), (0x11, interleaved)])),
        ("server-denied", records(0, &[(6, request(2)), (14, request(4))])),
        ("server-flood", records(0, &[(1, request(2)); 12])),
        ("client-basic", records(1, &[(0x18, time), (0x18, time), (0x18, time)])),
        ("client-interleaved", records(1, &[(0x18, time), (0x19, time), (0x19, time)])),
        ("client-kissed", records(3, &[(0x18, kiss(Kiss::Rate)), (0xf8, kiss(Kiss::Rate)), (0xf8, kiss(Kiss::Deny))])),
        ("client-forged", records(3, &[(0x1a, time), (0x18, request(3)), (0x18, time)])),
    ]
}

#[test]
fn the_fuzzers_corpus_holds_a_message_of_every_kind_and_all_of_it_is_survived() {
    corpus::keep("ntp", &samples());
    corpus::replay("ntp", hostile::check);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        hostile::check(&bytes);
    }

    #[test]
    fn any_change_of_a_sample_is_survived(sample in 0..14usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (_, mut bytes) = samples().swap_remove(sample);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        hostile::check(&bytes);
    }
}
