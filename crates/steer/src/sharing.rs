//! Which of the lanes that share a port (`SO_REUSEPORT`) gets a packet.
//!
//! Each lane has a weight for each remote end, and the heaviest gets the packet (rendezvous
//! hashing, Thaler and Ravishankar 1998). So a lane that joins or leaves moves the remote ends that
//! become or were its own, and no others.

use crate::segment::Role;
use crate::tables::{FlowKey, LaneNumber, PortShare};
use alloc::collections::BTreeMap;
use tickwire_stack::addr::Endpoint;

/// The lane of a port for a packet.
///
/// While a lane is joining, a segment that opens a connection goes to the lane that the connection
/// will belong to, and that is noted. All others stay where their connection began: with the noted
/// lane, or with those that had the port before. Established connections are in the flows.
pub(crate) fn lane_of(
    share: &PortShare,
    handshakes: &mut BTreeMap<FlowKey, LaneNumber>,
    flow: &FlowKey,
    role: Role,
) -> Option<LaneNumber> {
    let lanes = &share.lanes[..];
    if lanes.len() <= 1 {
        return lanes.first().copied();
    }
    if share.settled >= lanes.len() {
        return chosen(lanes, flow.remote);
    }
    if role == Role::Opens {
        let lane = chosen(lanes, flow.remote)?;
        handshakes.insert(*flow, lane);
        return Some(lane);
    }
    // One of an earlier joining, perhaps of a lane that is gone, counts as none.
    let begun = handshakes.get(flow).filter(|lane| lanes.contains(lane));
    begun.copied().or_else(|| chosen(&lanes[..share.settled], flow.remote))
}

/// The lane that gets packets from a remote end to a port that lanes share: the one with the most
/// weight, the first of equals. `None`: there are no lanes.
#[must_use]
pub fn chosen(lanes: &[LaneNumber], remote: Endpoint) -> Option<LaneNumber> {
    let hash = hash(remote);
    lanes.iter().copied().rev().max_by_key(|&lane| weight(hash, lane))
}

fn hash(remote: Endpoint) -> u32 {
    let words = remote.address.0.as_chunks::<4>().0.iter().fold(0, |all, word| all ^ u32::from_ne_bytes(*word));
    let port = u32::from(u16::from_ne_bytes(remote.port.to_be_bytes()));
    let hash = words.wrapping_mul(0x9e37_79b1) ^ port.wrapping_mul(0x85eb_ca6b);
    hash ^ hash >> 15
}

fn weight(hash: u32, lane: LaneNumber) -> u32 {
    let weight = hash ^ lane.wrapping_mul(0x9e37_79b1);
    let weight = (weight ^ weight >> 16).wrapping_mul(0x85eb_ca6b);
    let weight = (weight ^ weight >> 13).wrapping_mul(0xc2b2_ae35);
    weight ^ weight >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Protocol;
    use crate::testing::{HERE, PEER, ends};
    use alloc::vec;

    #[test]
    fn a_lane_that_joins_moves_its_own_remote_ends_only() {
        let mut moved = 0;
        for port in 1000..2000 {
            let before = chosen(&[7, 12], ends(PEER, port));
            let after = chosen(&[7, 12, 9], ends(PEER, port));
            assert!(after == before || after == Some(9));
            assert_eq!(chosen(&[9, 7, 12], ends(PEER, port)), after, "the order is no matter");
            moved += u32::from(after == Some(9));
        }
        assert_eq!(chosen(&[], ends(PEER, 1000)), None);
        assert!((250..420).contains(&moved), "a third of 1000: {moved}");
    }

    #[test]
    fn while_a_lane_joins_handshakes_stay_where_they_began() {
        let joining = PortShare { lanes: vec![7, 9], settled: 1 };
        let mut handshakes = BTreeMap::new();
        let flow = |port| FlowKey { protocol: Protocol::Tcp, local: ends(HERE, 7), remote: ends(PEER, port) };
        let taken = (1000..).map(flow).find(|flow| chosen(&[7, 9], flow.remote) == Some(9)).unwrap();
        assert_eq!(lane_of(&joining, &mut handshakes, &taken, Role::GoesOn), Some(7), "it began before");
        assert_eq!(lane_of(&joining, &mut handshakes, &taken, Role::Opens), Some(9));
        assert_eq!(lane_of(&joining, &mut handshakes, &taken, Role::GoesOn), Some(9));
        handshakes.insert(taken, 5);
        assert_eq!(lane_of(&joining, &mut handshakes, &taken, Role::GoesOn), Some(7), "that lane is gone");
    }
}
