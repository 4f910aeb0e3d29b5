//! The BPF programs and their maps: loading, attaching, and making the maps agree with what the
//! service decided.
//!
//! | module | purpose |
//! |---|---|
//! | here | loading; the settings that the programs read |
//! | `nics` | divert on the interfaces, and what these lose of redirected frames |
//! | `lanes` | the guard on lanes' devices, and lanes' rings |
//! | `addresses` | the host's addresses, and its paths to peers |
//! | `entries` | ports, flows and groups of claims |
//! | `port_uses` | which ports have entries of which kind |
//! | `counters` | the counters of lanes and of the host |
//! | `classifiers` | the tc programs |
//! | `ring_probe` | whether the kernel's ring buffers withstand a hostile program |
//! | `error` | the errors of all this |

mod addresses;
mod classifiers;
mod counters;
mod entries;
mod error;
mod lanes;
mod nics;
mod port_uses;
mod ring_probe;

pub use error::BpfError;
pub(crate) use lanes::{GuardLink, LanePrograms, LaneRings, RingMaps};
pub(crate) use nics::NicHook;
pub(crate) use ring_probe::ring_is_safe;

use crate::config::ServiceLimits;
use aya::maps::xdp::DevMapHash;
use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray, RingBuf};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use classifiers::Classifiers;
use lanes::LaneMask;
use nics::RedirectWatch;
use port_uses::PortUses;
use std::collections::HashMap as Table;
use std::os::fd::AsFd;
use tickwire_lane_linux::bpf::{self, LaneCountersValue, map, program};
use tickwire_lane_linux::mapped_array::MappedArray;
use tickwire_registry::LaneId;
use tickwire_steer::tables::PortKey;

type Result<T> = std::result::Result<T, BpfError>;

/// The loaded programs and their maps.
pub(crate) struct Programs {
    ebpf: Ebpf,
    flows: HashMap<MapData, bpf::FlowMapKey, bpf::FlowValue>,
    handshakes: HashMap<MapData, bpf::FlowMapKey, u32>,
    ports: HashMap<MapData, bpf::PortMapKey, bpf::PortValue>,
    port_uses: PortUses,
    groups: HashMap<MapData, bpf::GroupMapKey, bpf::GroupValue>,
    /// The receive rings of lanes, by their slots.
    rings: MapData,
    /// Their standby rings.
    standby_rings: MapData,
    nics: DevMapHash<MapData>,
    addresses: HashMap<MapData, bpf::AddressMapKey, bpf::AddressValue>,
    sources: HashMap<MapData, bpf::SourceMapKey, u32>,
    /// Frames that NICs have not taken, by NIC.
    redirects: HashMap<MapData, u32, bpf::RedirectLosses>,
    /// The tracepoint programs that count them; `None` until the guard is to run in XDP.
    redirect_watch: Option<Result<RedirectWatch>>,
    hops: HashMap<MapData, bpf::HopMapKey, bpf::HopValue>,
    owned: HashMap<MapData, bpf::OwnedMapKey, bpf::OwnedValue>,
    lane_counters: PerCpuArray<MapData, LaneCountersValue>,
    host_counters: PerCpuArray<MapData, u64>,
    settings: Array<MapData, u32>,
    lane_mask: LaneMask,
    /// Lanes that joined a shared TCP port recently.
    joining: Table<PortKey, Vec<LaneId>>,
    classifiers: Classifiers,
    cpus: usize,
}

impl Programs {
    /// Loads the programs, with room for what the limits allow.
    pub(crate) fn load(limits: &ServiceLimits) -> Result<Self> {
        let flows = limits.flows.max(1024);
        let places = limits.lanes.saturating_mul(2).next_power_of_two().clamp(512, bpf::DEFAULT_LANE_MASK + 1);
        let mut ebpf = EbpfLoader::new()
            .override_global(bpf::LANE_MASK, &(places - 1), true)
            .map_max_entries(map::LANE_COUNTERS, places)
            .map_max_entries(map::RINGS, places)
            .map_max_entries(map::STANDBY_RINGS, places)
            .map_max_entries(map::FLOWS, flows)
            .map_max_entries(map::HANDSHAKES, flows)
            .map_max_entries(map::PORTS, flows)
            .map_max_entries(map::OWNED, flows.saturating_mul(2))
            .map_max_entries(map::GROUPS, limits.memberships.saturating_mul(2).max(64))
            .load(bpf::HOST)?;
        for name in [program::DIVERT, program::DIVERT_GENERIC, program::GUARD] {
            xdp(&mut ebpf, name)?.load()?;
        }
        let classifiers = Classifiers::load(&mut ebpf)?;
        let mut take = |name| ebpf.take_map(name).ok_or(BpfError::Missing(name));
        Ok(Self {
            flows: take(map::FLOWS)?.try_into()?,
            handshakes: take(map::HANDSHAKES)?.try_into()?,
            ports: take(map::PORTS)?.try_into()?,
            port_uses: PortUses::new(mapped(take(map::PORT_KINDS)?, map::PORT_KINDS_LEN)?),
            groups: take(map::GROUPS)?.try_into()?,
            rings: array_of_maps(take(map::RINGS)?)?,
            standby_rings: array_of_maps(take(map::STANDBY_RINGS)?)?,
            nics: take(map::NICS)?.try_into()?,
            addresses: take(map::ADDRESSES)?.try_into()?,
            sources: take(map::SOURCES)?.try_into()?,
            redirects: take(map::REDIRECTS)?.try_into()?,
            redirect_watch: None,
            hops: take(map::HOPS)?.try_into()?,
            owned: take(map::OWNED)?.try_into()?,
            lane_counters: take(map::LANE_COUNTERS)?.try_into()?,
            host_counters: take(map::HOST_COUNTERS)?.try_into()?,
            settings: take(map::SETTINGS)?.try_into()?,
            lane_mask: LaneMask::new(places),
            joining: Table::new(),
            classifiers,
            cpus: aya::util::nr_cpus().map_err(|(what, error)| BpfError::System(format!("{what}: {error}")))?,
            ebpf,
        })
    }

    /// Takes the capture ring out, once.
    pub(crate) fn take_capture_ring(&mut self) -> Result<RingBuf<MapData>> {
        Ok(self.ebpf.take_map(map::CAPTURE).ok_or(BpfError::Missing(map::CAPTURE))?.try_into()?)
    }

    /// Switches capturing on or off.
    pub(crate) fn set_capture(&mut self, on: bool) -> Result<()> {
        self.set(bpf::setting::CAPTURE, on)
    }

    /// Whether divert in native XDP wakes sleeping lanes by frames that it redirects to their
    /// devices.
    pub(crate) fn set_wake_frames(&mut self, on: bool) -> Result<()> {
        self.set(bpf::setting::WAKE_FRAMES, on)
    }

    fn set(&mut self, setting: u32, on: bool) -> Result<()> {
        let others = self.settings.get(&0, 0)? & !setting;
        Ok(self.settings.set(0, others | if on { setting } else { 0 }, 0)?)
    }
}

fn mapped(map: Map, len: u32) -> Result<MappedArray> {
    let Map::Array(data) = map else { return Err(BpfError::Missing(map::PORT_KINDS)) };
    let mapped = MappedArray::map(data.fd().as_fd(), len);
    mapped.map_err(|error| BpfError::System(format!("mapping {}: {error}", map::PORT_KINDS)))
}

fn array_of_maps(map: Map) -> Result<MapData> {
    match map {
        Map::ArrayOfMaps(data) => Ok(data),
        _ => Err(BpfError::Missing(map::RINGS)),
    }
}

fn xdp<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Xdp> {
    Ok(ebpf.program_mut(name).ok_or(BpfError::Missing(name))?.try_into()?)
}
