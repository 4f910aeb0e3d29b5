//! The sockets that prove a right to a port, and the keys under which their packets are found.

use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{PortKey, Protocol};

/// What was proved about a socket that a claim is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its protocol.
    pub protocol: Protocol,
    /// The address and port that it is bound to.
    pub local: Endpoint,
    /// Bound to `::` without `IPV6_V6ONLY`: IPv4 packets arrive here, too.
    pub dual: bool,
    /// `SO_REUSEPORT`: packets are spread over all that share.
    pub shares: bool,
    /// `SO_REUSEADDR`, which lets several UDP sockets have one port; unicast then goes to the one
    /// bound last.
    pub reuses: bool,
}

impl Bound {
    /// The keys under which packets for this socket are found.
    pub(crate) fn keys(&self) -> impl Iterator<Item = PortKey> + use<> {
        let key = |address| PortKey { protocol: self.protocol, local: Endpoint::new(address, self.local.port) };
        let also = (self.dual && self.local.address == Address::ANY).then(|| key(Address::ANY_V4));
        std::iter::once(key(self.local.address)).chain(also)
    }

    /// Whether packets to `local` come to this socket: one that is bound to an address has no
    /// others; one that is bound to "any" has all of the family.
    #[must_use]
    pub fn covers(&self, local: Endpoint) -> bool {
        let any = any_of(local.address);
        self.keys().any(|k| k.local.address == local.address || k.local.address == any) && self.local.port == local.port
    }
}

/// "Any address" of an address's family.
#[must_use]
pub fn any_of(address: Address) -> Address {
    if address.to_v4().is_some() { Address::ANY_V4 } else { Address::ANY }
}
