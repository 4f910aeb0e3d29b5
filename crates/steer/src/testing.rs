//! A host and frames for the tests of the rules.

use crate::handshake::{Kernel, KernelSocket};
use crate::tables::{AddressKey, EgressNic, NicIndex, SourceKey, Tables};
use alloc::vec;
use alloc::vec::Vec;
use tickwire_stack::addr::{Address, Endpoint, Mac};

pub(crate) const NIC: NicIndex = 11;
pub(crate) const NIC_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(crate) const HERE: Address = Address::v4([10, 77, 0, 1]);
pub(crate) const PEER: Address = Address::v4([10, 77, 0, 2]);
pub(crate) const ROUTER: Address = Address::v4([10, 77, 0, 254]);
pub(crate) const GROUP: Address = Address::v4([239, 1, 2, 3]);
pub(crate) const HERE_V6: Address = v6(1);
pub(crate) const PEER_V6: Address = v6(2);
pub(crate) const ROUTER_V6: Address = v6(254);

const fn v6(last: u8) -> Address {
    Address([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

pub(crate) const fn ends(address: Address, port: u16) -> Endpoint {
    Endpoint::new(address, port)
}

/// A host with one network card, an address of each family, and three lanes.
pub(crate) fn host() -> Tables {
    let mut tables = Tables { lanes: [77, 78, 79].into(), ..Tables::default() };
    tables.nics.insert(NIC, EgressNic { mtu: 1500 });
    for address in [HERE, HERE_V6] {
        tables.addresses.insert(AddressKey { nic: NIC, address }, NIC_MAC);
        tables.sources.insert(SourceKey { address, mac: NIC_MAC }, NIC);
    }
    tables
}

/// A kernel without sockets.
pub(crate) struct NoSockets;

impl Kernel for NoSockets {
    fn tcp_socket(&self, _: Endpoint, _: Endpoint) -> Option<KernelSocket> {
        None
    }
}

/// A kernel with such a socket for all ends.
pub(crate) struct Sockets(pub(crate) KernelSocket);

impl Kernel for Sockets {
    fn tcp_socket(&self, _: Endpoint, _: Endpoint) -> Option<KernelSocket> {
        Some(self.0)
    }
}

/// An Ethernet frame, from and to [`NIC_MAC`], with an IP packet.
fn ip(from: Address, to: Address, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [NIC_MAC.0, NIC_MAC.0].concat();
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

fn ports(from: Endpoint, to: Endpoint) -> Vec<u8> {
    [from.port.to_be_bytes(), to.port.to_be_bytes()].concat()
}

/// A datagram with so many bytes of data.
pub(crate) fn udp(from: Endpoint, to: Endpoint, data: usize) -> Vec<u8> {
    let mut payload = ports(from, to);
    payload.extend((8 + data as u16).to_be_bytes());
    payload.extend([0, 0]);
    payload.resize(8 + data, 0);
    ip(from.address, to.address, 17, &payload)
}

/// A segment without data.
pub(crate) fn tcp(from: Endpoint, to: Endpoint, flags: u8, sequence: u32, acknowledged: u32) -> Vec<u8> {
    let mut payload = ports(from, to);
    payload.extend([sequence, acknowledged].map(u32::to_be_bytes).concat());
    payload.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    ip(from.address, to.address, 6, &payload)
}

/// An ICMP message of a type, about a frame that was sent.
pub(crate) fn error(from: Address, to: Address, kind: u8, sent: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    payload.extend(&sent[14..]);
    ip(from, to, if from.to_v4().is_some() { 1 } else { 58 }, &payload)
}
