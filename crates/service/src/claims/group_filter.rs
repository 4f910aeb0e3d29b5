//! The filter that keeps the kernel from delivering a group's datagrams a second time.
//!
//! The kernel joins (IGMP, MLD) through the program's own socket. Divert clones each datagram of
//! the group to every lane that joined and passes the original to the kernel, whose other members
//! receive it as ever. The program's own kernel socket is a member as well, so a filter on it drops
//! what arrives by an interface on which it has joined: the lane has that already. Groups that only
//! other sockets have joined it receives from the kernel (`IP_MULTICAST_ALL`). A datagram that a
//! program of this host sent, and that the kernel loops back, bears the interface by which it left.
//! No lane receives it, and the filter passes it.

use tickwire_lane_linux::sys_socket::Instruction;
use tickwire_stack::addr::Address;

// Classic BPF, see the kernel's Documentation/networking/filter.rst.
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// `SKF_AD_OFF + SKF_AD_IFINDEX`: the interface by which the packet arrived.
const INTERFACE: u32 = (-0x1000_i32 + 8).cast_unsigned();
/// `SKF_AD_OFF + SKF_AD_PKTTYPE`: the kind of the packet's destination.
const PACKET_TYPE: u32 = (-0x1000_i32 + 4).cast_unsigned();
/// `PACKET_LOOPBACK` of `linux/if_packet.h`: sent by this host, to a group of which it is itself a
/// member.
const LOOPED_BACK: u32 = 5;
/// `SKF_NET_OFF`: where the IP header begins.
const IP_HEADER: u32 = (-0x10_0000_i32).cast_unsigned();
const EVERYTHING: u32 = u32::MAX;

/// More memberships than this of one socket are not filtered: the kernel runs the filter for each
/// datagram.
const MAX_FILTERED: usize = 64;

fn op(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn equal(k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code: JUMP_EQUAL, jt, jf, k }
}

/// The filter for a socket that receives the `joined` groups, each with an accelerated interface,
/// from its lane. It drops datagrams to those groups that arrived from the network by those
/// interfaces, and passes everything else. `None` if nothing needs to be dropped, or if there are
/// too many for a filter (the caller then leaves those groups to the kernel).
pub(crate) fn filter(joined: &[(Address, u32)]) -> Option<Vec<Instruction>> {
    if joined.is_empty() || joined.len() > MAX_FILTERED {
        return None;
    }
    let looped = [op(LOAD_WORD, PACKET_TYPE), equal(LOOPED_BACK, 0, 1), op(RETURN, EVERYTHING)];
    let mut program = looped.to_vec();
    let mut interfaces: Vec<u32> = joined.iter().map(|(_, interface)| *interface).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    for interface in interfaces {
        let groups = joined.iter().filter(|(_, on)| *on == interface).map(|(group, _)| *group);
        let section = drop_groups(groups);
        program.extend([op(LOAD_WORD, INTERFACE), equal(interface, 1, 0), op(JUMP, section.len() as u32)]);
        program.extend(section);
    }
    program.push(op(RETURN, EVERYTHING));
    Some(program)
}

/// Drops what is addressed to one of the groups, and passes the rest.
fn drop_groups(groups: impl Iterator<Item = Address>) -> Vec<Instruction> {
    let (v4, v6): (Vec<Address>, Vec<Address>) = groups.partition(|group| group.to_v4().is_some());
    let mut of_v4 = vec![op(LOAD_WORD, IP_HEADER + 16)];
    for word in v4.iter().filter_map(|group| group.to_v4()).map(u32::from_be_bytes) {
        of_v4.extend([equal(word, 0, 1), op(RETURN, 0)]);
    }
    of_v4.push(op(RETURN, EVERYTHING));
    let mut program = vec![op(LOAD_BYTE, IP_HEADER), op(AND, 0xf0), equal(0x40, 1, 0), op(JUMP, of_v4.len() as u32)];
    program.extend(of_v4);
    for group in v6 {
        for (at, word) in (0..).zip(group.0.as_chunks::<4>().0) {
            program.push(op(LOAD_WORD, IP_HEADER + 24 + at * 4));
            // Past the "drop": the remaining words take two instructions each.
            let past = u8::try_from(2 * (3 - at) + 1).unwrap_or(u8::MAX);
            program.push(equal(u32::from_be_bytes(*word), 0, past));
        }
        program.push(op(RETURN, 0));
    }
    program.push(op(RETURN, EVERYTHING));
    program
}
#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use tickwire_lane_linux::sys_socket::attach_filter;

    const GROUP: Address = Address::v4([239, 1, 1, 1]);

    /// Runs a filter on a datagram as the kernel would, as far as these programs need it.
    fn run(program: &[Instruction], looped: bool, interface: u32, ip: &[u8]) -> u32 {
        let (mut at, mut a) = (0, 0);
        loop {
            let i = program[at];
            at += 1;
            match i.code {
                LOAD_WORD if i.k == INTERFACE => a = interface,
                LOAD_WORD if i.k == PACKET_TYPE => a = if looped { LOOPED_BACK } else { 2 },
                LOAD_WORD => {
                    let offset = (i.k - IP_HEADER) as usize;
                    match ip.get(offset..offset + 4) {
                        Some(word) => a = u32::from_be_bytes(word.try_into().unwrap()),
                        None => return 0,
                    }
                }
                LOAD_BYTE => a = u32::from(ip[(i.k - IP_HEADER) as usize]),
                AND => a &= i.k,
                JUMP => at += i.k as usize,
                JUMP_EQUAL => at += usize::from(if a == i.k { i.jt } else { i.jf }),
                RETURN => return i.k,
                other => panic!("{other:#x}"),
            }
        }
    }

    fn ip_to(destination: Address) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        if let Some(v4) = destination.to_v4() {
            bytes[0] = 0x45;
            bytes[16..20].copy_from_slice(&v4);
        } else {
            bytes[0] = 0x60;
            bytes[24..40].copy_from_slice(&destination.0);
        }
        bytes
    }

    #[test]
    fn only_joined_groups_are_dropped_where_they_were_joined() {
        let other = Address::v4([239, 1, 1, 2]);
        let six = Address([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34]);
        let mut six_other = six;
        six_other.0[15] = 0x35;
        let program = filter(&[(GROUP, 3), (six, 3), (GROUP, 4), (other, 4), (six, 5)]).unwrap();
        let heard = |interface, group| run(&program, false, interface, &ip_to(group)) != 0;
        for (interface, group, passes) in [
            (3, GROUP, false),
            (3, six, false),
            (3, other, true),
            (3, six_other, true),
            (4, GROUP, false),
            (4, other, false),
            (4, six, true),
            (5, GROUP, true),
            (5, six, false),
            (1, GROUP, true),
            (1, six, true),
        ] {
            assert_eq!(heard(interface, group), passes, "{group} by {interface}");
        }
        for group in [GROUP, six] {
            assert_eq!(run(&program, true, 3, &ip_to(group)), EVERYTHING, "looped back: the kernel alone has it");
        }
        assert_eq!(filter(&[]), None);
        // The kernel accepts it, also at its largest.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        attach_filter(socket.as_fd(), &program).unwrap();
        let many: Vec<_> = (0..MAX_FILTERED as u8)
            .map(|n| (Address([0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]), u32::from(n) + 1))
            .collect();
        let program = filter(&many).unwrap();
        attach_filter(socket.as_fd(), &program).unwrap();
        assert_eq!(run(&program, false, 64, &ip_to(many[63].0)), 0);
        assert_eq!(run(&program, false, 63, &ip_to(many[63].0)), EVERYTHING);
        assert_eq!(filter(&[many, vec![(GROUP, 1)]].concat()), None);
    }
}
