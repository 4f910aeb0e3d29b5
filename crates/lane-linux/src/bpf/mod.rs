//! The BPF programs as the service loads them, and the keys and values of their maps (feature
//! `bpf`).
//!
//! Every `...MapKey` and `...Value` mirrors a struct of `bpf/maps.h`, byte for byte. The same as
//! plain data, as the rules know it, is in [`tickwire_steer::tables`]. Padding is explicit and
//! zero, because the kernel compares keys as bytes. A lane is named by the interface index of its
//! TAP device.
//!
//! | module | content |
//! |---|---|
//! | [`program`], [`map`] | the names of programs and maps |
//! | `claims` | flows, ports, groups, and what lanes may send from |
//! | [`port_kind`] | which kinds of these a port has |
//! | `addresses` | the host's addresses, and paths to peers |
//! | `counters` | what the programs count |

mod addresses;
mod claims;
mod counters;
pub mod map;
pub mod port_kind;
pub mod program;

pub use addresses::{AddressMapKey, AddressValue, HopMapKey, HopValue, MOST_ADDRESSES, SourceMapKey};
pub use claims::{FlowMapKey, FlowValue, GroupMapKey, GroupValue, OwnedMapKey, OwnedValue, PortMapKey, PortValue};
pub use counters::{HostCounter, LaneCountersValue, RedirectLosses};
pub use port_kind::port_kinds;
pub use tickwire_lane::capture_record::CaptureRecord;
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
