//! The host's addresses as divert and guard know them: to which of them packets come by which
//! interface, and from which of them lanes may send by which.
//!
//! As on Linux an address is the host's and not an interface's: what comes for it may come by each
//! of them, and what is sent from it goes where the routes say (`ip rule from`, two interfaces in
//! one subnet). A link-local address is that of its link alone.

use crate::programs::Programs;
use std::collections::{BTreeMap, BTreeSet};
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
}

impl OwnAddresses {
    /// What is to be in the maps for these interfaces.
    fn of<'n>(interfaces: impl Iterator<Item = OfInterface<'n>> + Clone) -> Self {
        let mut all = Self::default();
        for (index, mac, own) in interfaces.clone() {
            for &address in own {
                all.received.insert((address, index), mac.0);
                // If two of the same Ethernet address have it, one of them.
                all.sources.insert((address, mac.0), index);
            }
        }
        let everywhere = interfaces.clone().flat_map(|(.., own)| own).filter(|address| !address.is_link_local());
        for &address in everywhere.collect::<BTreeSet<_>>() {
            for (index, mac, _) in interfaces.clone() {
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
        let wanted = Self::of(interfaces);
        for &(address, index) in self.received.keys().filter(|key| !wanted.received.contains_key(key)) {
            programs.remove_address(index, address);
        }
        for &(address, mac) in self.sources.keys().filter(|key| !wanted.sources.contains_key(key)) {
            programs.remove_source(address, Mac(mac));
        }
        let mut missing = Vec::new();
        for (&(address, index), &mac) in &wanted.received {
            if self.received.get(&(address, index)) != Some(&mac)
                && let Err(error) = programs.add_address(index, address, Mac(mac))
            {
                tracing::warn!(interface = index, %address, %error, "cannot enter an address");
            }
        }
        for (&(address, mac), &index) in &wanted.sources {
            if self.sources.get(&(address, mac)) != Some(&index)
                && let Err(error) = programs.add_source(index, address, Mac(mac))
            {
                tracing::warn!(interface = index, %address, %error, "cannot enter a source address");
                missing.push((address, mac));
            }
        }
        *self = wanted;
        // To be tried again with the next change.
        self.sources.retain(|key, _| !missing.contains(key));
    }

    /// Whether the guard lets packets from an address out by an interface that has this Ethernet
    /// address.
    pub(crate) fn lets_out(&self, address: Address, mac: Mac, index: u32) -> bool {
        self.sources.get(&(address, mac.0)) == Some(&index)
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
        let owned: Vec<_> = all.iter().map(|&(i, mac, own)| (i, mac, own.iter().copied().collect())).collect();
        OwnAddresses::of(owned.iter().map(|(i, mac, own)| (*i, *mac, own)))
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
