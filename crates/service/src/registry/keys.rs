//! What is claimed: ports and flows, and the sockets that prove a right to them.

use tickwire_stack::addr::{Address, Endpoint};

/// The two transport protocols, as IP numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Protocol {
    Tcp = 6,
    Udp = 17,
}

/// A local address (or any of a family) and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PortKey {
    pub(crate) protocol: Protocol,
    pub(crate) local: Endpoint,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlowKey {
    pub(crate) protocol: Protocol,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
}

/// What was proved about a socket that a claim is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) protocol: Protocol,
    pub(crate) local: Endpoint,
    /// Bound to `::` without `IPV6_V6ONLY`: IPv4 packets arrive here, too.
    pub(crate) dual: bool,
    /// `SO_REUSEPORT`: packets are spread over all that share.
    pub(crate) shares: bool,
    /// `SO_REUSEADDR`, which lets several UDP sockets have one port; unicast then goes to the one
    /// bound last.
    pub(crate) reuses: bool,
}

impl Bound {
    /// The keys under which packets for this socket are found.
    pub(super) fn keys(&self) -> impl Iterator<Item = PortKey> + use<> {
        let key = |address| PortKey { protocol: self.protocol, local: Endpoint::new(address, self.local.port) };
        let also = (self.dual && self.local.address == Address::ANY).then(|| key(Address::ANY_V4));
        std::iter::once(key(self.local.address)).chain(also)
    }

    /// Whether packets to `local` come to this socket: one that is bound to an address has no
    /// others; one that is bound to "any" has all of the family.
    pub(crate) fn covers(&self, local: Endpoint) -> bool {
        let any = any_of(local.address);
        self.keys().any(|k| k.local.address == local.address || k.local.address == any) && self.local.port == local.port
    }
}

/// "Any address" of an address's family.
pub(crate) fn any_of(address: Address) -> Address {
    if address.to_v4().is_some() { Address::ANY_V4 } else { Address::ANY }
}
