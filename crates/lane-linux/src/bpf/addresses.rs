//! What the service enters of the host's addresses, and of the paths to peers.

use tickwire_stack::addr::{Address, Mac};

/// How many addresses of the host the maps have room for, each once for every interface
/// (`addresses` and `sources` in `maps.h`).
pub const MOST_ADDRESSES: u32 = 65_536;

/// An address of ours on a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct AddressMapKey {
    address: [u8; 16],
    nic: u32,
}

impl AddressMapKey {
    /// The key of an address on the NIC with interface index `nic`.
    #[must_use]
    pub const fn new(address: Address, nic: u32) -> Self {
        Self { address: address.0, nic }
    }
}

/// The Ethernet address that packets to one of our addresses carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AddressValue {
    mac: [u8; 6],
    pad: [u8; 2],
}

impl AddressValue {
    /// The value for this Ethernet address.
    #[must_use]
    pub const fn new(mac: Mac) -> Self {
        Self { mac: mac.0, pad: [0; 2] }
    }
}

/// A source address of the host's and a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HopMapKey {
    source: [u8; 16],
    destination: [u8; 16],
}

impl HopMapKey {
    /// The key of the path between two addresses.
    #[must_use]
    pub const fn new(source: Address, destination: Address) -> Self {
        Self { source: source.0, destination: destination.0 }
    }
}

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HopValue {
    destination: [u8; 6],
    source: [u8; 6],
    nic: u32,
}

impl HopValue {
    /// The value for the next hop's Ethernet address, and that of the NIC with interface index
    /// `nic` by which it is reached.
    #[must_use]
    pub const fn new(destination: Mac, source: Mac, nic: u32) -> Self {
        Self { destination: destination.0, source: source.0, nic }
    }
}

/// An address and Ethernet address that lanes may send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct SourceMapKey {
    address: [u8; 16],
    mac: [u8; 6],
    pad: [u8; 2],
}

impl SourceMapKey {
    /// The key of a source.
    #[must_use]
    pub const fn new(address: Address, mac: Mac) -> Self {
        Self { address: address.0, mac: mac.0, pad: [0; 2] }
    }
}
