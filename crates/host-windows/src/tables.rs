//! All interfaces, addresses and routes at one moment, and what differs between two moments.

use crate::address::UnicastAddress;
use crate::interface::HostInterface;
use crate::route::RouteEntry;
use std::cmp::Ordering;
use tickwire_stack::addr::Address;

/// The most interfaces that are kept.
pub const MAX_INTERFACES: usize = 1024;
/// The most addresses that are kept. Routers of a link can make a host have many.
pub const MAX_ADDRESSES: usize = 8192;
/// The most routes that are kept. Routers of a link can announce many.
pub const MAX_ROUTES: usize = 65_536;

/// What the kernel's tables hold at one moment: the interfaces, their usable addresses, and the
/// routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTables {
    /// By index.
    interfaces: Vec<HostInterface>,
    /// By interface and address.
    addresses: Vec<UnicastAddress>,
    /// By destination.
    routes: Vec<RouteEntry>,
    is_cut: bool,
}

/// A difference between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostChange {
    /// An interface is new or changed.
    Interface(HostInterface),
    /// An interface is gone.
    InterfaceGone(HostInterface),
    /// An address is new or changed.
    Address(UnicastAddress),
    /// An address is gone, or not usable any more.
    AddressGone(UnicastAddress),
    /// Some route changed; paths may be out of date.
    Routes,
}

impl HostTables {
    /// Takes rows in any order. Beyond [`MAX_INTERFACES`], [`MAX_ADDRESSES`] and [`MAX_ROUTES`]
    /// they are left out. Of two interfaces with one index, or of two equal addresses of an
    /// interface, one is kept.
    #[must_use]
    pub fn new(
        interfaces: impl IntoIterator<Item = HostInterface>,
        addresses: impl IntoIterator<Item = UnicastAddress>,
        routes: impl IntoIterator<Item = RouteEntry>,
    ) -> Self {
        let mut is_cut = false;
        let mut interfaces = at_most(interfaces, MAX_INTERFACES, &mut is_cut);
        let mut addresses = at_most(addresses, MAX_ADDRESSES, &mut is_cut);
        let mut routes = at_most(routes, MAX_ROUTES, &mut is_cut);
        interfaces.sort_by_key(|interface| interface.index);
        interfaces.dedup_by_key(|interface| interface.index);
        addresses.sort_unstable();
        addresses.dedup_by_key(|own| address_key(own));
        routes.sort_unstable();
        routes.dedup();
        Self { interfaces, addresses, routes, is_cut }
    }

    /// The interfaces, by index.
    #[must_use]
    pub fn interfaces(&self) -> &[HostInterface] {
        &self.interfaces
    }

    /// The addresses that can be used, by interface.
    #[must_use]
    pub fn addresses(&self) -> &[UnicastAddress] {
        &self.addresses
    }

    /// The routes, by destination.
    #[must_use]
    pub fn routes(&self) -> &[RouteEntry] {
        &self.routes
    }

    /// Whether rows were left out, because the kernel has more than is kept.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The interface with an index.
    #[must_use]
    pub fn interface(&self, index: u32) -> Option<&HostInterface> {
        let place = self.interfaces.binary_search_by_key(&index, |interface| interface.index).ok()?;
        self.interfaces.get(place)
    }

    /// The addresses of an interface.
    #[must_use]
    pub fn addresses_of(&self, interface: u32) -> &[UnicastAddress] {
        let start = self.addresses.partition_point(|own| own.interface < interface);
        let rest = self.addresses.get(start..).unwrap_or_default();
        rest.get(..rest.partition_point(|own| own.interface == interface)).unwrap_or_default()
    }

    /// The entries of an address, one for each interface that has it.
    pub fn owners(&self, address: Address) -> impl Iterator<Item = &UnicastAddress> {
        self.addresses.iter().filter(move |own| own.address == address)
    }

    /// What has changed since an earlier moment. At most one [`HostChange::Routes`], which is the
    /// last.
    #[must_use]
    pub fn changes_since(&self, earlier: &Self) -> Vec<HostChange> {
        let mut changes = Vec::new();
        compare(
            &earlier.interfaces,
            &self.interfaces,
            |interface| interface.index,
            |row, gone| {
                let row = row.clone();
                changes.push(if gone { HostChange::InterfaceGone(row) } else { HostChange::Interface(row) });
            },
        );
        compare(&earlier.addresses, &self.addresses, address_key, |row, gone| {
            changes.push(if gone { HostChange::AddressGone(*row) } else { HostChange::Address(*row) });
        });
        if earlier.routes != self.routes {
            changes.push(HostChange::Routes);
        }
        changes
    }
}

fn address_key(own: &UnicastAddress) -> (u32, Address) {
    (own.interface, own.address)
}

/// Takes at most so many rows; notes whether there are more.
fn at_most<T>(rows: impl IntoIterator<Item = T>, most: usize, is_cut: &mut bool) -> Vec<T> {
    let mut rows = rows.into_iter();
    let taken = rows.by_ref().take(most).collect();
    *is_cut |= rows.next().is_some();
    taken
}

/// Compares two tables that are sorted by a key without duplicates. Reports each row that is new or
/// different, and each that is gone.
fn compare<T: PartialEq, K: Ord>(earlier: &[T], now: &[T], key: impl Fn(&T) -> K, mut report: impl FnMut(&T, bool)) {
    let (mut earlier, mut now) = (earlier.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (earlier.peek(), now.peek()) {
            (Some(old), Some(new)) => key(old).cmp(&key(new)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let old = if order.is_le() { earlier.next() } else { None };
        let new = if order.is_ge() { now.next() } else { None };
        match (old, new) {
            (Some(old), None) => report(old, true),
            (old, Some(new)) if old != Some(new) => report(new, false),
            _ => {}
        }
    }
}

/// Values for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::HostTables;
    use crate::address::UnicastAddress;
    use crate::interface::{FamilySettings, HostInterface, InterfaceKind};
    use crate::prefix::IpPrefix;
    use crate::route::RouteEntry;
    use std::net::IpAddr;
    use tickwire_stack::addr::{Address, Mac};

    pub(crate) fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    pub(crate) fn own(interface: u32, text: &str, prefix_length: u8) -> UnicastAddress {
        let address = address(text);
        UnicastAddress {
            interface,
            address,
            prefix_length,
            is_deprecated: false,
            is_temporary: false,
            is_skipped: false,
        }
    }

    /// A route, as "destination/length".
    pub(crate) fn route(destination: &str, interface: u32, gateway: Option<&str>, metric: u32) -> RouteEntry {
        let (first, length) = destination.split_once('/').unwrap();
        let destination = IpPrefix::new(address(first), length.parse().unwrap()).unwrap();
        RouteEntry { destination, interface, gateway: gateway.map(address), metric }
    }

    /// An Ethernet interface for both families.
    pub(crate) fn ethernet(index: u32, metric: u32) -> HostInterface {
        let settings = Some(FamilySettings { mtu: 1500, metric, weak_host_send: false });
        HostInterface {
            index,
            luid: u64::from(index) << 24,
            alias: format!("Ethernet {index}"),
            description: "Card".into(),
            kind: InterfaceKind::Ethernet,
            mac: Some(Mac([2, 0, 0, 0, 0, index as u8])),
            is_up: true,
            v4: settings,
            v6: settings,
        }
    }

    /// The loopback, with index 1.
    pub(crate) fn loopback() -> HostInterface {
        let settings = Some(FamilySettings { mtu: u32::MAX, metric: 75, weak_host_send: false });
        HostInterface { kind: InterfaceKind::Loopback, mac: None, v4: settings, v6: settings, ..ethernet(1, 75) }
    }

    /// A host with two cards: 5 has a router to everywhere, 6 has a larger metric.
    pub(crate) fn two_cards() -> HostTables {
        HostTables::new(
            [loopback(), ethernet(6, 50), ethernet(5, 10)],
            [
                own(1, "127.0.0.1", 8),
                own(5, "10.0.0.1", 24),
                own(5, "fe80::5", 64),
                own(6, "192.168.7.1", 24),
                own(6, "fe80::6", 64),
            ],
            [
                route("0.0.0.0/0", 5, Some("10.0.0.254"), 0),
                route("0.0.0.0/0", 6, Some("192.168.7.254"), 0),
                route("10.0.0.0/24", 5, None, 256),
                route("192.168.7.0/24", 6, None, 256),
                route("224.0.0.0/4", 5, None, 256),
                route("224.0.0.0/4", 6, None, 256),
                route("fe80::/64", 5, None, 256),
                route("fe80::/64", 6, None, 256),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{address, ethernet, own, route, two_cards};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_found_by_their_interface_and_address() {
        let tables = two_cards();
        assert_eq!(tables.interface(6).map(|i| i.index), Some(6));
        assert_eq!(tables.interface(7), None);
        assert_eq!(tables.addresses_of(5).len(), 2);
        assert_eq!(tables.addresses_of(4), []);
        assert_eq!(tables.owners(address("fe80::6")).count(), 1);
    }

    #[test]
    fn the_same_tables_have_no_changes() {
        assert_eq!(two_cards().changes_since(&two_cards()), []);
    }

    #[test]
    fn changed_new_and_vanished_rows_are_reported() {
        let earlier = two_cards();
        let down = HostInterface { is_up: false, ..ethernet(5, 10) };
        let interfaces = [down.clone(), ethernet(9, 1)];
        let addresses = [own(5, "10.0.0.1", 16), own(5, "10.0.0.2", 24), own(6, "fe80::6", 64)];
        let now = HostTables::new(interfaces, addresses, earlier.routes().to_vec());
        let changes = now.changes_since(&earlier);
        let gone = |index| HostChange::InterfaceGone(earlier.interface(index).unwrap().clone());
        assert_eq!(
            changes,
            [
                gone(1),
                HostChange::Interface(down),
                gone(6),
                HostChange::Interface(ethernet(9, 1)),
                HostChange::AddressGone(own(1, "127.0.0.1", 8)),
                HostChange::Address(own(5, "10.0.0.1", 16)),
                HostChange::Address(own(5, "10.0.0.2", 24)),
                HostChange::AddressGone(own(5, "fe80::5", 64)),
                HostChange::AddressGone(own(6, "192.168.7.1", 24)),
            ]
        );
    }

    #[test]
    fn a_route_that_changed_is_one_change() {
        let earlier = two_cards();
        let routes = [route("0.0.0.0/0", 5, Some("10.0.0.253"), 0)];
        let now = HostTables::new(earlier.interfaces().to_vec(), earlier.addresses().to_vec(), routes);
        assert_eq!(now.changes_since(&earlier), [HostChange::Routes]);
    }

    #[test]
    fn tables_of_any_size_are_cut() {
        let many = (0..=MAX_ADDRESSES as u32).map(|n| {
            let mut row = own(5, "2001:db8::1", 64);
            row.address.0[8..12].copy_from_slice(&n.to_be_bytes());
            row
        });
        let tables = HostTables::new([], many.clone(), []);
        assert_eq!((tables.addresses().len(), tables.is_cut()), (MAX_ADDRESSES, true));
        assert!(!HostTables::new([], many.skip(1), []).is_cut());
    }

    proptest! {
        #[test]
        fn changes_lead_from_one_table_to_the_other(
            earlier in prop::collection::btree_map(0_u32..12, any::<bool>(), 0..12),
            now in prop::collection::btree_map(0_u32..12, any::<bool>(), 0..12),
        ) {
            let tables = |rows: &std::collections::BTreeMap<u32, bool>| {
                let rows = rows.iter().map(|(&index, &is_up)| HostInterface { is_up, ..ethernet(index, 1) });
                HostTables::new(rows, [], [])
            };
            let (earlier, now) = (tables(&earlier), tables(&now));
            let mut rows = earlier.interfaces().to_vec();
            for change in now.changes_since(&earlier) {
                match change {
                    HostChange::Interface(row) => {
                        rows.retain(|old| old.index != row.index);
                        rows.push(row);
                    }
                    HostChange::InterfaceGone(row) => rows.retain(|old| *old != row),
                    other => panic!("{other:?}"),
                }
            }
            prop_assert_eq!(HostTables::new(rows, [], []), now);
        }
    }
}
