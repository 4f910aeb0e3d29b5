//! Names of the maps in [`super::HOST`].

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
/// Slot of a lane ([`super::LANE_MASK`]) -> its receive ring ([`tickwire_lane::record_ring`]).
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
