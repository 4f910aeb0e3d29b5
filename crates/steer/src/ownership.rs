//! Which ports a lane may send from. A port may have connections of several programs, and of the
//! kernel: a lane owns all of it, or what goes to certain remote ends.

use crate::parse::Packet;
use crate::tables::{FlowKey, LaneNumber, Owned, OwnedKey, Tables, any_address};
use tickwire_stack::addr::Endpoint;

/// The flow of a packet that a lane sends.
pub(crate) const fn flow_of(packet: &Packet) -> FlowKey {
    FlowKey { protocol: packet.protocol, local: packet.source(), remote: packet.destination() }
}

/// Whether a lane may send a packet from its source port: the port of the address, or of any.
pub(crate) fn owns(tables: &Tables, lane: LaneNumber, packet: &Packet) -> bool {
    let (protocol, source) = (packet.protocol, packet.source());
    let any = Endpoint::new(any_address(source.address), source.port);
    [source, any].into_iter().any(|local| {
        let owned = tables.owned.get(&OwnedKey { lane, protocol, local });
        owned.is_some_and(|owned| covers(tables, lane, owned, packet))
    })
}

fn covers(tables: &Tables, lane: LaneNumber, owned: &Owned, packet: &Packet) -> bool {
    match owned {
        Owned::Whole => true,
        Owned::One(remote) => *remote == packet.destination(),
        Owned::Flows => tables.flows.get(&flow_of(packet)).is_some_and(|flow| flow.owner == Some(lane)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse};
    use crate::tables::{Flow, Protocol};
    use crate::testing::{HERE, PEER, ends, udp};
    use tickwire_stack::addr::Address;

    fn packet(port: u16, remote: u16) -> Packet {
        let Parsed::Found(packet) = parse(&udp(ends(HERE, port), ends(PEER, remote), 8)) else { panic!() };
        packet
    }

    #[test]
    fn a_share_covers_its_remote_ends_only() {
        let mut tables = Tables::default();
        let key = |address, port| OwnedKey { lane: 77, protocol: Protocol::Udp, local: ends(address, port) };
        tables.owned.insert(key(HERE, 7), Owned::Whole);
        tables.owned.insert(key(Address::ANY_V4, 8), Owned::One(ends(PEER, 5)));
        tables.owned.insert(key(HERE, 9), Owned::Flows);
        tables.flows.insert(flow_of(&packet(9, 5)), Flow::new(Some(77)));
        tables.flows.insert(flow_of(&packet(9, 6)), Flow::new(Some(78)));
        let owned = |port, remote| owns(&tables, 77, &packet(port, remote));
        assert!(owned(7, 5) && owned(7, 6) && !owned(6, 5));
        assert!(owned(8, 5) && !owned(8, 6));
        assert!(owned(9, 5) && !owned(9, 6) && !owned(9, 7));
        assert!(!owns(&tables, 78, &packet(7, 5)), "another lane's");
    }
}
