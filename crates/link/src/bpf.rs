//! The BPF programs as the service loads them, and the keys and values of their maps (feature
//! `bpf`).
//!
//! Every `...MapKey` and `...Value` mirrors a struct of `bpf/maps.h`, byte for byte. The same as
//! plain data, as the rules know it, is in [`tickwire_steer::tables`]. Padding is explicit and zero,
//! because the kernel compares keys as bytes. A lane is named by the interface index of its TAP
//! device.

use tickwire_stack::addr::{Address, Endpoint, Mac};
pub use tickwire_steer::chosen;
pub use tickwire_steer::counters::GuardRefusal;
pub use tickwire_steer::tables::{MAX_MEMBERS, MAX_SHARED};

/// An object file with the alignment that an ELF reader needs.
#[repr(C, align(8))]
struct Aligned<const N: usize>([u8; N]);

macro_rules! object {
    ($name:literal) => {{
        const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".o"));
        static OBJECT: Aligned<{ BYTES.len() }> = Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".o")));
        &OBJECT.0
    }};
}

/// divert and guard with their shared maps. Programs: [`program`]; maps: [`map`].
pub static HOST: &[u8] = object!("host");

/// Program `probe` over the ring buffer `probe_ring` of [`PROBE_RING_BYTES`]: returns 0 if the
/// kernel's ring buffers withstand a hostile consumer position of three quarters of that, 1 if not.
pub static PROBE: &[u8] = object!("probe");

/// Bytes of the ring of [`PROBE`].
pub const PROBE_RING_BYTES: u32 = 16384;

/// The constant in [`HOST`] that selects a lane's slot in the arrays: the bits of its number that
/// count. It is one less than a power of two, the size of [`map::LANE_COUNTERS`].
pub const LANE_MASK: &str = "lane_mask";

/// [`LANE_MASK`], unless the loader sets it.
pub const DEFAULT_LANE_MASK: u32 = 8191;

/// Names of the programs in [`HOST`].
pub mod program {
    /// XDP in a NIC's driver: diverts unicast.
    pub const DIVERT: &str = "divert";
    /// The same in the kernel's generic receive path.
    pub const DIVERT_GENERIC: &str = "divert_generic";
    /// tc ingress on a NIC beside [`DIVERT`]: copies of multicast.
    pub const DIVERT_GROUPS: &str = "divert_groups";
    /// tc ingress on a NIC alone: unicast and multicast.
    pub const DIVERT_TC: &str = "divert_tc";
    /// The only program of [`super::PROBE`].
    pub const PROBE: &str = "probe";
    /// XDP on a lane's TAP device.
    pub const GUARD: &str = "guard";
    /// tc ingress on a lane's TAP device, for NICs that cannot transmit redirected XDP frames.
    pub const GUARD_TC: &str = "guard_tc";
    /// tc ingress on a lane's bulk device (for trains).
    pub const GUARD_BULK: &str = "guard_bulk";
    /// tc ingress on a lane's TAP device, behind the guard: drops everything.
    pub const DROP_ALL: &str = "drop_all";
    /// Stand-in for [`DIVERT_TC`] where classifiers outlive the process that attached them (before
    /// Linux 6.6): does nothing once [`super::map::STAND_INS`] is closed.
    pub const ALIVE_DIVERT: &str = "alive_divert";
    /// The same for [`DIVERT_GROUPS`].
    pub const ALIVE_GROUPS: &str = "alive_groups";
    /// The same for [`GUARD_TC`].
    pub const ALIVE_GUARD: &str = "alive_guard";
    /// The same for [`GUARD_BULK`].
    pub const ALIVE_GUARD_BULK: &str = "alive_guard_bulk";
    /// Counts frames that [`GUARD`] let out and a NIC's driver did not take: at the tracepoint
    /// `xdp_devmap_xmit`.
    pub const REDIRECT_LOST: &str = "redirect_lost";
    /// The same for those that the kernel did not even pass to the driver: at the tracepoint
    /// `xdp_redirect_err`.
    pub const REDIRECT_REFUSED: &str = "redirect_refused";
}

/// Names of the maps in [`HOST`].
pub mod map {
    /// [`super::FlowMapKey`] -> [`super::FlowValue`].
    pub const FLOWS: &str = "flows";
    /// The lanes of handshakes on ports that lanes are joining.
    pub const HANDSHAKES: &str = "handshakes";
    /// [`super::PortMapKey`] -> [`super::PortValue`].
    pub const PORTS: &str = "ports";
    /// Word index ([`super::port_kinds`]) -> eight bits for each of eight ports
    /// ([`super::port_kind`]).
    pub const PORT_KINDS: &str = "port_kinds";
    /// Its words.
    pub const PORT_KINDS_LEN: u32 = 16_384;
    /// [`super::GroupMapKey`] -> [`super::GroupValue`].
    pub const GROUPS: &str = "groups";
    /// Slot of a lane ([`super::LANE_MASK`]) -> its receive ring ([`tickwire_lane::rx_ring`]).
    pub const RINGS: &str = "rings";
    /// Slot of a lane -> the ring that wakes the standby thread ([`crate::standby_ring`]).
    pub const STANDBY_RINGS: &str = "standby_rings";
    /// Device map: NIC -> NIC.
    pub const NICS: &str = "nics";
    /// NIC -> [`super::RedirectLosses`].
    pub const REDIRECTS: &str = "redirects";
    /// [`super::AddressMapKey`] -> [`super::AddressValue`].
    pub const ADDRESSES: &str = "addresses";
    /// [`super::SourceMapKey`] -> NIC.
    pub const SOURCES: &str = "sources";
    /// [`super::HopMapKey`] -> [`super::HopValue`].
    pub const HOPS: &str = "hops";
    /// [`super::OwnedMapKey`] -> [`super::OwnedValue`].
    pub const OWNED: &str = "owned";
    /// Slot of a lane ([`super::LANE_MASK`]) -> [`super::LaneCountersValue`], per CPU.
    pub const LANE_COUNTERS: &str = "lane_counters";
    /// [`super::HostCounter`] -> u64, per CPU.
    pub const HOST_COUNTERS: &str = "host_counters";
    /// 0 -> bits of [`super::setting`].
    pub const SETTINGS: &str = "settings";
    /// The classifiers that have stand-ins, in the order of [`super::program::ALIVE_DIVERT`] and
    /// those that follow it.
    pub const STAND_INS: &str = "stand_ins";
    /// The ring of [`super::PROBE`].
    pub const PROBE_RING: &str = "probe_ring";
    /// Ring buffer of [`super::CaptureRecord`]s.
    pub const CAPTURE: &str = "capture";
}

/// Bits of the entry of [`map::SETTINGS`].
pub mod setting {
    /// Packets are copied to [`super::map::CAPTURE`].
    pub const CAPTURE: u32 = 1;
    /// Sleeping lanes are woken by a wake frame also from native XDP.
    pub const WAKE_FRAMES: u32 = 2;
}

/// Marks a struct as plain bytes without padding for the loader.
macro_rules! plain {
    ($($name:ty: $size:literal),* $(,)?) => { $(
        const _: () = assert!(size_of::<$name>() == $size, "mirrors bpf/maps.h");
        // SAFETY: `repr(C)`, integers and arrays of them only, no implicit padding (the size is the
        // sum of the fields, asserted above), valid for any bit pattern.
        unsafe impl aya::Pod for $name {}
    )* };
}

plain! {
    FlowMapKey: 40,
    FlowValue: 16,
    PortMapKey: 20,
    PortValue: 40,
    GroupMapKey: 24,
    GroupValue: 80,
    AddressMapKey: 20,
    AddressValue: 8,
    HopMapKey: 32,
    HopValue: 16,
    SourceMapKey: 24,
    OwnedMapKey: 24,
    OwnedValue: 20,
    LaneCountersValue: 104,
    RedirectLosses: 16,
}

/// One connection of one of our sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FlowMapKey {
    local: [u8; 16],
    remote: [u8; 16],
    local_port: [u8; 2],
    remote_port: [u8; 2],
    protocol: u8,
    pad: [u8; 3],
}

impl FlowMapKey {
    /// The key of a flow; `protocol` is the IP protocol number.
    #[must_use]
    pub const fn new(protocol: u8, local: Endpoint, remote: Endpoint) -> Self {
        Self {
            local: local.address.0,
            remote: remote.address.0,
            local_port: local.port.to_be_bytes(),
            remote_port: remote.port.to_be_bytes(),
            protocol,
            pad: [0; 3],
        }
    }
}

/// The owner of a flow, and the progress of another connection's handshake between its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FlowValue {
    lane: u32,
    next: u32,
    progress: u64,
}

impl FlowValue {
    /// A flow that is the kernel's.
    pub const KERNEL: Self = Self::new(0);

    /// A flow that is a lane's.
    #[must_use]
    pub const fn new(lane: u32) -> Self {
        Self { lane, next: 0, progress: 0 }
    }
}

/// One bound port; the address is the bound one, [`Address::ANY`] or [`Address::ANY_V4`].
///
/// A dual-stack socket bound to `::` has two keys, one per family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct PortMapKey {
    local: [u8; 16],
    port: [u8; 2],
    protocol: u8,
    pad: u8,
}

impl PortMapKey {
    /// The key of a bound port.
    #[must_use]
    pub const fn new(protocol: u8, local: Endpoint) -> Self {
        Self { local: local.address.0, port: local.port.to_be_bytes(), protocol, pad: 0 }
    }
}

/// The lanes that share a port; one is chosen by the hash of the remote end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PortValue {
    count: u32,
    settled: u32,
    lanes: [u32; MAX_SHARED],
}

impl PortValue {
    /// The value for these lanes; `None` if there are none or more than [`MAX_SHARED`].
    #[must_use]
    pub fn new(lanes: &[u32]) -> Option<Self> {
        let (count, lanes) = fixed(lanes)?;
        Some(Self { count, settled: count, lanes })
    }

    /// As [`PortValue::new`], while all but the first so many lanes are joining: handshakes that
    /// are under way belong to the first.
    #[must_use]
    pub fn joining(lanes: &[u32], settled: usize) -> Option<Self> {
        let value = Self::new(lanes)?;
        let settled = u32::try_from(settled).ok().filter(|&n| n > 0).unwrap_or(value.count);
        Some(Self { settled: settled.min(value.count), ..value })
    }
}

/// One multicast group and port on one NIC. Port 0 is any: for fragments that arrive before their
/// first one, which alone names the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct GroupMapKey {
    group: [u8; 16],
    nic: u32,
    port: [u8; 2],
    pad: [u8; 2],
}

impl GroupMapKey {
    /// The key of a group on the NIC with interface index `nic`.
    #[must_use]
    pub const fn new(group: Endpoint, nic: u32) -> Self {
        Self { group: group.address.0, nic, port: group.port.to_be_bytes(), pad: [0; 2] }
    }
}

/// The lanes that receive a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupValue {
    count: u32,
    lanes: [u32; MAX_MEMBERS],
    early: u32,
    since_ns: u64,
}

impl GroupValue {
    /// The value for these lanes; `None` if there are none or more than [`MAX_MEMBERS`].
    #[must_use]
    pub fn new(lanes: &[u32]) -> Option<Self> {
        let (count, lanes) = fixed(lanes)?;
        Some(Self { count, lanes, early: 0, since_ns: 0 })
    }

    /// The value for the group at any port, which these lanes have joined at one or another; `None`
    /// if there are none. Lanes beyond [`MAX_MEMBERS`] receive no fragments that arrive before
    /// their first one; each such fragment is counted as a stray.
    #[must_use]
    pub fn any_port(lanes: &[u32]) -> Option<Self> {
        let count = u32::try_from(lanes.len()).ok()?;
        Some(Self { count, ..Self::new(lanes.get(..MAX_MEMBERS).unwrap_or(lanes))? })
    }
}

fn fixed<const N: usize>(lanes: &[u32]) -> Option<(u32, [u32; N])> {
    let mut all = [0; N];
    if lanes.is_empty() {
        return None;
    }
    all.get_mut(..lanes.len())?.copy_from_slice(lanes);
    Some((u32::try_from(lanes.len()).ok()?, all))
}

/// An address of ours on a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct AddressMapKey {
    address: [u8; 16],
    nic: u32,
}

impl AddressMapKey {
    /// The key of an address on the NIC with interface index `nic`.
    #[must_use]
    pub const fn new(address: Address, nic: u32) -> Self {
        Self { address: address.0, nic }
    }
}

/// The Ethernet address that packets to one of our addresses carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AddressValue {
    mac: [u8; 6],
    pad: [u8; 2],
}

impl AddressValue {
    /// The value for this Ethernet address.
    #[must_use]
    pub const fn new(mac: Mac) -> Self {
        Self { mac: mac.0, pad: [0; 2] }
    }
}

/// A source address of the host's and a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HopMapKey {
    source: [u8; 16],
    destination: [u8; 16],
}

impl HopMapKey {
    /// The key of the path between two addresses.
    #[must_use]
    pub const fn new(source: Address, destination: Address) -> Self {
        Self { source: source.0, destination: destination.0 }
    }
}

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HopValue {
    destination: [u8; 6],
    source: [u8; 6],
    nic: u32,
}

impl HopValue {
    /// The value for the next hop's Ethernet address, and that of the NIC with interface index
    /// `nic` by which it is reached.
    #[must_use]
    pub const fn new(destination: Mac, source: Mac, nic: u32) -> Self {
        Self { destination: destination.0, source: source.0, nic }
    }
}

/// An address and Ethernet address that lanes may send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct SourceMapKey {
    address: [u8; 16],
    mac: [u8; 6],
    pad: [u8; 2],
}

impl SourceMapKey {
    /// The key of a source.
    #[must_use]
    pub const fn new(address: Address, mac: Mac) -> Self {
        Self { address: address.0, mac: mac.0, pad: [0; 2] }
    }
}

/// A port that a lane may send from; the address as in [`PortMapKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct OwnedMapKey {
    local: [u8; 16],
    lane: u32,
    port: [u8; 2],
    protocol: u8,
    pad: u8,
}

impl OwnedMapKey {
    /// The key of a port of `lane`.
    #[must_use]
    pub const fn new(lane: u32, protocol: u8, local: Endpoint) -> Self {
        Self { local: local.address.0, lane, port: local.port.to_be_bytes(), protocol, pad: 0 }
    }
}

/// How much of a port a lane owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OwnedValue {
    remote: [u8; 16],
    remote_port: [u8; 2],
    share: u8,
    pad: u8,
}

impl OwnedValue {
    /// All of it: the lane may send to any remote end.
    pub const WHOLE: Self = Self { remote: [0; 16], remote_port: [0; 2], share: 1, pad: 0 };
    /// The lane may send to the remote ends of its entries in [`map::FLOWS`].
    pub const FLOWS: Self = Self { share: 3, ..Self::WHOLE };

    /// The lane may send to one remote end.
    #[must_use]
    pub const fn one(remote: Endpoint) -> Self {
        Self { remote: remote.address.0, remote_port: remote.port.to_be_bytes(), share: 2, pad: 0 }
    }
}

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
    /// Frames that the guard refused, by [`GuardRefusal`].
    pub refused: [u64; 8],
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

/// How many addresses of the host the maps have room for, each once for every interface
/// (`addresses` and `sources` in `maps.h`).
pub const MOST_ADDRESSES: u32 = 65_536;

/// What became of packets that arrived on the NICs: index into [`map::HOST_COUNTERS`].
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
/// [`map::REDIRECTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RedirectLosses {
    /// All of them.
    pub lost: u64,
    /// Those for a reason for which the next ones will be lost, too.
    pub refused: u64,
}

/// The kinds of entries that a local port has in the maps: bits of an entry of [`map::PORT_KINDS`].
pub mod port_kind {
    /// In [`super::map::FLOWS`].
    pub const FLOWS: u8 = 1;
    /// In [`super::map::PORTS`] with an address.
    pub const BOUND: u8 = 2;
    /// In [`super::map::PORTS`] with any address.
    pub const ANY: u8 = 4;
    /// In [`super::map::OWNED`] with an address.
    pub const OWNED: u8 = 8;
    /// In [`super::map::OWNED`] with any address.
    pub const OWNED_ANY: u8 = 16;
    /// All of them.
    pub const ALL: [u8; 5] = [FLOWS, BOUND, ANY, OWNED, OWNED_ANY];
}

/// The word of [`map::PORT_KINDS`] that has a port's bits, and by how much they are shifted in it.
#[must_use]
pub const fn port_kinds(protocol: u8, port: u16) -> (u32, u32) {
    const UDP: u8 = 17;
    let base = if protocol == UDP { 8192 } else { 0 };
    (base + (port >> 3) as u32, (port & 7) as u32 * 8)
}

/// A captured packet, ahead of its bytes in [`map::CAPTURE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRecord {
    /// `CLOCK_MONOTONIC` in nanoseconds when the program saw the packet.
    pub monotonic_ns: u64,
    /// The lane.
    pub lane: u32,
    /// The NIC by which it arrived; 0 for packets on their way out.
    pub nic: u32,
    /// Length of the packet in bytes.
    pub length: u32,
    /// Whether it was on its way out.
    pub outgoing: bool,
}

impl CaptureRecord {
    const SIZE: usize = 32;

    /// Splits an entry of the ring buffer into the record and the captured bytes; `None` if it is
    /// inconsistent.
    #[must_use]
    pub fn parse(entry: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = entry.split_at_checked(Self::SIZE)?;
        let word = |at: usize| head[at..at + 4].try_into().map(u32::from_ne_bytes).ok();
        let captured = word(20)? as usize;
        let record = Self {
            monotonic_ns: u64::from_ne_bytes(head[..8].try_into().ok()?),
            lane: word(8)?,
            nic: word(12)?,
            length: word(16)?,
            outgoing: word(24)? != 0,
        };
        Some((record, rest.get(..captured)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_at_least_one_and_at_most_all_lanes() {
        assert!(PortValue::new(&[]).is_none());
        assert!(PortValue::new(&[7; MAX_SHARED]).is_some());
        assert!(PortValue::new(&[7; MAX_SHARED + 1]).is_none());
        assert_eq!(PortValue::new(&[5, 6]).unwrap().lanes[..3], [5, 6, 0]);
        assert!(GroupValue::any_port(&[]).is_none());
        let more = GroupValue::any_port(&[7; MAX_MEMBERS + 3]).unwrap();
        assert_eq!((more.count, more.lanes), (19, [7; MAX_MEMBERS]), "those beyond are known to be there");
    }

    #[test]
    fn every_port_of_both_protocols_has_a_place_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for protocol in [6, 17] {
            for port in 0..=u16::MAX {
                let (word, shift) = port_kinds(protocol, port);
                assert!(word < 16384 && shift <= 56 && shift % 8 == 0);
                assert!(seen.insert((word, shift)));
            }
        }
    }

    #[test]
    fn a_capture_record_that_promises_more_than_there_is_is_refused() {
        let mut entry = vec![0_u8; 32 + 10];
        entry[20..24].copy_from_slice(&10_u32.to_ne_bytes());
        assert_eq!(CaptureRecord::parse(&entry).unwrap().1.len(), 10);
        entry[20..24].copy_from_slice(&11_u32.to_ne_bytes());
        assert!(CaptureRecord::parse(&entry).is_none());
        assert!(CaptureRecord::parse(&entry[..31]).is_none());
    }
}
