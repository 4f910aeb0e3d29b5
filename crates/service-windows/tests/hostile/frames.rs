//! Frames that are good, near to good ones, or were sent.

use tickwire_sim::Input;
use tickwire_stack::addr::{Address, Mac};
use tickwire_steer::tables::NicIndex;

pub(super) const NIC: NicIndex = 3;
pub(super) const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(super) const HERE: Address = Address::v4([10, 77, 0, 1]);
pub(super) const PEER: Address = Address::v4([10, 77, 0, 2]);
pub(super) const HERE_V6: Address = Address([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
const PEER_V6: Address = Address([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
const GROUP: Address = Address::v4([239, 1, 2, 3]);
const LOOPBACK: Address = Address::v4([127, 0, 0, 1]);

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The ports of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Other = 1000,
    Hostile = 2000,
}

/// An Ethernet frame with an IP packet.
fn ip(from: Address, to: Address, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [MAC.0, MAC.0].concat();
    let length = payload.len() as u16;
    match (from.to_v4(), to.to_v4()) {
        (Some(from), Some(to)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            frame.extend([from, to].concat());
        }
        _ => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([from.0, to.0].concat());
        }
    }
    frame.extend(payload);
    frame
}

/// A datagram.
pub(super) fn udp(from: (Address, u16), to: (Address, u16), data: &[u8]) -> Vec<u8> {
    let mut payload = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    payload.extend((8 + data.len() as u16).to_be_bytes());
    payload.extend([0, 0]);
    payload.extend(data);
    ip(from.0, to.0, UDP, &payload)
}

fn tcp(from: (Address, u16), to: (Address, u16), flags: u8, sequence: u16) -> Vec<u8> {
    let mut payload = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    payload.extend([0, 0]);
    payload.extend(sequence.to_be_bytes());
    payload.extend([0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    ip(from.0, to.0, TCP, &payload)
}

/// A frame that is good but for the bytes that an input changes.
pub(super) fn near(input: &mut Input<'_>, own: Port) -> Vec<u8> {
    let ports = [own as u16, Port::Other as u16, 9, input.u16()];
    let v4 = [HERE, PEER, GROUP, LOOPBACK, Address::v4([255; 4])];
    let v6 = [HERE_V6, PEER_V6];
    let addresses = if input.u8() & 1 == 0 { &v4[..] } else { &v6[..] };
    let from = (input.of(addresses), input.of(&ports));
    let to = (input.of(addresses), input.of(&ports));
    let mut frame = match input.u8() % 4 {
        0 => udp(from, to, &[input.u8(); 30]),
        1 => tcp(from, to, input.u8(), input.u16()),
        2 => {
            // An ICMP error about what the host may have sent.
            let sent = udp(to, from, &[input.u8(); 8]);
            let kind = input.of(&[3, 11, 1, 2]);
            let payload = [&[kind, input.u8(), 0, 0, 0, 0, 0, 0][..], &sent[ETHERNET..]].concat();
            ip(from.0, to.0, if from.0.to_v4().is_some() { 1 } else { 58 }, &payload)
        }
        _ => {
            // A fragment.
            let mut frame = udp(from, to, &[input.u8(); 60]);
            if from.0.to_v4().is_some() {
                frame[ETHERNET + 5] = input.u8() & 3;
                frame[ETHERNET + 6] = input.of(&[0x20, 0, 0x40, 0x20]);
                frame[ETHERNET + 7] = input.of(&[0, 1, 8]);
            } else {
                let header = [UDP, 0, 0, input.of(&[1, 0, 9, 64]), 0, 0, 0, input.u8() & 3];
                frame[ETHERNET + 6] = 44;
                frame.splice(ETHERNET + 40..ETHERNET + 40, header);
                let length = (frame.len() - ETHERNET - 40) as u16;
                frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
            }
            frame
        }
    };
    for _ in 0..input.u8() % 4 {
        let at = usize::from(input.u8()) % frame.len();
        frame[at] = input.u8();
    }
    let cut = input.u8();
    if cut < 40 {
        frame.truncate(frame.len() - usize::from(cut).min(frame.len()));
    }
    frame
}

/// Checks that a frame that leaves is of this host, and that its source port is this one, if it
/// has one at its usual place. (What guard knows of extension headers and fragments is not repeated
/// here.)
pub(super) fn assert_is_of(frame: &[u8], own: Port) {
    assert_eq!(frame[6..12], MAC.0, "another source address");
    let packet = &frame[ETHERNET..];
    let (protocol, header, source) = match frame[12..14] {
        [0x08, 0x00] => {
            let is_later = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0;
            let protocol = if is_later { 0 } else { packet[9] };
            (protocol, usize::from(packet[0] & 15) * 4, Address::v4([packet[12], packet[13], packet[14], packet[15]]))
        }
        [0x86, 0xdd] => {
            let mut source = [0; 16];
            source.copy_from_slice(&packet[8..24]);
            (packet[6], 40, Address(source))
        }
        _ => panic!("what leaves is no IP packet"),
    };
    assert!([HERE, HERE_V6].contains(&source), "another source: {source}");
    if [TCP, UDP].contains(&protocol) {
        let port = u16::from_be_bytes([packet[header], packet[header + 1]]);
        assert_eq!(port, own as u16, "another port");
    }
}
