//! Shared by several scenario tests: sockets on a pair, and hand-made packets.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::checksum::{Sum, plain};
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{StackError, UdpId};

/// Property tests with the same cases at every run.
pub fn proptest_config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() }
}

pub fn open(pair: &mut SimulatedPair, host: usize, address: Address, port: u16) -> UdpId {
    open_with(pair, host, address, port, UdpOptions::default())
}

pub fn open_with(pair: &mut SimulatedPair, host: usize, address: Address, port: u16, options: UdpOptions) -> UdpId {
    let mut stack = pair.stack(host);
    let id = stack.udp_open(options).unwrap();
    stack.udp_bind(id, Endpoint::new(address, port)).unwrap();
    id
}

pub fn send(pair: &mut SimulatedPair, host: usize, id: UdpId, to: Endpoint, bytes: &[u8]) -> Result<usize, StackError> {
    let now = pair.now();
    let to = SendTo { destination: Some(to), ..SendTo::default() };
    pair.stack(host).udp_send(id, now, &to, &mut &bytes[..])
}

pub fn received(pair: &mut SimulatedPair, host: usize, id: UdpId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut bytes = Vec::new();
        match pair.stack(host).udp_recv(id, false, &mut bytes) {
            Ok(datagram) => {
                assert_eq!(datagram.len, bytes.len());
                all.push(bytes);
            }
            Err(StackError::WouldBlock) => return all,
            Err(other) => panic!("{other}"),
        }
    }
}

pub fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ salt).collect()
}

/// The value of one of a host's counters.
pub fn counter(pair: &mut SimulatedPair, host: usize, name: &str) -> u64 {
    let stack = pair.stack(host);
    stack.counters().iter().find(|&(n, _)| n == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

/// An Ethernet frame from host 1 to host 0 around an IP packet made by [`ip`].
pub fn frame(packet: &[u8]) -> Vec<u8> {
    let ethertype: u16 = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes(), packet].concat()
}

/// An IP packet; IPv4 with identification 7 and no fragmentation.
pub fn ip(source: Address, destination: Address, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match (source.to_v4(), destination.to_v4()) {
        (Some(source), Some(destination)) => ip_v4(source, destination, protocol, 7, 0, payload),
        _ => {
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
            bytes.extend_from_slice(&[protocol, 64]);
            bytes.extend_from_slice(&source.0);
            bytes.extend_from_slice(&destination.0);
            bytes.extend_from_slice(payload);
            bytes
        }
    }
}

/// An IPv4 packet; `fragment` is its flags and offset field.
pub fn ip_v4(source: [u8; 4], destination: [u8; 4], protocol: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&fragment.to_be_bytes());
    bytes.extend_from_slice(&[64, protocol, 0, 0]);
    bytes.extend_from_slice(&source);
    bytes.extend_from_slice(&destination);
    let sum = plain(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A UDP datagram with checksum.
pub fn udp(source: Endpoint, destination: Endpoint, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&source.port.to_be_bytes());
    bytes.extend_from_slice(&destination.port.to_be_bytes());
    bytes.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(payload);
    let sum = Sum::ZERO.pseudo(source.address, destination.address, 17, bytes.len() as u32).bytes(&bytes).checksum();
    bytes[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    bytes
}

/// An ICMP or ICMPv6 error from `router` to `to`, quoting a packet.
pub fn icmp(router: Address, to: Address, kind: u8, code: u8, word: u32, quoted: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend_from_slice(&word.to_be_bytes());
    bytes.extend_from_slice(quoted);
    let v4 = to.to_v4().is_some();
    let sum = if v4 { Sum::ZERO } else { Sum::ZERO.pseudo(router, to, 58, bytes.len() as u32) };
    let sum = sum.bytes(&bytes).checksum();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(router, to, if v4 { 1 } else { 58 }, &bytes)
}
