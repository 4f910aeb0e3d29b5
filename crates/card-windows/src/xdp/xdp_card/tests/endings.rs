//! Cards that cannot be opened, and those that end.

use super::super::super::receiver::MOST_QUEUES;
use super::*;

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    let network = FakeNetwork::default();
    network.add_nic(HERE, 3);
    let mut failures = 0;
    for call in FakeCall::OF_OPENING {
        // The first of a kind, the second ..., until opening does not make so many.
        for after in 0.. {
            network.refuse(call, after, DriverCode(1450));
            let outcome = try_open(&network);
            network.accept_all();
            match outcome {
                Ok(card) => {
                    assert_eq!(network.held(), [3 + 2, 0, 3 + 2]);
                    drop(card);
                    assert_eq!(network.held(), [0; 3]);
                    break;
                }
                Err(error) => {
                    assert!(error.to_string().contains("error 1450"), "{error}");
                    assert_eq!(network.held(), [0; 3], "{call:?} {after}");
                    failures += 1;
                }
            }
        }
    }
    // Sockets: 5 and the one of no queue, each with memory, two rings and their layouts, binding,
    // and activation. Programs: to find queues, and to find out whether rules are taken.
    assert_eq!(failures, 6 * (1 + 1 + 2 + 2 + 1 + 1) + 4 + 3);
}

#[test]
fn queues_are_found_although_the_driver_binds_sockets_to_any_number() {
    for queues in [1, 2, 7] {
        let network = FakeNetwork::default();
        network.add_nic(HERE, queues);
        let card = try_open(&network).unwrap();
        assert_eq!((card.queues(), network.held()[1]), (queues as usize, 0));
    }
}

#[test]
fn errors_of_opening_say_what_to_do() {
    let network = FakeNetwork::default();
    let error = |network: &FakeNetwork| try_open(network).err().unwrap();
    assert_eq!(error(&network), XdpError::Interface { interface: HERE });
    network.add_nic(HERE, 1);
    network.refuse(FakeCall::OpenSocket, 0, DriverCode(3));
    assert_eq!(error(&network), XdpError::Missing);
    network.accept_all();
    network.refuse(FakeCall::Bind, 2, DriverCode(50));
    assert_eq!(error(&network), XdpError::GiveBack { code: DriverCode(50) });
    network.accept_all();
    network.add_nic(HERE, MOST_QUEUES + 1);
    assert_eq!(error(&network), XdpError::TooManyQueues { most: MOST_QUEUES });
    assert_eq!(network.held(), [0; 3]);
}

#[test]
fn a_card_whose_interface_goes_away_says_so_and_leaves_nothing_behind() {
    for (error, words) in [(0x8000_0000, "was removed"), (0xc000_0000, "given up a ring")] {
        let (mut card, network) = card();
        card.set_claimed(Protocol::Udp, 53, true).unwrap();
        network.arrive(HERE, &v4(UDP, OWN, (9, 53), b"last"));
        network.detach(HERE, error);
        card.wait(Duration::from_secs(60));
        assert_eq!(card.receive().unwrap().unwrap().bytes[42..], *b"last");
        let end = card.receive().unwrap_err();
        assert!(end.kind() == io::ErrorKind::NotConnected && end.to_string().contains(words), "{end}");
        let _ = card.send(&v4(UDP, PEER, (53, 9), b""));
        card.flush();
        drop(card);
        assert_eq!(network.held(), [0; 3]);
    }
    let (mut card, network) = card();
    network.set_poke(true);
    network.refuse(FakeCall::Poke, 0, DriverCode(1617));
    card.send(&v4(UDP, PEER, (53, 9), b"")).unwrap();
    card.flush();
    assert!(card.receive().unwrap_err().to_string().contains("does not look at a ring"));
}
