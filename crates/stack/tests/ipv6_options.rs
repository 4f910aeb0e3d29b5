//! Unknown options in IPv6 extension headers (RFC 8200 §4.2). The stack implements its part of what
//! the two highest bits of the type demand: it accepts or drops the packet. The stack sends no ICMP
//! errors; a packet that no accelerated socket claims belongs to the host's kernel, which does.

mod common;

use common::{counter, frame, ip, open, received, udp};
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::udp::GroupFilter;

const HOP_BY_HOP: u8 = 0;
const DESTINATION: u8 = 60;

fn all_nodes() -> Address {
    let mut address = [0; 16];
    (address[0], address[1], address[15]) = (0xff, 2, 1);
    Address(address)
}

/// RFC 8200 §4.2: 00 is skipped; 01, 10 and 11 drop the packet, unicast or multicast.
#[test]
fn the_type_of_an_unknown_option_decides_whether_its_packet_is_taken() {
    for header in [HOP_BY_HOP, DESTINATION] {
        for action in 0..4u8 {
            for group in [false, true] {
                let mut pair = SimulatedPair::seeded(1);
                let [own, peer] = [0, 1].map(|host| pair.host(host).addresses[1]);
                let to = Endpoint::new(if group { all_nodes() } else { own }, 1000);
                let socket = open(&mut pair, 0, Address::ANY, 1000);
                if group {
                    pair.stack(0).udp_set_filter(socket, &GroupFilter::all(all_nodes())).unwrap();
                }
                let options = [17, 0, action << 6 | 0x1e, 4, 0, 0, 0, 0];
                let datagram = udp(Endpoint::new(peer, 9), to, b"hello");
                let mut packet = frame(&ip(peer, to.address, header, &[&options[..], &datagram].concat()));
                if group {
                    packet[..6].copy_from_slice(&to.address.multicast_mac().0);
                }
                let now = pair.now();
                assert!(pair.host_mut(0).receive(now, &packet));
                let what = format!("header {header}, action {action:02b}, to a group: {group}");
                let heard = received(&mut pair, 0, socket);
                assert_eq!(heard, vec![b"hello".to_vec(); usize::from(action == 0)], "{what}");
                assert_eq!(counter(&mut pair, 0, "IpInHdrErrors"), u64::from(action != 0), "{what}");
                assert!(pair.host_mut(0).transmit(now).is_empty(), "{what}: nothing is answered");
                assert_eq!(pair.frames_held(0), 0, "{what}");
            }
        }
    }
}

/// RFC 8200 §4.2: an option to be skipped does not hide a later one that demands a drop.
#[test]
fn each_option_of_a_header_is_looked_at() {
    let mut pair = SimulatedPair::seeded(1);
    let [own, peer] = [0, 1].map(|host| pair.host(host).addresses[1]);
    let to = Endpoint::new(own, 1000);
    let socket = open(&mut pair, 0, Address::ANY, 1000);
    for (second, taken) in [(0x1e, true), (0x5e, false), (0x9e, false), (0xde, false)] {
        let options = [17, 1, 0x1e, 4, 0, 0, 0, 0, 1, 0, second, 4, 0, 0, 0, 0];
        let datagram = udp(Endpoint::new(peer, 9), to, b"hello");
        let now = pair.now();
        let packet = frame(&ip(peer, own, DESTINATION, &[&options[..], &datagram].concat()));
        assert!(pair.host_mut(0).receive(now, &packet));
        assert_eq!(received(&mut pair, 0, socket).len(), usize::from(taken), "{second:#x}");
    }
}
