use super::super::driver::{DriverCode, XdpRule};
use super::super::fake_driver::{FakeCall, FakeDriver, FakeNetwork};
use super::super::receiver::RECEIVE_FRAMES;
use super::*;
use tickwire_stack::addr::Mac;

mod endings;
mod hostile;

const HERE: u32 = 3;
const THERE: u32 = 4;
const OWN: [u8; 4] = [10, 0, 0, 1];
const PEER: [u8; 4] = [10, 0, 0, 2];
const UDP: u8 = 17;
const TCP: u8 = 6;

fn clock() -> CardClock {
    CardClock { now: || Instant::from_nanos(1000), at_count: |_| Instant::from_nanos(0) }
}

fn nic(index: u32) -> NicDescription {
    NicDescription { index, mac: Mac([2, 0, 0, 0, 0, index as u8]), mtu: 1500 }
}

fn try_open(network: &FakeNetwork) -> Result<XdpCard<FakeDriver>, XdpError> {
    XdpCard::open(network.driver(), nic(HERE), clock())
}

/// A card of two queues, without a wire.
fn card() -> (XdpCard<FakeDriver>, FakeNetwork) {
    let network = FakeNetwork::default();
    network.add_nic(HERE, 2);
    let mut card = try_open(&network).unwrap();
    card.set_addresses(&mut [Address::v4(OWN), Address([0xfd; 16])].into_iter()).unwrap();
    (card, network)
}

/// A frame of IPv4 without options.
fn v4(protocol: u8, to: [u8; 4], ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((28 + data.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    frame.extend([PEER, to].concat());
    frame.extend([ports.0, ports.1, 8 + data.len() as u16, 0].map(u16::to_be_bytes).concat());
    frame.extend(data);
    frame
}

/// A frame of IPv6.
fn v6(next_header: u8, to: [u8; 16], ports: (u16, u16)) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, next_header, 64]);
    frame.extend([[0xfc; 16], to].concat());
    frame.extend([ports.0, ports.1, 8, 0].map(u16::to_be_bytes).concat());
    frame
}

fn received(card: &mut XdpCard<FakeDriver>) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| card.receive().unwrap().map(|frame| frame.bytes.to_vec())).collect()
}

#[test]
fn claimed_ports_are_redirected_while_they_are_claimed_and_without_a_call() {
    let (mut card, network) = card();
    let (udp, tcp) = (v4(UDP, OWN, (9, 53), b"u"), v4(TCP, OWN, (9, 80), b"t"));
    let (udp6, tcp6) = (v6(UDP, [0xfd; 16], (9, 53)), v6(TCP, [0xfd; 16], (9, 80)));
    let all = [&udp, &tcp, &udp6, &tcp6];
    all.iter().for_each(|frame| network.arrive(HERE, frame));
    assert_eq!((received(&mut card).len(), network.take_kernels(HERE).len()), (0, 4), "nothing is claimed");

    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    let programs = network.calls(FakeCall::OpenProgram);
    card.set_claimed(Protocol::Tcp, 80, true).unwrap();
    all.iter().for_each(|frame| network.arrive(HERE, frame));
    let mut seen = received(&mut card);
    seen.sort();
    let mut expected = all.map(Clone::clone).to_vec();
    expected.sort();
    assert_eq!(seen, expected);
    // To another port or address, of another protocol, and with the ports of the other direction.
    let others = [
        v4(UDP, OWN, (53, 54), b""),
        v4(TCP, PEER, (9, 80), b""),
        v4(TCP, OWN, (9, 53), b""),
        v6(UDP, [0xfd; 16], (9, 80)),
    ];
    others.iter().for_each(|frame| network.arrive(HERE, frame));
    assert_eq!((received(&mut card).len(), network.take_kernels(HERE)), (0, others.to_vec()));

    card.set_claimed(Protocol::Tcp, 80, false).unwrap();
    all.iter().for_each(|frame| network.arrive(HERE, frame));
    assert_eq!((received(&mut card).len(), network.take_kernels(HERE).len()), (2, 2));
    assert_eq!(network.calls(FakeCall::OpenProgram), programs, "the other changes are bits");
}

#[test]
fn what_is_no_lanes_is_given_back_unchanged_and_in_order() {
    let (mut card, network) = card();
    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    // ICMP, and a fragment whose data look like the port.
    let mut frames = vec![v4(1, OWN, (0, 0), b"unreachable"), v6(44, [0xfd; 16], (0, 0))];
    frames.extend((0..100).map(|number| v4(UDP, OWN, (9, 53), &[number; 30])));
    for frame in &frames {
        network.arrive(HERE, frame);
        while card.receive().unwrap().is_some() {
            card.pass().unwrap();
        }
    }
    assert_eq!(card.flush(), 0);
    network.run();
    assert_eq!(network.take_kernels(HERE), frames);
    assert!(network.take_sent(HERE).is_empty());
    assert!(card.pass().is_err(), "there is no frame to be given back");
    assert!(network.rules(HERE, 0)[0].iter().all(|rule| *rule != XdpRule::NextHeader(58)), "ICMP of IPv6 stays");
}

#[test]
fn two_cards_exchange_frames_and_what_is_lost_on_the_wire_is_lost() {
    let (mut here, network) = card();
    network.add_nic(THERE, 1);
    network.connect(HERE, THERE);
    let mut there = XdpCard::open(network.driver(), nic(THERE), clock()).unwrap();
    here.set_claimed(Protocol::Udp, 53, true).unwrap();
    there.set_claimed(Protocol::Udp, 53, true).unwrap();
    for needs_poke in [true, false] {
        network.set_poke(needs_poke);
        let before = network.calls(FakeCall::Poke);
        let frames: Vec<_> = (0..200).map(|number| v4(UDP, OWN, (number, 53), &number.to_be_bytes())).collect();
        for frame in &frames {
            here.send(frame).unwrap();
        }
        assert_eq!(here.flush(), 0);
        network.run();
        assert_eq!(received(&mut there), frames);
        assert_eq!(network.calls(FakeCall::Poke) - before, u32::from(needs_poke));
        for frame in &frames {
            there.send(frame).unwrap();
        }
        there.flush();
        network.run();
        let mut seen = received(&mut here);
        seen.sort();
        assert_eq!(seen, frames, "two queues");
    }
    network.lose(1);
    for number in 0..3 {
        here.send(&v4(UDP, OWN, (9, 53), &[number])).unwrap();
    }
    here.flush();
    network.run();
    assert_eq!(received(&mut there), [v4(UDP, OWN, (9, 53), &[1]), v4(UDP, OWN, (9, 53), &[2])]);
}

#[test]
fn rings_wrap_many_times() {
    let (mut card, network) = card();
    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    for round in 0..40_u16 {
        for number in 0..100 {
            network.arrive(HERE, &v4(UDP, OWN, (9, 53), &(round * 100 + number).to_be_bytes()));
            card.send(&v4(UDP, PEER, (53, 9), &(round * 100 + number).to_be_bytes())).unwrap();
        }
        card.flush();
        network.run();
        let data = |frames: Vec<Vec<u8>>| frames.into_iter().map(|frame| u16::from_be_bytes([frame[42], frame[43]]));
        assert!(data(received(&mut card)).eq(round * 100..round * 100 + 100));
        assert!(data(network.take_sent(HERE)).eq(round * 100..round * 100 + 100));
    }
    assert_eq!(card.losses(), CardLosses::default());
}

#[test]
fn when_all_frames_are_in_use_new_ones_are_lost_and_counted_and_it_goes_on() {
    let (mut card, network) = card();
    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    for _ in 0..RECEIVE_FRAMES + 7 {
        network.arrive(HERE, &v4(UDP, OWN, (9, 53), b"x"));
    }
    assert_eq!(card.losses().no_room, 7);
    assert_eq!(received(&mut card).len() as u32, RECEIVE_FRAMES);

    network.set_stalled(true);
    let frame = v4(UDP, PEER, (53, 9), b"x");
    let sent = (0..TRANSMIT_FRAMES + 5).filter(|_| card.send(&frame).is_ok()).count();
    assert_eq!((sent as u32, card.flush()), (TRANSMIT_FRAMES, 0));
    assert_eq!(card.send(&frame).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    // What cannot be given back is counted.
    for _ in 0..TRANSMIT_FRAMES + 5 {
        network.arrive(HERE, &v4(UDP, OWN, (9, 53), b"x"));
        card.receive().unwrap().unwrap();
        card.pass().unwrap();
    }
    assert_eq!((card.flush(), card.flush()), (5, 0));
    network.set_stalled(false);
    network.run();
    assert_eq!(network.take_sent(HERE).len() as u32, TRANSMIT_FRAMES);
    card.send(&frame).unwrap();
    card.flush();
    network.run();
    assert_eq!(network.take_sent(HERE), [frame]);
}

#[test]
fn frames_that_the_driver_refuses_do_not_use_up_the_memory() {
    let (mut card, network) = card();
    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    // Longer than the network card sends, as some are that it has merged.
    let long = v4(UDP, OWN, (9, 53), &[0; 1600]);
    for number in 0..4 * TRANSMIT_FRAMES {
        network.arrive(HERE, &long);
        card.receive().unwrap().unwrap();
        card.pass().unwrap();
        card.send(&long).unwrap();
        assert_eq!(card.flush(), 0, "{number}");
        network.run();
        assert!(card.receive().unwrap().is_none());
    }
    assert!(network.take_kernels(HERE).is_empty() && network.take_sent(HERE).is_empty());
    assert_eq!(card.losses().malformed, u64::from(8 * TRANSMIT_FRAMES));
    let frame = v4(UDP, PEER, (53, 9), b"x");
    card.send(&frame).unwrap();
    card.flush();
    network.run();
    assert_eq!(network.take_sent(HERE), [frame]);
}

#[test]
fn a_driver_that_has_taken_all_frames_is_not_poked() {
    let (mut card, network) = card();
    network.set_poke(true);
    network.refuse(FakeCall::Poke, 1, DriverCode(1617));
    card.send(&v4(UDP, PEER, (53, 9), b"x")).unwrap();
    card.flush();
    // It asks for it, as it has nothing more to send.
    for _ in 0..10 {
        assert!(card.receive().unwrap().is_none());
    }
    // Nor for those that it has refused.
    network.accept_all();
    card.send(&v4(UDP, PEER, (53, 9), &[0; 1600])).unwrap();
    card.flush();
    let pokes = network.calls(FakeCall::Poke);
    for _ in 0..10 {
        assert!(card.receive().unwrap().is_none());
    }
    assert_eq!((pokes, network.calls(FakeCall::Poke)), (2, 2));
}

#[test]
fn all_of_udp_is_taken_for_a_while_after_a_first_fragment() {
    let (mut card, network) = card();
    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    let mut first = v4(UDP, OWN, (9, 53), b"first part");
    first[20] = 0x20;
    // Its ports are data.
    let mut later = v4(UDP, OWN, (0x6f6e, 0x6521), b"later part");
    later[21] = 2;
    let other = v4(UDP, OWN, (9, 54), b"other");
    // Without one before it, a later fragment is the kernel's.
    network.arrive(HERE, &later);
    assert_eq!((received(&mut card).len(), network.take_kernels(HERE).len()), (0, 1));
    for part in [&first, &later] {
        network.arrive(HERE, part);
        assert_eq!(received(&mut card), std::slice::from_ref(part));
    }
    let rules = network.rules(HERE, 0);
    assert!(rules.len() == 1 && rules[0][0] == XdpRule::Udp, "{rules:?}");
    network.arrive(HERE, &other);
    card.receive().unwrap().unwrap();
    card.pass().unwrap();
    card.flush();
    network.run();
    assert_eq!(network.take_kernels(HERE), [other]);

    (card.changed, card.fragmented) = (card.changed - SETTLE, card.fragmented.map(|last| last - FRAGMENTS_EXPECTED));
    card.wait(Duration::ZERO);
    assert_eq!(network.rules(HERE, 0)[0][0], XdpRule::UdpPorts);
    let not_first = [v4(UDP, OWN, (9, 53), b""), v4(TCP, OWN, (9, 53), b""), later, vec![0; 14], vec![8; 20]];
    assert!(not_first.iter().all(|frame| first_fragment_of(frame).is_none()));
    assert_eq!(first_fragment_of(&first), Some(53));
    // A peer that looks for the path's MTU sends fragments with DF.
    first[20] |= 0x40;
    assert_eq!(first_fragment_of(&first), Some(53));
}

#[test]
fn frames_that_are_cut_off_are_not_received() {
    let (mut card, network) = card();
    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    network.arrive(HERE, &v4(UDP, OWN, (9, 53), &[0; 3000]));
    network.arrive(HERE, &v4(UDP, OWN, (9, 53), b"x"));
    assert_eq!(received(&mut card), [v4(UDP, OWN, (9, 53), b"x")]);
    assert_eq!(card.losses(), CardLosses { truncated: 1, ..CardLosses::default() });
    assert!(card.send(&[0; 4000]).is_err(), "no chunk is so long");
}

#[test]
fn programs_follow_addresses_and_the_new_ones_come_before_the_old_ones_go() {
    let (mut card, network) = card();
    assert_eq!(network.held()[1], 0, "nothing is claimed");
    card.set_claimed(Protocol::Tcp, 80, true).unwrap();
    assert_eq!(network.held()[1], 2);
    let has = |address| network.rules(HERE, 1).iter().all(|rules| rules.contains(&XdpRule::TcpPortsOf(address)));
    assert!(has(Address::v4(OWN)) && has(Address([0xfd; 16])) && !has(Address::v4(PEER)));
    card.set_addresses(&mut [Address::v4(PEER)].into_iter()).unwrap();
    assert!(!has(Address::v4(OWN)) && has(Address::v4(PEER)));
    let programs = network.calls(FakeCall::OpenProgram);
    card.set_addresses(&mut [Address::v4(PEER)].into_iter()).unwrap();
    assert_eq!(network.calls(FakeCall::OpenProgram), programs, "the same addresses");

    // If the driver refuses those of one queue, all old ones stay, and it is tried again.
    network.refuse(FakeCall::OpenProgram, 1, DriverCode(8));
    let refused = card.set_addresses(&mut [Address::v4(OWN)].into_iter()).unwrap_err().to_string();
    assert!(refused.contains("apply rules") && refused.contains("error 8"), "{refused}");
    assert!(network.held()[1] == 2 && has(Address::v4(PEER)));
    network.accept_all();
    card.changed -= SETTLE;
    card.wait(Duration::ZERO);
    assert!(network.held()[1] == 2 && has(Address::v4(OWN)));

    card.set_claimed(Protocol::Tcp, 80, false).unwrap();
    card.wait(Duration::ZERO);
    assert_eq!(network.held()[1], 2, "for a moment");
    card.changed -= SETTLE;
    card.wait(Duration::ZERO);
    assert_eq!(network.held()[1], 0);
}

#[test]
fn a_port_that_the_driver_refuses_is_not_claimed() {
    let (mut card, network) = card();
    network.refuse(FakeCall::OpenProgram, 0, DriverCode(8));
    assert!(card.set_claimed(Protocol::Udp, 53, true).is_err());
    network.accept_all();
    card.set_claimed(Protocol::Udp, 54, true).unwrap();
    network.arrive(HERE, &v4(UDP, OWN, (9, 53), b""));
    assert!(received(&mut card).is_empty());
}

#[test]
fn a_sleeping_card_wakes_up_for_frames_and_for_its_waker() {
    let (mut card, network) = card();
    card.set_claimed(Protocol::Udp, 53, true).unwrap();
    let waker = card.waker();
    let (sender, frames) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        card.wait(Duration::from_secs(600));
        sender.send(received(&mut card)).unwrap();
        card.wait(Duration::from_secs(600));
    });
    network.wait_for_sleeper();
    network.arrive(HERE, &v4(UDP, OWN, (9, 53), b"x"));
    assert_eq!(frames.recv().unwrap(), [v4(UDP, OWN, (9, 53), b"x")]);
    network.wait_for_sleeper();
    waker.wake();
    sleeper.join().unwrap();
}
