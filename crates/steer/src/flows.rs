//! Which lane claimed a packet: the exact flow first, then the bound port, with the address or any.

use crate::handshake::{Kernel, is_listeners};
use crate::segment::{Role, Segment};
use crate::sharing;
use crate::tables::{FlowKey, Handshake, LaneNumber, PortKey, Tables, any_address};
use tickwire_stack::addr::Endpoint;

/// The lane that claimed a flow's packet; `None`: it is the kernel's.
pub(crate) fn lane_of(
    tables: &mut Tables,
    flow: &FlowKey,
    segment: &Segment,
    kernel: &dyn Kernel,
) -> Option<LaneNumber> {
    let held = tables.flows.get(flow).copied();
    let holder = held.and_then(|held| held.owner);
    if let Some(held) = held {
        // The usual case: nothing has been opened between these ends.
        let is_quiet = segment.role != Role::Opens && held.handshake == Handshake::None;
        if holder.is_none() || is_quiet {
            return holder;
        }
    }
    let listener = listener(tables, flow, segment.role);
    let is_holders =
        held.is_some() && (listener == holder || !is_listeners(&mut tables.flows, flow, segment, listener, kernel));
    if is_holders { holder } else { listener }
}

/// The lane that has the port of a flow's local end.
fn listener(tables: &mut Tables, flow: &FlowKey, role: Role) -> Option<LaneNumber> {
    let FlowKey { protocol, local, .. } = *flow;
    let any = Endpoint::new(any_address(local.address), local.port);
    let share = [local, any].into_iter().find_map(|local| tables.ports.get(&PortKey { protocol, local }))?;
    sharing::lane_of(share, &mut tables.handshakes, flow, role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::KernelSocket;
    use crate::tables::{Flow, PortShare, Protocol};
    use crate::testing::{HERE, NoSockets, PEER, Sockets, ends};
    use alloc::vec;
    use tickwire_stack::addr::Address;

    const FLOW: FlowKey = FlowKey { protocol: Protocol::Udp, local: ends(HERE, 7), remote: ends(PEER, 5) };

    fn port(protocol: Protocol, local: Endpoint, lane: LaneNumber) -> (PortKey, PortShare) {
        (PortKey { protocol, local }, PortShare { lanes: vec![lane], settled: 1 })
    }

    #[test]
    fn the_flow_is_before_the_port_and_the_address_before_any() {
        let mut tables = Tables::default();
        let lane = |tables: &mut Tables| lane_of(tables, &FLOW, &Segment::default(), &NoSockets);
        assert_eq!(lane(&mut tables), None);
        let udp = |address, lane| port(Protocol::Udp, ends(address, 7), lane);
        tables.ports.extend([udp(Address::ANY_V4, 77), udp(Address::ANY, 70)]);
        assert_eq!(lane(&mut tables), Some(77));
        tables.ports.extend([udp(HERE, 78)]);
        assert_eq!(lane(&mut tables), Some(78));
        tables.flows.insert(FLOW, Flow::new(Some(79)));
        assert_eq!(lane(&mut tables), Some(79));
        tables.flows.insert(FLOW, Flow::new(None));
        assert_eq!(lane(&mut tables), None, "the kernel's connection at a claimed port");
    }

    #[test]
    fn a_segment_that_opens_goes_to_the_listener_and_others_to_the_flow() {
        let flow = FlowKey { protocol: Protocol::Tcp, ..FLOW };
        let mut tables = Tables { flows: [(flow, Flow::new(Some(79)))].into(), ..Tables::default() };
        let lane = |tables: &mut Tables, role, kernel: &dyn Kernel| {
            lane_of(tables, &flow, &Segment { role, sequence: 100, acknowledged: 0 }, kernel)
        };
        assert_eq!(lane(&mut tables, Role::Opens, &NoSockets), Some(79), "there is no listener");
        assert_eq!(lane(&mut tables, Role::GoesOn, &Sockets(KernelSocket::Listener)), Some(79));
        assert_eq!(lane(&mut tables, Role::Opens, &Sockets(KernelSocket::Listener)), None);
        tables.ports.extend([port(Protocol::Tcp, ends(HERE, 7), 78)]);
        assert_eq!(lane(&mut tables, Role::Opens, &NoSockets), Some(78));
        assert_eq!(tables.flows[&flow].owner, Some(79), "until the handshake is complete");
    }
}
