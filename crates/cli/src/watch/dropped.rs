//! Dropped packets: the counters of guard and stack that mean loss, grouped into a few kinds.

use tickwire_show::stat::Lane;

/// A kind of loss.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its name as a label.
    pub(super) name: &'static str,
    /// Its name in text.
    pub(super) words: &'static str,
    /// The counters of the stack and of the lane's rings that it sums up.
    counters: &'static [&'static str],
}

/// All kinds. The guard's refusals are found by the prefix of their names instead.
pub(super) const KINDS: [Kind; 9] = [
    Kind { name: "guard", words: "refused by the guard", counters: &[] },
    Kind {
        name: "receive_buffer",
        words: "receive buffer full",
        counters: &["UdpRcvbufErrors", "TcpExtTCPOFODrop", "lost_ring_full"],
    },
    Kind { name: "send_buffer", words: "no room to send", counters: &["UdpSndbufErrors", "IpOutDiscards"] },
    Kind { name: "memory", words: "no frame left", counters: &["UdpMemErrors", "TcpExtTCPAbortOnMemory", "RxNoFrame"] },
    Kind { name: "fragments", words: "fragments incomplete", counters: &["IpReasmFails"] },
    // Bad checksums are already included in the error counters of TCP and UDP.
    Kind {
        name: "broken",
        words: "broken",
        counters: &[
            "IpInHdrErrors",
            "IpInAddrErrors",
            "IpInUnknownProtos",
            "IpInTruncatedPkts",
            "EthInUnknown",
            "EthInBadFrame",
            "IcmpInErrors",
            "IcmpInCsumErrors",
            "UdpInErrors",
            "TcpInErrs",
        ],
    },
    Kind { name: "listener", words: "refused by a listener", counters: &["TcpExtListenDrops"] },
    Kind { name: "no_way", words: "no way there", counters: &["IpOutNoRoutes", "PathDrops"] },
    Kind { name: "nobody", words: "nobody's port", counters: &["UdpNoPorts", "TcpNoSocket"] },
];

/// A lane's losses, by [`KINDS`]. The program controls the lane's memory, so counters may have any
/// value and the sums saturate.
pub(super) fn of(lane: &Lane) -> [u64; KINDS.len()] {
    let mut losses = [0; KINDS.len()];
    for (kind, loss) in KINDS.iter().zip(&mut losses) {
        let counters = kind.counters.iter().filter_map(|name| lane.counters.get(name).or_else(|| lane.guard.get(name)));
        *loss = counters.fold(0_u64, |sum, count| sum.saturating_add(*count));
    }
    let refused = lane.guard.iter().filter(|(name, _)| name.starts_with("refused_"));
    losses[0] = refused.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    losses
}

/// The sum of all losses.
pub(super) fn in_all(lane: &Lane) -> u64 {
    of(lane).into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::draw::testing;

    #[test]
    fn kinds_are_made_of_counters_that_there_are() {
        let all = tickwire_stack::table::Counters::default();
        let known: Vec<_> = all.iter().map(|(name, _)| name).chain(crate::stat::guard_counters()).collect();
        for name in KINDS.iter().flat_map(|kind| kind.counters) {
            assert!(known.contains(name), "{name}");
        }
        assert_eq!(KINDS[0].name, "guard", "its losses are put in the first place");
    }

    #[test]
    fn a_lanes_losses_are_summed_whatever_it_says() {
        let mut lane = testing::lane("a", 3);
        lane.guard.insert("refused_port", 2);
        lane.guard.insert("refused_source", 1);
        lane.counters.insert("UdpRcvbufErrors", u64::MAX);
        lane.counters.insert("TcpExtTCPOFODrop", 5);
        lane.counters.insert("RxNoFrame", 7);
        let losses = of(&lane);
        assert_eq!((losses[0], losses[1], losses[2]), (3, u64::MAX, 0));
        assert_eq!(losses[3], 7, "what its rings had no room for");
        assert_eq!(in_all(&lane), u64::MAX);
    }
}
