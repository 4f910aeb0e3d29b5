//! A driver that writes anything into rings.

use super::super::super::driver::RingKind;
use super::super::super::fake_driver::RingCorruption;
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn descriptors_that_make_no_sense_are_skipped_and_counted() {
    let (mut card, network) = card();
    let receive = |corruption| network.corrupt((HERE, 0, SocketRole::Receive), RingKind::Receive, corruption);
    // No chunk begins there, or so many bytes are not in it; and a frame is longer than this.
    for (index, element) in [[2048 * 5 + 1, 60], [2048 * 5000, 60], [2048, 2049], [4096, 13]].into_iter().enumerate() {
        receive(RingCorruption::Element(index as u32, element));
    }
    receive(RingCorruption::Producer(4));
    assert!(received(&mut card).is_empty());
    // The chunks of the last two could not be given back, as the driver had consumed none.
    assert_eq!(card.losses().malformed, 4 + 2);
    // A chunk that is received twice is one frame.
    receive(RingCorruption::Element(4, [2048 * 9, 60]));
    receive(RingCorruption::Element(5, [2048 * 9, 60]));
    receive(RingCorruption::Producer(6));
    assert_eq!(received(&mut card), [vec![0; 60]]);
    assert_eq!(card.losses().malformed, 6 + 2);

    network.set_stalled(true);
    card.send(&v4(UDP, PEER, (53, 9), b"x")).unwrap();
    card.flush();
    let sent = |corruption| network.corrupt((HERE, 0, SocketRole::Transmit), RingKind::Completion, corruption);
    // A chunk that was not sent, and one that is none.
    sent(RingCorruption::Element(0, [2048 * 7, 0]));
    sent(RingCorruption::Element(1, [7, 0]));
    sent(RingCorruption::Producer(2));
    assert!(card.receive().unwrap().is_none());
    assert_eq!(card.losses().malformed, 8 + 2);
    sent(RingCorruption::Producer(2 + TRANSMIT_FRAMES + 1));
    let end = card.receive().unwrap_err().to_string();
    assert!(end.contains("(Completion) what cannot be"), "{end}");
}

/// A ring, and the socket that it is of.
fn any_ring() -> impl Strategy<Value = ((u32, u32, SocketRole), RingKind)> {
    let receive = (0..2_u32, prop_oneof![Just(RingKind::Receive), Just(RingKind::Fill)])
        .prop_map(|(queue, ring)| ((HERE, queue, SocketRole::Receive), ring));
    let role = prop_oneof![Just(SocketRole::Transmit), Just(SocketRole::GiveBack)];
    let transmit = (role, prop_oneof![Just(RingKind::Transmit), Just(RingKind::Completion)])
        .prop_map(|(role, ring)| ((HERE, 0, role), ring));
    prop_oneof![receive, transmit]
}

fn any_corruption() -> impl Strategy<Value = RingCorruption> {
    let index = || prop_oneof![0..40_u32, any::<u32>()];
    let address = prop_oneof![(0..2000_u64).prop_map(|chunk| chunk * 2048), any::<u64>()];
    let length = prop_oneof![0..3000_u64, any::<u64>()];
    prop_oneof![
        index().prop_map(RingCorruption::Producer),
        index().prop_map(RingCorruption::Consumer),
        any::<u32>().prop_map(|flags| RingCorruption::Flags(flags & !1)),
        (0..8_u32, address, length)
            .prop_map(|(index, address, length)| { RingCorruption::Element(index, [address, length]) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_driver_writes_the_card_goes_on_or_ends_with_an_error(
        steps in vec((any_ring(), any_corruption(), 0..4_usize), 1..12),
    ) {
        let (mut card, network) = card();
        card.set_claimed(Protocol::Udp, 53, true).unwrap();
        // Only what is received counts: this stand-in panics if its own rings break.
        'all: for ((bound, ring), corruption, frames) in steps {
            network.set_stalled(true);
            network.corrupt(bound, ring, corruption);
            for _ in 0..frames {
                let _ = card.send(&v4(UDP, PEER, (53, 9), b"x"));
            }
            card.flush();
            // All that is written, and what is not, in bounded time.
            for _ in 0..4 * RECEIVE_FRAMES {
                match card.receive() {
                    Ok(Some(frame)) => prop_assert!((14..2048).contains(&frame.bytes.len())),
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
                if card.pass().is_err() {
                    break 'all;
                }
            }
        }
        drop(card);
        prop_assert_eq!(network.held(), [0; 3]);
    }
}
