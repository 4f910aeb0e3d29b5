//! The attacker's packets, byte by byte.

use tickwire_stack::addr::Address;
use tickwire_stack::checksum::plain;

/// A frame for host 1, from host 0.
pub(super) fn ethernet(packet: &[u8]) -> Vec<u8> {
    let ethertype: u16 = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ethertype.to_be_bytes(), packet].concat()
}

/// An IP packet; `id_fragment` holds IPv4's identification (upper half) and the flags and fragment
/// offset (lower half).
pub(super) fn ip(source: Address, destination: Address, protocol: u8, id_fragment: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let (Some(source), Some(destination)) = (source.to_v4(), destination.to_v4()) {
        bytes.extend_from_slice(&[0x45, 0]);
        bytes.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&id_fragment.to_be_bytes());
        bytes.extend_from_slice(&[64, protocol, 0, 0]);
        bytes.extend_from_slice(&source);
        bytes.extend_from_slice(&destination);
        let sum = plain(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes.extend_from_slice(&[0x60, 0, 0, 0]);
        bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[protocol, 64]);
        bytes.extend_from_slice(&source.0);
        bytes.extend_from_slice(&destination.0);
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// The same packet with another traffic class.
pub(super) fn with_class(mut packet: Vec<u8>, class: u8) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[1] = class;
        packet[10..12].fill(0);
        let sum = plain(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[0] |= class >> 4;
        packet[1] |= class << 4;
    }
    packet
}

/// TSval of a frame that holds a TCP segment with a timestamps option (RFC 7323 §3.2).
pub(super) fn stamp(frame: &[u8]) -> Option<u32> {
    let packet = frame.get(14..)?;
    let (protocol, header) = if packet.first()? >> 4 == 4 { (9, 20) } else { (6, 40) };
    let tcp = packet.get(header..).filter(|_| packet.get(protocol) == Some(&6))?;
    let mut options = tcp.get(20..usize::from(tcp.get(12)? >> 4) * 4)?;
    loop {
        options = match options {
            [1, rest @ ..] => rest,
            [8, 10, a, b, c, d, ..] => return Some(u32::from_be_bytes([*a, *b, *c, *d])),
            [kind, len, ..] if *kind > 1 && *len > 1 => options.get(usize::from(*len)..)?,
            _ => return None,
        };
    }
}
