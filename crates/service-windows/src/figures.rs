//! What the service counts, as lists of figures for `tickwire stat`
//! ([`Reply::Counters`](tickwire_lane::control::Reply::Counters)), and their names.

use crate::forwarder::RingLosses;
use tickwire_lane::control::Figures;
use tickwire_steer::counters::{HostCounters, LaneCounters};

/// The names of [`host`]'s figures.
pub const HOST_NAMES: [&str; 6] = ["passed", "diverted", "group_copies", "vlan", "stray_fragments", "unsent"];

/// The names of the last of [`lane`]'s figures: received packets that found no room in the lane's
/// ring, and records in its transmit ring that were incomplete or too long. Before them are packets
/// and bytes received, packets and bytes sent, and what guard has refused, by its reasons.
pub const LANE_LOSSES: [&str; 2] = ["lost_ring_full", "refused_record"];

/// What became of the packets of a host's network card; `unsent`: frames that it did not send.
#[must_use]
pub fn host(counters: &HostCounters, unsent: u64) -> Figures {
    let HostCounters { passed, diverted, group_copies, vlan, stray_fragments } = *counters;
    Figures::new(&[passed, diverted, group_copies, vlan, stray_fragments, unsent])
}

/// What a lane has received, sent and lost.
#[must_use]
pub fn lane(counters: &LaneCounters, losses: RingLosses) -> Figures {
    let LaneCounters { in_packets, in_bytes, out_packets, out_bytes, refused } = counters;
    let mut all = vec![*in_packets, *in_bytes, *out_packets, *out_bytes];
    all.extend(refused);
    all.extend([losses.ring_full, losses.malformed]);
    Figures::new(&all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_steer::counters::GuardRefusal;

    #[test]
    fn each_figure_has_a_name() {
        assert_eq!(host(&HostCounters::default(), 9).as_slice(), [0, 0, 0, 0, 0, 9]);
        assert_eq!(HOST_NAMES.len(), 6);
        let counters = LaneCounters { in_packets: 1, refused: [3; 7], ..LaneCounters::default() };
        let all = lane(&counters, RingLosses { ring_full: 5, malformed: 6 });
        assert_eq!(all.as_slice().len(), 4 + GuardRefusal::ALL.len() + LANE_LOSSES.len());
        assert_eq!((all.as_slice()[0], &all.as_slice()[10..]), (1, &[3, 5, 6][..]));
    }
}
