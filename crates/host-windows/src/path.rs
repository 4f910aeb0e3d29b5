//! How to reach a destination: route, interface and next hop together, and the reason if a lane
//! cannot.

use crate::interface::minimum_mtu;
use crate::tables::HostTables;
use tickwire_lane::control::Reason;
use tickwire_stack::addr::{Address, Family};
use tickwire_stack::path::{PathInfo, PathState, Query};

/// A route that was selected for a query, by Windows or from the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChoice {
    /// The index of the outgoing interface.
    pub interface: u32,
    /// The router; `None` if the destination is on the link.
    pub gateway: Option<Address>,
    /// The source address; `None` if the interface has none that fits.
    pub source: Option<Address>,
}

/// The host's answer to a query.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedPath {
    /// The path for the stack.
    pub path: PathInfo,
    /// The neighbour to which the packets go (router or destination); `None` for groups and paths
    /// of the kernel.
    pub next_hop: Option<Address>,
    /// Why a lane cannot use it; [`Reason::None`] if it can, or will when the neighbour is
    /// resolved.
    pub reason: Reason,
}

/// The decision on a route: either final, or a neighbour to look up.
#[derive(Clone, Copy, Debug)]
pub enum PathDecision {
    /// The answer.
    Final(ResolvedPath),
    /// All is known but the next hop's Ethernet address.
    Neighbour {
        /// The next hop.
        hop: Address,
        /// The path as far as known.
        path: PathInfo,
    },
}

impl HostTables {
    /// The answer to a query that needs no route: destinations that only the kernel reaches, and
    /// source addresses that are not the host's. `None`: a route is to be selected.
    #[must_use]
    pub fn without_route(&self, query: &Query) -> Option<ResolvedPath> {
        let &Query { destination, source, .. } = query;
        let is_own = |address| self.owners(address).next().is_some();
        let reason = if destination.is_unspecified() || destination.is_loopback() || is_own(destination) {
            Reason::Loopback
        } else if destination.is_limited_broadcast() || self.is_subnet_broadcast(destination) {
            Reason::Broadcast
        } else if source.is_loopback() {
            Reason::BoundLoopback
        } else if !source.is_unspecified() && !is_own(source) {
            Reason::Address
        } else {
            return None;
        };
        Some(refused(PathInfo { query: *query, source, ..PathInfo::default() }, PathState::Kernel, reason))
    }

    /// The decision on a query with the route that was selected for it, if there is one.
    ///
    /// `accelerated` says for an interface and a source address whether lanes can use them, or why
    /// not.
    #[must_use]
    pub fn decide(
        &self,
        query: &Query,
        route: Option<RouteChoice>,
        accelerated: impl Fn(u32, Address) -> Result<(), Reason>,
    ) -> PathDecision {
        let mut path = PathInfo { query: *query, source: query.source, ..PathInfo::default() };
        let kernel = |path, reason| PathDecision::Final(refused(path, PathState::Kernel, reason));
        let is_group = query.destination.is_multicast();
        let Some(route) = route else {
            // The kernel may send to a group by the interface that the socket names, without a
            // route. Wine 8 lists no routes of IPv6, but the kernel has some.
            let is_kernels = is_group || !self.lists_routes(query.destination.family());
            let state = if is_kernels { PathState::Kernel } else { PathState::Unreachable };
            return PathDecision::Final(refused(path, state, Reason::NoRoute));
        };
        path.interface = route.interface;
        let Some(interface) = self.interface(route.interface) else { return kernel(path, Reason::Interface) };
        if interface.is_loopback() {
            return kernel(path, Reason::Loopback);
        }
        let Some(source) = route.source else { return kernel(path, Reason::Source) };
        path.source = source;
        let family = query.destination.family();
        let settings = interface.settings(family).filter(|settings| settings.mtu >= minimum_mtu(family));
        let (Some(settings), Some(mac)) = (settings, interface.ethernet()) else {
            return kernel(path, Reason::Interface);
        };
        if let Err(reason) = accelerated(route.interface, source) {
            return kernel(path, reason);
        }
        path.mtu = settings.mtu;
        path.source_mac = mac;
        // A query from this address selects among the routes of this interface, where this one is
        // the best. With an address of another interface it may be another route.
        let is_of_interface = self.owners(source).any(|own| own.interface == route.interface);
        if query.source.is_unspecified() && is_of_interface {
            path.chosen = source;
        }
        if is_group {
            path.next_hop_mac = query.destination.multicast_mac();
            path.state = PathState::Ready;
            return PathDecision::Final(ResolvedPath { path, next_hop: None, reason: Reason::None });
        }
        PathDecision::Neighbour { hop: route.gateway.unwrap_or(query.destination), path }
    }

    fn lists_routes(&self, family: Family) -> bool {
        self.routes().iter().any(|route| route.destination.first().family() == family)
    }

    fn is_subnet_broadcast(&self, destination: Address) -> bool {
        self.addresses().iter().any(|own| own.broadcast() == Some(destination))
    }
}

fn refused(path: PathInfo, state: PathState, reason: Reason) -> ResolvedPath {
    ResolvedPath { path: PathInfo { state, ..path }, next_hop: None, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{FamilySettings, HostInterface, InterfaceKind};
    use crate::tables::testing::{address, ethernet, own, route, two_cards};
    use tickwire_stack::addr::Mac;

    fn to(text: &str) -> Query {
        Query::to(address(text))
    }

    fn decision(tables: &HostTables, query: Query) -> PathDecision {
        match tables.without_route(&query) {
            Some(answer) => PathDecision::Final(answer),
            None => tables.decide(&query, tables.best_route(&query), |_, _| Ok(())),
        }
    }

    #[track_caller]
    fn refusal(tables: &HostTables, query: Query) -> (PathState, Reason) {
        match decision(tables, query) {
            PathDecision::Final(answer) => (answer.path.state, answer.reason),
            PathDecision::Neighbour { .. } => panic!("expected a final answer"),
        }
    }

    #[test]
    fn destinations_of_the_host_itself_and_broadcasts_are_the_kernels() {
        let tables = two_cards();
        for (destination, reason) in [
            ("0.0.0.0", Reason::Loopback),
            ("::", Reason::Loopback),
            ("127.3.2.1", Reason::Loopback),
            ("::1", Reason::Loopback),
            ("10.0.0.1", Reason::Loopback),
            ("fe80::6", Reason::Loopback),
            ("255.255.255.255", Reason::Broadcast),
            ("192.168.7.255", Reason::Broadcast),
        ] {
            assert_eq!(refusal(&tables, to(destination)), (PathState::Kernel, reason), "{destination}");
        }
    }

    #[test]
    fn foreign_and_loopback_sources_are_the_kernels() {
        let tables = two_cards();
        let from = |source| to("10.0.0.9").from(address(source));
        assert_eq!(refusal(&tables, from("10.0.0.7")), (PathState::Kernel, Reason::Address));
        assert_eq!(refusal(&tables, from("127.0.0.1")), (PathState::Kernel, Reason::BoundLoopback));
    }

    #[test]
    fn without_a_route_a_destination_is_unreachable() {
        let tables = HostTables::new([ethernet(5, 1)], [own(5, "10.0.0.1", 24)], [route("10.0.0.0/24", 5, None, 1)]);
        assert_eq!(refusal(&tables, to("10.0.1.1")), (PathState::Unreachable, Reason::NoRoute));
        assert_eq!(refusal(&tables, to("239.1.1.1")), (PathState::Kernel, Reason::NoRoute));
        let unlisted = refusal(&tables, to("2001:db8::1"));
        assert_eq!(unlisted, (PathState::Kernel, Reason::NoRoute), "no route of the family is listed");
    }

    #[test]
    fn interfaces_without_ethernet_family_or_mtu_are_the_kernels() {
        let tables = two_cards();
        let with = |change: fn(&mut HostInterface)| {
            let mut interfaces = tables.interfaces().to_vec();
            change(interfaces.iter_mut().find(|interface| interface.index == 5).unwrap());
            HostTables::new(interfaces, tables.addresses().to_vec(), tables.routes().to_vec())
        };
        let changes: [fn(&mut HostInterface); 3] = [
            |interface| interface.kind = InterfaceKind::Other(131),
            |interface| interface.mac = None,
            |interface| interface.v4 = Some(FamilySettings { mtu: 67, metric: 1, weak_host_send: false }),
        ];
        for change in changes {
            assert_eq!(refusal(&with(change), to("10.0.0.9")), (PathState::Kernel, Reason::Interface));
        }
        let query = to("10.0.0.9");
        let unknown = RouteChoice { interface: 99, gateway: None, source: Some(address("10.0.0.1")) };
        match tables.decide(&query, Some(unknown), |_, _| Ok(())) {
            PathDecision::Final(answer) => assert_eq!(answer.reason, Reason::Interface),
            PathDecision::Neighbour { .. } => panic!("an unknown interface"),
        }
    }

    #[test]
    fn the_service_may_refuse_interface_and_source() {
        let tables = two_cards();
        let query = to("10.0.0.9");
        let ask = |interface: u32, source: Address| {
            assert_eq!((interface, source), (5, address("10.0.0.1")));
            Err(Reason::Interface)
        };
        match tables.decide(&query, tables.best_route(&query), ask) {
            PathDecision::Final(answer) => assert_eq!(answer.reason, Reason::Interface),
            PathDecision::Neighbour { .. } => panic!("not accelerated"),
        }
    }

    #[test]
    fn the_next_hop_is_the_router_or_the_destination_on_the_link() {
        let tables = two_cards();
        for (destination, next) in [("8.8.8.8", "10.0.0.254"), ("10.0.0.9", "10.0.0.9")] {
            match decision(&tables, to(destination)) {
                PathDecision::Neighbour { hop, path } => {
                    assert_eq!(hop, address(next));
                    assert_eq!((path.interface, path.mtu, path.source_mac), (5, 1500, Mac([2, 0, 0, 0, 0, 5])));
                    assert_eq!((path.source, path.chosen), (address("10.0.0.1"), address("10.0.0.1")));
                }
                PathDecision::Final(answer) => panic!("{answer:?}"),
            }
        }
    }

    #[test]
    fn a_source_that_the_query_names_was_not_chosen() {
        match decision(&two_cards(), to("10.0.0.9").from(address("10.0.0.1"))) {
            PathDecision::Neighbour { path, .. } => {
                assert_eq!((path.source, path.chosen), (address("10.0.0.1"), Address::ANY));
            }
            PathDecision::Final(answer) => panic!("{answer:?}"),
        }
    }

    #[test]
    fn groups_need_no_neighbour() {
        match decision(&two_cards(), to("239.129.2.3").by(6)) {
            PathDecision::Final(answer) => {
                assert_eq!((answer.path.state, answer.reason), (PathState::Ready, Reason::None));
                assert_eq!(answer.path.next_hop_mac, Mac([1, 0, 0x5e, 1, 2, 3]));
                assert_eq!((answer.path.interface, answer.path.source), (6, address("192.168.7.1")));
            }
            PathDecision::Neighbour { .. } => panic!("a group has no neighbour"),
        }
    }
}
