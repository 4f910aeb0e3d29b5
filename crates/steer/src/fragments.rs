//! Where later fragments of a datagram to this host go: with the first one, which alone has the
//! ports (RFC 791 section 3.2, RFC 8200 section 4.5).
//!
//! If a fragment arrives before the first one, its owner is not known and the kernel gets it. Then
//! only the kernel can reassemble the datagram, so it gets all of it, and the program reads the
//! kernel's socket, too. For TCP the kernel's socket knows nothing of the connection: a segment for
//! the lane stays the lane's, and is sent again.
//!
//! An identification is used again after a while, perhaps for another socket's datagram (RFC 6864).
//! So what is noted lasts for [`LIFE_NS`].

use crate::tables::{Course, DatagramKey, Fragments, LaneNumber, Protocol, Tables};

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// The first fragment, with the ports; more follow.
    First,
    /// Another fragment, without ports.
    Later,
}

/// How long fragments follow their first one: far longer than a sender takes for a datagram.
pub(crate) const LIFE_NS: u64 = 1_000_000_000;

/// Whether something that was noted at `seen_ns` still holds.
pub(crate) fn is_fresh(seen_ns: u64, now_ns: u64) -> bool {
    now_ns.wrapping_sub(seen_ns) < LIFE_NS
}

/// Where a later fragment goes.
pub(crate) fn follow(tables: &mut Tables, datagram: DatagramKey, now_ns: u64) -> Option<LaneNumber> {
    match known(tables, &datagram, now_ns) {
        Some(Course::Led(lane)) => return lane,
        Some(Course::Early) => {}
        None => {
            tables.fragments.insert(datagram, Fragments { seen_ns: now_ns, course: Course::Early });
        }
    }
    tables.counters.stray_fragments += 1;
    None
}

/// Where a first fragment goes that `lane` or the kernel has claimed. Later ones follow it.
pub(crate) fn lead(
    tables: &mut Tables,
    datagram: DatagramKey,
    lane: Option<LaneNumber>,
    now_ns: u64,
) -> Option<LaneNumber> {
    let is_late = known(tables, &datagram, now_ns) == Some(Course::Early);
    let lane = lane.filter(|_| !(is_late && datagram.protocol == Protocol::Udp));
    tables.fragments.insert(datagram, Fragments { seen_ns: now_ns, course: Course::Led(lane) });
    lane
}

fn known(tables: &Tables, datagram: &DatagramKey, now_ns: u64) -> Option<Course> {
    tables.fragments.get(datagram).filter(|known| is_fresh(known.seen_ns, now_ns)).map(|known| known.course)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HERE, PEER};

    fn datagram(protocol: Protocol) -> DatagramKey {
        DatagramKey { source: PEER, destination: HERE, id: 1, protocol }
    }

    #[test]
    fn later_fragments_follow_the_first_one_for_a_second() {
        let mut tables = Tables::default();
        let udp = datagram(Protocol::Udp);
        assert_eq!(lead(&mut tables, udp, Some(77), 5), Some(77));
        assert_eq!(follow(&mut tables, udp, 6), Some(77));
        assert_eq!(follow(&mut tables, DatagramKey { id: 2, ..udp }, 6), None, "another datagram");
        assert_eq!(tables.counters.stray_fragments, 1);
        assert_eq!(follow(&mut tables, udp, 5 + LIFE_NS), None);
        assert_eq!(lead(&mut tables, udp, None, 6 + LIFE_NS), None);
        assert_eq!(follow(&mut tables, udp, 7 + LIFE_NS), None);
        assert_eq!(tables.counters.stray_fragments, 2, "the kernel's datagram is no stray");
    }

    #[test]
    fn a_datagram_of_which_the_kernel_has_a_part_is_the_kernels() {
        let mut tables = Tables::default();
        for (protocol, lane) in [(Protocol::Udp, None), (Protocol::Tcp, Some(77))] {
            assert_eq!(follow(&mut tables, datagram(protocol), 5), None);
            assert_eq!(lead(&mut tables, datagram(protocol), Some(77), 6), lane);
            assert_eq!(follow(&mut tables, datagram(protocol), 7), lane);
        }
    }
}
