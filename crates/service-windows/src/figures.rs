//! What the service counts, as lists of figures for `tickwire stat`
//! ([`Reply::Counters`](tickwire_lane::control::Reply::Counters)), and their names.

use crate::forwarder::RingLosses;
use tickwire_card_windows::card::CardLosses;
use tickwire_lane::control::Figures;
use tickwire_steer::counters::{HostCounters, LaneCounters};

/// The names of [`host`]'s figures.
pub const HOST_NAMES: [&str; 11] = [
    "passed",
    "diverted",
    "group_copies",
    "vlan",
    "stray_fragments",
    "unsent",
    "card_malformed",
    "card_strays",
    "card_truncated",
    "card_no_room",
    HOST_CAPTURE_LOST,
];

/// The name of the packets that captures have lost among [`HOST_NAMES`].
pub const HOST_CAPTURE_LOST: &str = "capture_lost";

/// The names of the last of [`lane`]'s figures: received packets that found no room in the lane's
/// ring, and records in its transmit ring that were incomplete or too long. Before them are packets
/// and bytes received, packets and bytes sent, and what guard has refused, by its reasons.
pub const LANE_LOSSES: [&str; 2] = ["lost_ring_full", "refused_record"];

/// What became of the packets of a host's network card; `unsent`: frames that it did not send, or
/// give back; `losses`: what was lost before this service saw it; `capture_lost`: packets that
/// captures left out because their readers did not keep up.
#[must_use]
pub fn host(counters: &HostCounters, unsent: u64, losses: CardLosses, capture_lost: u64) -> Figures {
    let HostCounters { passed, diverted, group_copies, vlan, stray_fragments } = *counters;
    let CardLosses { malformed, strays, truncated, no_room } = losses;
    let of_host = [passed, diverted, group_copies, vlan, stray_fragments, unsent];
    Figures::new(&[&of_host[..], &[malformed, strays, truncated, no_room, capture_lost]].concat())
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
        let losses = CardLosses { malformed: 1, strays: 2, truncated: 3, no_room: 4 };
        let all = host(&HostCounters::default(), 9, losses, 8);
        assert_eq!(all.as_slice(), [0, 0, 0, 0, 0, 9, 1, 2, 3, 4, 8]);
        assert_eq!((HOST_NAMES.len(), HOST_NAMES[10]), (all.as_slice().len(), HOST_CAPTURE_LOST));
        let counters = LaneCounters { in_packets: 1, refused: [3; 7], ..LaneCounters::default() };
        let all = lane(&counters, RingLosses { ring_full: 5, malformed: 6 });
        assert_eq!(all.as_slice().len(), 4 + GuardRefusal::ALL.len() + LANE_LOSSES.len());
        assert_eq!((all.as_slice()[0], &all.as_slice()[10..]), (1, &[3, 5, 6][..]));
    }
}
