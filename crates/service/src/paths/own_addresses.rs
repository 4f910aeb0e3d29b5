//! The host's addresses as divert and guard know them: by which interfaces packets to an address
//! may arrive, and by which lanes may send from it.
//!
//! As on Linux an address belongs to the host and not to an interface: packets to it may arrive by
//! each of them, and packets from it leave as the routes say (`ip rule from`, two interfaces in one
//! subnet). A link-local address belongs to its link alone.

use crate::programs::{BpfError, Programs};
use std::collections::{BTreeMap, BTreeSet};
use tickwire_lane_linux::bpf::MOST_ADDRESSES;
use tickwire_stack::addr::{Address, Mac};

/// An interface: its index, its Ethernet address, and its addresses.
pub(crate) type OfInterface<'n> = (u32, Mac, &'n BTreeSet<Address>);

/// What is in the maps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnAddresses {
    /// By address and interface, the interface's Ethernet address.
    received: BTreeMap<(Address, u32), [u8; 6]>,
    /// By address and Ethernet address, the interface to leave by.
    sources: BTreeMap<(Address, [u8; 6]), u32>,
    /// Those for which the maps have no room.
    without_room: BTreeSet<Address>,
}

impl OwnAddresses {
    /// The entries of an address, if these are the interfaces.
    fn of<'n>(address: Address, interfaces: impl Iterator<Item = OfInterface<'n>> + Clone) -> Self {
        let mut all = Self::default();
        for (index, mac, _) in interfaces.clone().filter(|(.., own)| own.contains(&address)) {
            all.received.insert((address, index), mac.0);
            // If two interfaces of the same Ethernet address have it, the last one is entered.
            all.sources.insert((address, mac.0), index);
        }
        if !address.is_link_local() && !all.received.is_empty() {
            for (index, mac, _) in interfaces {
                all.received.entry((address, index)).or_insert(mac.0);
                // Its own interface comes first, if another one has the same Ethernet address.
                all.sources.entry((address, mac.0)).or_insert(index);
            }
        }
        all
    }

    /// Makes the maps agree with what these interfaces have now.
    pub(crate) fn settle<'n>(
        &mut self,
        interfaces: impl Iterator<Item = OfInterface<'n>> + Clone,
        programs: &mut Programs,
    ) {
        let mut all: BTreeSet<Address> = self.received.keys().map(|key| key.0).collect();
        all.extend(&self.without_room);
        all.extend(interfaces.clone().flat_map(|(.., own)| own));
        all.into_iter().for_each(|address| self.settle_one(address, interfaces.clone(), programs));
    }

    /// Makes the maps agree with the interfaces that have one address now.
    pub(crate) fn settle_one<'n>(
        &mut self,
        address: Address,
        interfaces: impl Iterator<Item = OfInterface<'n>> + Clone,
        programs: &mut Programs,
    ) {
        let wanted = Self::of(address, interfaces);
        let received = self.received.range((address, 0)..=(address, u32::MAX));
        let gone: Vec<_> = received.map(|(key, _)| *key).filter(|key| !wanted.received.contains_key(key)).collect();
        for key in gone {
            self.received.remove(&key);
            programs.remove_address(key.1, address);
        }
        let sources = self.sources.range((address, [0; 6])..=(address, [u8::MAX; 6]));
        let gone: Vec<_> = sources.map(|(key, _)| *key).filter(|key| !wanted.sources.contains_key(key)).collect();
        for key in gone {
            self.sources.remove(&key);
            programs.remove_source(address, Mac(key.1));
        }
        if let Err(error) = self.enter(&wanted, programs) {
            self.take_out(address, programs);
            self.leave_out(address, &error);
        } else if self.without_room.remove(&address) && self.without_room.is_empty() {
            tracing::info!("there is room for all addresses of the host again");
        }
    }

    fn enter(&mut self, wanted: &Self, programs: &mut Programs) -> Result<(), BpfError> {
        for (&(address, index), &mac) in &wanted.received {
            if self.received.get(&(address, index)) != Some(&mac) {
                programs.add_address(index, address, Mac(mac))?;
                self.received.insert((address, index), mac);
            }
        }
        for (&(address, mac), &index) in &wanted.sources {
            if self.sources.get(&(address, mac)) != Some(&index) {
                programs.add_source(index, address, Mac(mac))?;
                self.sources.insert((address, mac), index);
            }
        }
        Ok(())
    }

    /// Removes an address from the maps. With only a part of its entries, packets to it could
    /// arrive that cannot be answered.
    fn take_out(&mut self, address: Address, programs: &mut Programs) {
        self.received.retain(|&(known, index), _| {
            if known == address {
                programs.remove_address(index, address);
            }
            known != address
        });
        self.sources.retain(|&(known, mac), _| {
            if known == address {
                programs.remove_source(address, Mac(mac));
            }
            known != address
        });
    }

    /// An address is in no map. It stays with the kernel, and is tried again with the next change
    /// that concerns it. Only the first one is logged.
    fn leave_out(&mut self, address: Address, error: &BpfError) {
        if self.without_room.is_empty() {
            let most = MOST_ADDRESSES;
            tracing::error!(
                %address, %error, most,
                "there is no room for this address of the host, nor for more: what is sent from and to them stays on the kernel"
            );
        }
        self.without_room.insert(address);
    }

    /// How many addresses are left to the kernel for want of room.
    pub(crate) fn number_left_out(&self) -> usize {
        self.without_room.len()
    }

    /// One of them.
    pub(crate) fn first_left_out(&self) -> Option<Address> {
        self.without_room.first().copied()
    }

    /// Whether this is one of them.
    pub(crate) fn is_left_out(&self, address: Address) -> bool {
        self.without_room.contains(&address)
    }

    /// Whether the guard lets packets from an address out by an interface that has this Ethernet
    /// address.
    pub(crate) fn lets_out(&self, address: Address, mac: Mac, index: u32) -> bool {
        !self.is_left_out(address) && self.sources.get(&(address, mac.0)) == Some(&index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const TWO: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn v4(last: u8) -> Address {
        Address::v4([10, 0, 0, last])
    }

    fn link_local(last: u8) -> Address {
        let mut octets = [0; 16];
        [octets[0], octets[1], octets[15]] = [0xfe, 0x80, last];
        Address(octets)
    }

    fn of(all: &[(u32, Mac, &[Address])]) -> OwnAddresses {
        let owned: Vec<(u32, Mac, BTreeSet<Address>)> =
            all.iter().map(|&(i, mac, own)| (i, mac, own.iter().copied().collect())).collect();
        let interfaces = owned.iter().map(|(i, mac, own)| (*i, *mac, own));
        let mut found = OwnAddresses::default();
        for address in owned.iter().flat_map(|(_, _, own)| own) {
            let OwnAddresses { received, sources, .. } = OwnAddresses::of(*address, interfaces.clone());
            found.received.extend(received);
            found.sources.extend(sources);
        }
        found
    }

    #[test]
    fn addresses_beyond_what_the_maps_hold_are_left_to_the_kernel_and_counted() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root");
            return;
        }
        let limits = crate::config::ServiceLimits::default();
        crate::run::raise_limits(&limits);
        let mut programs = Programs::load(&limits).unwrap();
        let number = |n: u32| Address::v4((0x0a00_0000 + n).to_be_bytes());
        let mut own: BTreeSet<Address> = (0..MOST_ADDRESSES + 2).map(number).collect();
        let mut known = OwnAddresses::default();
        known.settle([(3, ONE, &own)].into_iter(), &mut programs);
        assert_eq!(known.number_left_out(), 2);
        let last = number(MOST_ADDRESSES + 1);
        assert!(known.is_left_out(last) && !known.lets_out(last, ONE, 3) && known.lets_out(number(0), ONE, 3));
        own.remove(&number(0));
        known.settle_one(number(0), [(3, ONE, &own)].into_iter(), &mut programs);
        known.settle_one(last, [(3, ONE, &own)].into_iter(), &mut programs);
        assert!(known.lets_out(last, ONE, 3) && !known.lets_out(number(0), ONE, 3));
        assert_eq!(known.number_left_out(), 1);
    }

    #[test]
    fn an_address_is_the_hosts_and_a_link_local_one_its_links() {
        let all = of(&[(3, ONE, &[v4(1), link_local(1)]), (4, TWO, &[v4(2), link_local(1)])]);
        for (address, mac, index) in [(v4(1), ONE, 3), (v4(1), TWO, 4), (v4(2), ONE, 3), (link_local(1), TWO, 4)] {
            assert!(all.lets_out(address, mac, index), "{address:?} by {index}");
            assert_eq!(all.received.get(&(address, index)), Some(&mac.0));
        }
        let all = of(&[(3, ONE, &[link_local(1)]), (4, TWO, &[])]);
        assert!(!all.lets_out(link_local(1), TWO, 4) && !all.received.contains_key(&(link_local(1), 4)));
    }

    #[test]
    fn of_two_with_one_ethernet_address_that_which_has_the_address_sends_from_it() {
        let all = of(&[(3, ONE, &[v4(1)]), (4, ONE, &[v4(2)])]);
        assert!(all.lets_out(v4(1), ONE, 3) && all.lets_out(v4(2), ONE, 4));
        assert!(!all.lets_out(v4(1), ONE, 4) && !all.lets_out(v4(2), ONE, 3));
    }
}
