use super::*;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{Owned, OwnedKey, Protocol, Tables};

const HERE: Address = Address::v4([10, 0, 0, 1]);
const THERE: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 9000);

fn udp(address: Address, port: u16) -> Bound {
    Bound { protocol: Protocol::Udp, local: Endpoint::new(address, port), dual: false, shares: false, reuses: false }
}

fn key(bound: &Bound) -> PortKey {
    PortKey { protocol: bound.protocol, local: bound.local }
}

#[test]
fn a_claim_diverts_and_owns_and_its_release_undoes_both() {
    let mut registry = Registry::default();
    let bound = udp(HERE, 53);
    let (id, changes) = registry.claim_bound(1, bound).unwrap();
    assert_eq!(
        changes,
        [
            TableChange::Owned { lane: 1, key: key(&bound), before: None, after: Some(Share::Whole) },
            TableChange::Port { key: key(&bound), before: vec![], after: vec![1] },
        ]
    );
    assert!(registry.owns(1, Protocol::Udp, bound.local, THERE));
    assert!(
        !registry.owns(1, Protocol::Tcp, bound.local, THERE) && !registry.owns(2, Protocol::Udp, bound.local, THERE)
    );
    let undone = registry.release(1, id).unwrap();
    assert_eq!(undone.len(), 2);
    assert!(changes.into_iter().map(TableChange::inverse).all(|c| undone.contains(&c)));
    assert!(registry.claims.is_empty() && registry.owned.is_empty() && registry.ports.is_empty());
    assert_eq!(registry.release(1, id), Err(Conflict::Unknown));
}

#[test]
fn a_dual_stack_socket_is_entered_for_both_families() {
    let mut registry = Registry::default();
    let (id, changes) = registry.claim_bound(1, Bound { dual: true, ..udp(Address::ANY, 53) }).unwrap();
    let ports = changes.iter().filter(|c| matches!(c, TableChange::Port { .. })).count();
    assert_eq!(ports, 2);
    assert!(registry.owns(1, Protocol::Udp, Endpoint::new(HERE, 53), THERE));
    assert!(registry.owns(1, Protocol::Udp, Endpoint::new(Address([0xfd; 16]), 53), THERE));
    registry.release(1, id).unwrap();
    registry.claim_bound(1, udp(Address::ANY, 53)).unwrap();
    assert!(!registry.owns(1, Protocol::Udp, Endpoint::new(HERE, 53), THERE), "IPV6_V6ONLY");
}

#[test]
fn the_claims_of_a_lane_are_told_one_by_one() {
    let mut registry = Registry::default();
    let mut claim = |lane, port| registry.claim_bound(lane, udp(HERE, port)).unwrap().0;
    let ids = [claim(1, 53), claim(2, 54), claim(1, 55)];
    assert_eq!(registry.next_of_lane(1, 0), Some(ids[0]));
    assert_eq!(registry.next_of_lane(1, ids[0]), Some(ids[2]));
    assert_eq!(registry.next_of_lane(1, ids[2]), None);
    assert_eq!(registry.next_of_lane(2, ids[0]), Some(ids[1]));
    assert_eq!(registry.next_of_lane(2, u64::MAX), None);
}

#[test]
fn a_claim_of_any_address_is_one_of_a_single_one_for_a_while() {
    let mut registry = Registry::default();
    let bound = Bound { dual: true, ..udp(Address::ANY, 53) };
    let (id, _) = registry.claim_bound(1, bound).unwrap();
    let mut held = |address| {
        registry.cover(1, id, address).unwrap();
        let at = [HERE, Address::ANY_V4, Address::ANY];
        at.map(|a| registry.holders(PortKey { protocol: Protocol::Udp, local: Endpoint::new(a, 53) }).len())
    };
    assert_eq!(held(HERE), [1, 0, 0]);
    assert_eq!(held(Address::ANY), [0, 1, 1]);
    assert_eq!(held(HERE), [1, 0, 0]);
    let (other, _) = registry.claim_bound(2, udp(Address::ANY, 53)).expect("it is free");
    assert_eq!(registry.cover(1, id, Address::ANY).unwrap_err(), Conflict::Port);
    assert_eq!(registry.entries_of(id), 1, "it keeps what it had");
    registry.release(2, other).unwrap();
    registry.release(1, id).unwrap();
    assert!(registry.ports.is_empty() && registry.owned.is_empty());
}

#[test]
fn another_lane_is_refused_unless_both_share() {
    let mut registry = Registry::default();
    let sharing = Bound { shares: true, ..udp(HERE, 53) };
    registry.claim_bound(1, udp(HERE, 53)).unwrap();
    assert_eq!(registry.claim_bound(2, sharing).unwrap_err(), Conflict::Port);
    registry.claim_bound(1, udp(HERE, 53)).expect("the same lane may: its stack sorts it out");

    let mut registry = Registry::default();
    for lane in 1..=8 {
        let (_, changes) = registry.claim_bound(lane, sharing).unwrap();
        assert!(matches!(&changes[1], TableChange::Port { after, .. } if after.len() == lane as usize));
    }
    assert_eq!(registry.claim_bound(9, sharing).unwrap_err(), Conflict::TooManySharing);
    assert_eq!(registry.claim_bound(9, udp(HERE, 53)).unwrap_err(), Conflict::Port);
}

#[test]
fn with_reuseaddr_unicast_goes_to_the_last_that_bound() {
    let mut registry = Registry::default();
    let bound = Bound { reuses: true, ..udp(Address::ANY_V4, 5000) };
    registry.claim_bound(1, bound).unwrap();
    let (second, changes) = registry.claim_bound(2, bound).unwrap();
    assert_eq!(changes[1], TableChange::Port { key: key(&bound), before: vec![1], after: vec![2] });
    assert!(registry.owns(1, Protocol::Udp, bound.local, THERE), "both still send");
    let changes = registry.release(2, second).unwrap();
    assert!(changes.contains(&TableChange::Port { key: key(&bound), before: vec![2], after: vec![1] }));
}

#[test]
fn a_socket_bound_to_a_group_sends_from_any_address() {
    let mut registry = Registry::default();
    registry.claim_bound(1, udp(Address::v4([239, 1, 1, 1]), 5000)).unwrap();
    assert!(registry.owns(1, Protocol::Udp, Endpoint::new(HERE, 5000), THERE));
}

#[test]
fn connections_that_the_kernel_has_stay_with_it() {
    let mut registry = Registry::default();
    let listener = Bound { protocol: Protocol::Tcp, dual: true, ..udp(Address::ANY, 80) };
    let (id, _) = registry.claim_bound(1, listener).unwrap();
    let (here, elsewhere) = (Endpoint::new(HERE, 80), Endpoint::new(HERE, 81));
    let changes = registry.except(1, id, &[(here, THERE), (here, THERE), (elsewhere, THERE)]).unwrap();
    let key = FlowKey { protocol: Protocol::Tcp, local: here, remote: THERE };
    assert_eq!(changes, [TableChange::Flow { key, before: None, after: Some(FlowOwner::Kernel) }]);
    let (exceptions, last) = registry.some_flows(None, 8);
    assert_eq!((exceptions[0].key, exceptions.len(), last), (key, 1, None));
    let bound = Bound { local: here, dual: false, ..listener };
    assert_eq!(registry.claim_flow(1, bound, THERE).unwrap_err(), Conflict::Flow);
    assert_eq!(registry.release_flows(1, id, THERE).unwrap(), [], "not the program's to release");
    assert!(registry.pin(1, id, &[key]).is_empty() && registry.unpin(1, id, &key).is_empty());
    let undone = registry.release(1, id).unwrap();
    assert!(undone.contains(&TableChange::Flow { key, before: Some(FlowOwner::Kernel), after: None }));
    assert!(registry.flows.is_empty());
}

#[test]
fn an_exception_is_every_claims_and_lasts_until_it_is_not_seen_any_more() {
    let mut registry = Registry::default();
    let sharing = Bound { protocol: Protocol::Tcp, shares: true, ..udp(HERE, 80) };
    let ends = (sharing.local, THERE);
    let claims = [1, 2].map(|lane| registry.claim_bound(lane, sharing).unwrap().0);
    assert_eq!(registry.except(1, claims[0], &[ends]).unwrap().len(), 1);
    assert_eq!(registry.except(2, claims[1], &[ends]).unwrap(), [], "the maps know it already");
    assert_eq!(registry.entries_of(claims[1]), 2);
    let (before, _) = registry.some_flows(None, 8);
    let flows = |changes: &[TableChange]| changes.iter().filter(|c| matches!(c, TableChange::Flow { .. })).count();
    assert_eq!(flows(&registry.release(1, claims[0]).unwrap()), 0, "the other lane keeps the port");
    registry.except(2, claims[1], &[ends]).unwrap();
    assert_eq!(registry.forget_flow(&before[0]), (vec![], vec![]), "it was seen since");
    let (now, last) = registry.some_flows(None, 1);
    assert_eq!(registry.some_flows(last, 1), (vec![], None));
    let (told, changes) = registry.forget_flow(&now[0]);
    assert_eq!((told, flows(&changes)), (vec![claims[1]], 1));
    assert!(registry.flows.is_empty() && registry.entries_of(claims[1]) == 1);
}

#[test]
fn exceptions_end_with_the_kernels_connections_however_many_there_are() {
    let mut registry = Registry::default();
    let listener = Bound { protocol: Protocol::Tcp, ..udp(HERE, 80) };
    let (claim, _) = registry.claim_bound(1, listener).unwrap();
    let left: Vec<_> = (1..=u16::MAX).map(|port| (listener.local, Endpoint { port, ..THERE })).collect();
    assert_eq!(registry.except(1, claim, &left).unwrap().len(), left.len());
    assert_eq!(registry.excepting(), [(1, claim)]);
    let ended = registry.retain_exceptions(1, claim, |_, remote| remote.port <= 2).unwrap();
    assert_eq!((ended.len(), registry.entries_of(claim)), (left.len() - 2, 3));
    assert_eq!(registry.retain_exceptions(1, claim, |_, _| false).unwrap().len(), 2);
    assert!(registry.excepting().is_empty() && registry.flows.is_empty());
    assert_eq!(registry.retain_exceptions(2, claim, |_, _| false), Err(Conflict::Unknown), "another lane's");
}

#[test]
fn a_closed_listener_keeps_what_was_pinned_and_has_nothing_of_the_kernels() {
    let mut registry = Registry::default();
    let listener = Bound { protocol: Protocol::Tcp, ..udp(HERE, 80) };
    let (id, _) = registry.claim_bound(1, listener).unwrap();
    let key = FlowKey { protocol: Protocol::Tcp, local: listener.local, remote: THERE };
    let other = Endpoint::new(THERE.address, 9001);
    registry.pin(1, id, &[key]);
    registry.except(1, id, &[(listener.local, other)]).unwrap();
    let changes = registry.convert(1, id, &[key, FlowKey { remote: other, ..key }]).unwrap();
    let of_key = |change: &TableChange| matches!(change, TableChange::Flow { key: changed, .. } if *changed == key);
    assert!(!changes.iter().any(of_key), "it is entered already");
    assert!(registry.holds_flow(1, &key) && registry.flows.len() == 1);
}

#[test]
fn a_flow_gives_no_right_to_the_rest_of_its_port() {
    let mut registry = Registry::default();
    let bound = Bound { protocol: Protocol::Tcp, ..udp(HERE, 40000) };
    let (first, changes) = registry.claim_flow(1, bound, THERE).unwrap();
    let owned = |before, after| TableChange::Owned { lane: 1, key: key(&bound), before, after };
    assert_eq!(changes[0], owned(None, Some(Share::One(THERE))));
    let other = Endpoint::new(THERE.address, 9001);
    assert!(registry.owns(1, Protocol::Tcp, bound.local, THERE));
    assert!(!registry.owns(1, Protocol::Tcp, bound.local, other));
    let (second, changes) = registry.claim_flow(1, bound, other).unwrap();
    assert_eq!(changes[0], owned(Some(Share::One(THERE)), Some(Share::Flows)));
    assert!(registry.owns(1, Protocol::Tcp, bound.local, other));
    assert!(registry.release(1, first).unwrap().contains(&owned(Some(Share::Flows), Some(Share::One(other)))));
    assert!(!registry.owns(1, Protocol::Tcp, bound.local, THERE));
    assert!(registry.release(1, second).unwrap().contains(&owned(Some(Share::One(other)), None)));
    assert!(registry.owned.is_empty());
}

#[test]
fn a_flow_has_one_lane() {
    let mut registry = Registry::default();
    let bound = Bound { protocol: Protocol::Tcp, ..udp(HERE, 40000) };
    let (first, _) = registry.claim_flow(1, bound, THERE).unwrap();
    assert_eq!(registry.claim_flow(2, bound, THERE).unwrap_err(), Conflict::Flow);
    let (second, changes) = registry.claim_flow(1, bound, THERE).unwrap();
    assert!(changes.is_empty(), "the maps know it already");
    assert!(registry.release(1, first).unwrap().is_empty(), "still claimed once");
    assert_eq!(registry.release(1, second).unwrap().len(), 2);
    registry.claim_flow(2, bound, THERE).unwrap();
}

#[test]
fn a_closed_listener_keeps_its_connections_only() {
    let mut registry = Registry::default();
    let listener = Bound { protocol: Protocol::Tcp, ..udp(Address::ANY_V4, 80) };
    let (id, _) = registry.claim_bound(1, listener).unwrap();
    assert_eq!(registry.convert(2, id, &[]), Err(Conflict::Unknown), "not that lane's");
    let local = Endpoint::new(HERE, 80);
    let flow = FlowKey { protocol: Protocol::Tcp, local, remote: THERE };
    let elsewhere = FlowKey { local: Endpoint::new(Address([0xfd; 16]), 80), ..flow };
    let changes = registry.convert(1, id, &[flow, elsewhere]).unwrap();
    assert_eq!(
        changes,
        [
            TableChange::Flow { key: flow, before: None, after: Some(FlowOwner::Lane(1)) },
            TableChange::Port { key: key(&listener), before: vec![1], after: vec![] },
            TableChange::Owned { lane: 1, key: key(&listener), before: Some(Share::Whole), after: Some(Share::Flows) },
        ],
        "an IPv4 listener has no IPv6 connections"
    );
    assert!(registry.owns(1, Protocol::Tcp, local, THERE), "the live connection still sends");
    let other = Endpoint::new(THERE.address, 9001);
    assert!(!registry.owns(1, Protocol::Tcp, local, other), "but nothing else does");
    registry.claim_bound(2, listener).expect("a new server may listen");
    let closed = registry.release_flows(1, id, THERE).unwrap();
    assert!(matches!(closed[..], [TableChange::Flow { after: None, .. }]));
    registry.convert(1, id, &[flow]).unwrap();
    assert_eq!(registry.release(1, id).unwrap().len(), 2);
    assert!(!registry.owns(1, Protocol::Tcp, local, THERE));
}

#[test]
fn plain_tables_follow_every_change_and_its_inverse() {
    let mut registry = Registry::default();
    let mut tables = Tables::default();
    let bound = udp(HERE, 53);
    let tcp = Bound { protocol: Protocol::Tcp, ..udp(HERE, 80) };
    let apply = |tables: &mut Tables, changes: &[TableChange]| changes.iter().for_each(|change| change.apply(tables));
    let (port, changes) = registry.claim_bound(1, bound).unwrap();
    apply(&mut tables, &changes);
    let (_, further) = registry.claim_flow(1, tcp, THERE).unwrap();
    apply(&mut tables, &further);
    assert_eq!(tables.ports[&key(&bound)].lanes, [1]);
    let owned = |bound: &Bound| OwnedKey { lane: 1, protocol: bound.protocol, local: bound.local };
    assert_eq!(tables.owned[&owned(&bound)], Owned::Whole);
    assert_eq!(tables.owned[&owned(&tcp)], Owned::One(THERE));
    let flow = FlowKey { protocol: Protocol::Tcp, local: tcp.local, remote: THERE };
    assert_eq!(tables.flows[&flow].owner, Some(1));
    let with_both = tables.clone();
    apply(&mut tables, &registry.release(1, port).unwrap());
    assert!(tables.ports.is_empty() && tables.owned.len() == 1);
    apply(&mut tables, &changes);
    assert_eq!(format!("{tables:?}"), format!("{with_both:?}"));
    for change in further.into_iter().chain(changes) {
        change.inverse().apply(&mut tables);
    }
    assert_eq!(format!("{tables:?}"), format!("{:?}", Tables::default()));
}
