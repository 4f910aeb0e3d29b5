//! What the programs count.

/// Room for the guard's reasons to refuse a frame (`refused` of `struct lane_counters` in
/// `bpf/maps.h`).
const REFUSALS: usize = 8;

const _: () = assert!(super::GuardRefusal::ALL.len() <= REFUSALS);

/// What the programs counted for a lane (on one CPU).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LaneCountersValue {
    /// Packets diverted to the lane.
    pub in_packets: u64,
    /// Their bytes.
    pub in_bytes: u64,
    /// Packets that the guard let out.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
    /// Frames that the guard refused, by [`super::GuardRefusal`].
    pub refused: [u64; REFUSALS],
    /// Those of the packets diverted that were lost because its ring was full.
    pub lost_packets: u64,
}

impl core::ops::AddAssign for LaneCountersValue {
    fn add_assign(&mut self, other: Self) {
        self.in_packets += other.in_packets;
        self.in_bytes += other.in_bytes;
        self.out_packets += other.out_packets;
        self.out_bytes += other.out_bytes;
        self.lost_packets += other.lost_packets;
        for (mine, theirs) in self.refused.iter_mut().zip(other.refused) {
            *mine += theirs;
        }
    }
}

/// What became of packets that arrived on the NICs: index into [`super::map::HOST_COUNTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HostCounter {
    /// To the kernel: no lane took them.
    Passed = 0,
    /// To a lane.
    Diverted = 1,
    /// Copies of multicast datagrams to lanes.
    GroupCopies = 2,
    /// Those of the passed ones that had the tag of a VLAN.
    Vlan = 3,
    /// Later fragments of an unknown datagram to an address of ours, to the kernel; or to a group,
    /// and not to each of its lanes.
    StrayFragment = 4,
    /// Not captured: the ring buffer was full.
    CaptureLost = 5,
}

/// Frames that lanes have sent and that a NIC has not taken from XDP: an entry of
/// [`super::map::REDIRECTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RedirectLosses {
    /// All of them.
    pub lost: u64,
    /// Those for a reason for which the next ones will be lost, too.
    pub refused: u64,
}
