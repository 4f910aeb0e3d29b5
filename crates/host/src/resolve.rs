//! How to reach a destination: route and neighbour together, and the reason if a lane cannot.

use crate::RouteNetlink;
use crate::neighbour::{Neighbour, Reachability};
use crate::route::{Route, RouteKind, RouteQuery};
use tickwire_stack::addr::{Address, Family, Mac};
use tickwire_stack::path::{PathInfo, PathState, Query};

/// What a path has to know of an accelerated interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its MTU, in bytes.
    pub mtu: u32,
}

/// Why a lane cannot use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRefusal {
    /// The destination is this host itself.
    Loopback,
    /// A broadcast: sent by the kernel, which also receives it.
    Broadcast,
    /// The route uses an interface that is not accelerated (its index).
    Interface(u32),
    /// Lanes cannot send from this source address on that interface.
    Source,
    /// There is no route.
    NoRoute,
    /// The neighbour does not answer.
    NoNeighbour,
}

/// The host's answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The path for the stack.
    pub path: PathInfo,
    /// The neighbour to which the packets go (router or destination); `None` for groups and paths
    /// of the kernel.
    pub next_hop: Option<Address>,
    /// Why a lane cannot use it, if it cannot.
    pub why: Option<PathRefusal>,
}

/// The decision on a route: either final, or a neighbour to look up.
enum Step {
    Final(Answer),
    Neighbour { hop: Address, path: PathInfo },
}

fn kernel(path: PathInfo, state: PathState, why: PathRefusal) -> Step {
    Step::Final(Answer { path: PathInfo { state, ..path }, next_hop: None, why: Some(why) })
}

fn decide(query: &Query, route: &Route, nic: Result<Nic, PathRefusal>) -> Step {
    let mut path = PathInfo {
        query: *query,
        source: route.source.unwrap_or(query.source),
        interface: route.interface,
        metrics: route.metrics,
        ..PathInfo::default()
    };
    match route.kind {
        // To a group the kernel also sends through the interface that the socket names, without any
        // route.
        RouteKind::Unreachable if query.destination.is_multicast() => {
            return kernel(path, PathState::Kernel, PathRefusal::NoRoute);
        }
        RouteKind::Unreachable => return kernel(path, PathState::Unreachable, PathRefusal::NoRoute),
        RouteKind::Local => return kernel(path, PathState::Kernel, PathRefusal::Loopback),
        RouteKind::Broadcast => return kernel(path, PathState::Kernel, PathRefusal::Broadcast),
        RouteKind::Unicast | RouteKind::Multicast => {}
    }
    let nic = match nic {
        Ok(nic) => nic,
        Err(why) => return kernel(path, PathState::Kernel, why),
    };
    path.mtu = route.mtu.map_or(nic.mtu, |mtu| mtu.min(nic.mtu));
    path.source_mac = nic.mac;
    if query.destination.is_multicast() {
        path.next_hop_mac = query.destination.multicast_mac();
        path.state = PathState::Ready;
        return Step::Final(Answer { path, next_hop: None, why: None });
    }
    Step::Neighbour { hop: route.gateway.unwrap_or(query.destination), path }
}

/// Enters a neighbour's state into a path: the path's state and next hop.
pub fn apply_neighbour(path: &mut PathInfo, neighbour: Option<&Neighbour>) {
    match neighbour.map(|n| (n.usable(), n.state)) {
        Some((Some(mac), _)) => {
            path.next_hop_mac = mac;
            path.state = PathState::Ready;
        }
        Some((None, Reachability::Failed)) => path.state = PathState::Unreachable,
        _ => path.state = PathState::Resolving,
    }
}

impl RouteNetlink {
    /// Finds out how to reach a destination. `accelerated` returns for an interface and a source
    /// address whether lanes can use them, or why not. For an unknown or stale neighbour this
    /// triggers resolution, so that an event will follow.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn resolve(
        &mut self,
        query: &Query,
        accelerated: impl Fn(u32, Address) -> Result<Nic, PathRefusal>,
    ) -> crate::error::Result<Answer> {
        if query.destination.is_limited_broadcast() || query.destination.is_unspecified() {
            let path = PathInfo { query: *query, state: PathState::Kernel, ..PathInfo::default() };
            let why = if query.destination.is_unspecified() { PathRefusal::Loopback } else { PathRefusal::Broadcast };
            return Ok(Answer { path, next_hop: None, why: Some(why) });
        }
        let source = Some(query.source).filter(|s| !s.is_unspecified());
        let &Query { destination, interface, tos, .. } = query;
        let route = RouteQuery { source, interface, tos, ..RouteQuery::to(destination) };
        let route = self.route(&route)?;
        let from = if query.source.is_unspecified() { route.source.unwrap_or(Address::ANY) } else { query.source };
        match decide(query, &route, accelerated(route.interface, from)) {
            Step::Final(answer) => Ok(answer),
            Step::Neighbour { hop, mut path } => {
                let known = self.neighbour(path.interface, hop)?;
                // A failed entry is tried again, because there is a new request for it.
                let known = known.filter(|n| n.state != Reachability::Failed);
                if known.is_none_or(|n| n.state != Reachability::Fresh) {
                    self.probe(path.interface, hop)?;
                }
                // A second lookup finds static entries, and those that the kernel resolves at once.
                let known = if known.is_none() { self.neighbour(path.interface, hop)? } else { known };
                apply_neighbour(&mut path, known.as_ref());
                Ok(Answer { path, next_hop: Some(hop), why: None })
            }
        }
    }
}

/// The smallest MTU a family allows (RFC 791, RFC 8200 §5); a smaller one on an interface means
/// that the family is disabled there.
#[must_use]
pub const fn minimum_mtu(family: Family) -> u32 {
    match family {
        Family::V4 => 68,
        Family::V6 => 1280,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::path::Metrics;

    const NIC: Nic = Nic { mac: Mac([2, 0, 0, 0, 0, 1]), mtu: 1500 };
    const THERE: Address = Address::v4([10, 0, 0, 2]);

    fn route(kind: RouteKind) -> Route {
        Route {
            kind,
            interface: 5,
            gateway: None,
            source: Some(Address::v4([10, 0, 0, 1])),
            mtu: None,
            metrics: Metrics::default(),
        }
    }

    fn query(destination: Address) -> Query {
        Query::to(destination)
    }

    fn final_answer(step: Step) -> Answer {
        match step {
            Step::Final(answer) => answer,
            Step::Neighbour { .. } => panic!("expected a final answer"),
        }
    }

    #[test]
    fn what_a_lane_cannot_reach_goes_to_the_kernel_with_a_reason() {
        for (kind, nic, state, why) in [
            (RouteKind::Local, Ok(NIC), PathState::Kernel, PathRefusal::Loopback),
            (RouteKind::Broadcast, Ok(NIC), PathState::Kernel, PathRefusal::Broadcast),
            (RouteKind::Unicast, Err(PathRefusal::Interface(5)), PathState::Kernel, PathRefusal::Interface(5)),
            (RouteKind::Unicast, Err(PathRefusal::Source), PathState::Kernel, PathRefusal::Source),
            (RouteKind::Unreachable, Ok(NIC), PathState::Unreachable, PathRefusal::NoRoute),
        ] {
            let answer = final_answer(decide(&query(THERE), &route(kind), nic));
            assert_eq!((answer.path.state, answer.why), (state, Some(why)));
        }
    }

    #[test]
    fn groups_need_no_neighbour() {
        let group = Address::v4([239, 129, 2, 3]);
        let answer = final_answer(decide(&query(group), &route(RouteKind::Multicast), Ok(NIC)));
        assert_eq!(answer.path.state, PathState::Ready);
        assert_eq!(answer.path.next_hop_mac, Mac([0x01, 0, 0x5e, 1, 2, 3]));
    }

    #[test]
    fn the_router_is_the_next_hop_and_the_smaller_mtu_counts() {
        let gateway = Address::v4([10, 0, 0, 254]);
        let via = Route { gateway: Some(gateway), mtu: Some(1400), ..route(RouteKind::Unicast) };
        match decide(&query(Address::v4([192, 0, 2, 1])), &via, Ok(NIC)) {
            Step::Neighbour { hop, path } => {
                assert_eq!((hop, path.mtu), (gateway, 1400));
                assert_eq!(path.source_mac, NIC.mac);
            }
            Step::Final(_) => panic!("a neighbour is needed"),
        }
    }

    #[test]
    fn neighbour_states_become_path_states() {
        let mut path = PathInfo::default();
        apply_neighbour(&mut path, None);
        assert_eq!(path.state, PathState::Resolving);
        let mut neighbour =
            Neighbour { interface: 5, address: THERE, mac: Some(Mac([2; 6])), state: Reachability::Stale };
        apply_neighbour(&mut path, Some(&neighbour));
        assert_eq!((path.state, path.next_hop_mac), (PathState::Ready, Mac([2; 6])));
        neighbour.state = Reachability::Failed;
        apply_neighbour(&mut path, Some(&neighbour));
        assert_eq!(path.state, PathState::Unreachable);
    }
}
