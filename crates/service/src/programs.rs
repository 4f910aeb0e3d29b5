//! The BPF programs and their maps: loading, attaching, and making the maps agree with what the
//! service decided.

use crate::bpf_error::BpfError;
use crate::classifiers::{Classifiers, LaneClassifiers};
use crate::config::Limits;
use crate::groups::{GroupChange, Members};
use crate::registry::{Change, FlowKey, LaneId, PortKey, Protocol, Share, Title};
use aya::maps::xdp::DevMapHash;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues};
use aya::programs::tc::SchedClassifierLink;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::xdp::{XdpLink, XdpMode};
use aya::programs::{BtfTracePoint, Xdp};
use aya::{Btf, Ebpf, EbpfLoader};
use std::collections::HashMap as Books;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tickwire_host::Query;
use tickwire_lane::control::AttachMode;
use tickwire_lane::rx_ring::RING_BYTES;
use tickwire_link::bpf::{self, HostCounter, LaneCounters, map, port_kind, program};
use tickwire_link::mapped_array::MappedArray;
use tickwire_link::standby_ring::STANDBY_RING_BYTES;
use tickwire_link::sys_bpf;
use tickwire_stack::addr::{Address, Mac};
use tickwire_stack::path::{PathInfo, PathState};

/// Map flag: an entry is made only if there is none (`BPF_NOEXIST`).
const NO_OTHER: u64 = 1;

type Result<T> = std::result::Result<T, BpfError>;

/// What is attached to a NIC; dropping it detaches.
#[derive(Debug)]
pub(crate) struct NicHook {
    _xdp: Option<XdpLink>,
    _tc: SchedClassifierLink,
}

/// How the guard is attached to a lane's TAP device; dropping it detaches.
#[derive(Debug)]
pub(crate) enum GuardLink {
    Xdp(#[expect(dead_code, reason = "held to stay attached")] OwnedFd),
    Tc(#[expect(dead_code, reason = "held to stay attached")] SchedClassifierLink),
}

/// The BPF ring buffers of a lane.
#[derive(Debug)]
pub(crate) struct LaneRings {
    /// Divert fills it.
    pub(crate) receive: OwnedFd,
    /// It wakes the thread that stands by.
    pub(crate) standby: OwnedFd,
}

/// What a lane's device and rings are made with.
pub(crate) struct LanePrograms {
    guard: OwnedFd,
    classifiers: LaneClassifiers,
    rings: OwnedFd,
    standby_rings: OwnedFd,
    lane_mask: LaneMask,
}

/// The bits of a lane's number that select its slot in the arrays. Two devices may have the same
/// slot, lanes that exist at the same time may not.
#[derive(Clone, Copy)]
struct LaneMask(u32);

impl LaneMask {
    fn place(self, lane: LaneId) -> u32 {
        lane & self.0
    }
}

impl LanePrograms {
    /// The slot of a lane in the arrays.
    pub(crate) fn place(&self, lane: LaneId) -> u32 {
        self.lane_mask.place(lane)
    }

    /// Guards the device of a lane, and attaches a filter behind the guard that drops everything
    /// and outlives the service.
    pub(crate) fn guard(&mut self, name: &str, index: u32, mode: AttachMode) -> Result<GuardLink> {
        self.classifiers.drop_all(name)?;
        if mode == AttachMode::Native {
            xdp_guard(self.guard.as_fd(), index)
        } else {
            self.classifiers.attach_guard(name).map(GuardLink::Tc)
        }
    }

    /// Makes a lane reachable: its rings.
    pub(crate) fn add_lane(&self, lane: LaneId) -> Result<LaneRings> {
        let make = |bytes, map: &OwnedFd| {
            let ring = sys_bpf::create_ring(bytes)?;
            sys_bpf::set_inner(map.as_fd(), self.place(lane), ring.as_fd())?;
            Ok(ring)
        };
        let made = make(RING_BYTES, &self.rings)
            .and_then(|receive| Ok(LaneRings { receive, standby: make(STANDBY_RING_BYTES, &self.standby_rings)? }));
        made.map_err(|error: std::io::Error| BpfError::System(format!("making a lane's rings: {error}")))
    }

    /// Makes a lane unreachable.
    pub(crate) fn remove_lane(&self, lane: LaneId) {
        for map in [&self.rings, &self.standby_rings] {
            let _ = sys_bpf::remove_inner(map.as_fd(), self.place(lane));
        }
    }
}

fn xdp_guard(guard: BorrowedFd<'_>, device: u32) -> Result<GuardLink> {
    let link = sys_bpf::attach_xdp(guard, device);
    link.map(GuardLink::Xdp).map_err(|error| BpfError::System(format!("attaching the guard: {error}")))
}

/// The loaded programs and their maps.
pub(crate) struct Programs {
    ebpf: Ebpf,
    flows: HashMap<MapData, bpf::FlowKey, bpf::FlowValue>,
    handshakes: HashMap<MapData, bpf::FlowKey, u32>,
    ports: HashMap<MapData, bpf::PortKey, bpf::PortValue>,
    port_kinds: MappedArray,
    groups: HashMap<MapData, bpf::GroupKey, bpf::GroupValue>,
    /// The receive rings of lanes, by their slots.
    rings: MapData,
    /// Their standby rings.
    standby_rings: MapData,
    nics: DevMapHash<MapData>,
    addresses: HashMap<MapData, bpf::AddressKey, bpf::AddressValue>,
    sources: HashMap<MapData, bpf::SourceKey, u32>,
    /// Frames that NICs have not taken, by NIC.
    redirects: HashMap<MapData, u32, bpf::RedirectLosses>,
    /// The tracepoint programs that count them; `None` until the guard is to run in XDP.
    redirect_watch: Option<Result<[BtfTracePointLink; 2]>>,
    hops: HashMap<MapData, bpf::HopKey, bpf::HopValue>,
    owned: HashMap<MapData, bpf::OwnedKey, bpf::OwnedValue>,
    lane_counters: PerCpuArray<MapData, LaneCounters>,
    host_counters: PerCpuArray<MapData, u64>,
    settings: Array<MapData, u32>,
    lane_mask: LaneMask,
    /// How many entries of the other maps account for each bit of `port_kinds`.
    port_uses: Books<(Protocol, u16), [u32; port_kind::ALL.len()]>,
    /// Lanes that joined a shared TCP port recently.
    joining: Books<PortKey, Vec<LaneId>>,
    classifiers: Classifiers,
    cpus: usize,
}

impl Programs {
    /// Loads the programs, with room for what the limits allow.
    pub(crate) fn load(limits: &Limits) -> Result<Self> {
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
            port_kinds: mapped(take(map::PORT_KINDS)?, map::PORT_KINDS_LEN)?,
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
            lane_mask: LaneMask(places - 1),
            port_uses: Books::new(),
            joining: Books::new(),
            classifiers,
            cpus: aya::util::nr_cpus().map_err(|(what, error)| BpfError::System(format!("{what}: {error}")))?,
            ebpf,
        })
    }

    /// Takes the capture ring out, once.
    pub(crate) fn take_capture_ring(&mut self) -> Result<aya::maps::RingBuf<MapData>> {
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

    /// Attaches divert to a NIC in one mode.
    pub(crate) fn attach_nic(&mut self, name: &str, index: u32, mode: AttachMode) -> Result<NicHook> {
        let variant = match mode {
            AttachMode::Native => Some((program::DIVERT, XdpMode::Driver)),
            AttachMode::Generic => Some((program::DIVERT_GENERIC, XdpMode::Skb)),
            AttachMode::Tc | AttachMode::None => None,
        };
        let divert = match variant {
            Some((name, xdp_mode)) => {
                // Until this interface is known to redirect.
                self.set_wake_frames(false)?;
                let divert = xdp(&mut self.ebpf, name)?;
                let id = divert.attach_to_if_index(index, xdp_mode)?;
                Some(divert.take_link(id)?)
            }
            None => None,
        };
        let tc = if divert.is_some() { program::DIVERT_GROUPS } else { program::DIVERT_TC };
        let tc = self.classifiers.attach(&mut self.ebpf, tc, name)?;
        self.redirects.insert(index, bpf::RedirectLosses::default(), 0)?;
        self.nics.insert(index, index, None, 0)?;
        Ok(NicHook { _xdp: divert, _tc: tc })
    }

    /// Removes a NIC; the caller drops its hook.
    pub(crate) fn remove_nic(&mut self, index: u32) {
        let _ = self.nics.remove(index);
        let _ = self.redirects.remove(&index);
    }

    /// Begins to count the frames that NICs do not take from the guard in XDP. Returns whether they
    /// are counted.
    pub(crate) fn watch_redirects(&mut self) -> bool {
        if self.redirect_watch.is_none() {
            let watch = attach_redirect_watch(&mut self.ebpf);
            if let Err(error) = &watch {
                tracing::warn!(%error, "frames that a driver refuses would not be seen: lanes send by tc");
            }
            self.redirect_watch = Some(watch);
        }
        matches!(self.redirect_watch, Some(Ok(_)))
    }

    /// Frames that a NIC has not taken from the guard in XDP.
    pub(crate) fn redirect_losses(&self, nic: u32) -> bpf::RedirectLosses {
        self.redirects.get(&nic, 0).unwrap_or_default()
    }

    /// The number of possible processors.
    pub(crate) fn processors(&self) -> usize {
        self.cpus
    }

    /// Enters an address of ours to which packets arrive by a NIC.
    pub(crate) fn add_address(&mut self, nic: u32, address: Address, mac: Mac) -> Result<()> {
        Ok(self.addresses.insert(bpf::AddressKey::new(address, nic), bpf::AddressValue::new(mac), 0)?)
    }

    /// Removes such an address.
    pub(crate) fn remove_address(&mut self, nic: u32, address: Address) {
        let _ = self.addresses.remove(&bpf::AddressKey::new(address, nic));
    }

    /// Enters an address from which lanes may send, with this Ethernet address, by a NIC.
    pub(crate) fn add_source(&mut self, nic: u32, address: Address, mac: Mac) -> Result<()> {
        Ok(self.sources.insert(bpf::SourceKey::new(address, mac), nic, 0)?)
    }

    /// Removes such a source.
    pub(crate) fn remove_source(&mut self, address: Address, mac: Mac) {
        let _ = self.sources.remove(&bpf::SourceKey::new(address, mac));
    }

    /// Notes how the host reaches a peer from an address, as for a connection, or that it does not
    /// now. A query that names an interface, which a lane may make, is not noted. A path of another
    /// type of service is noted only as long as there is no other.
    pub(crate) fn note_path(&mut self, query: &Query, path: &PathInfo) {
        if query.interface != 0 || query.source.is_unspecified() {
            return;
        }
        let flags = if query.tos == 0 { 0 } else { NO_OTHER };
        let ends = bpf::HopKey::new(query.source, query.destination);
        match path.state {
            PathState::Ready => {
                let hop = bpf::HopValue::new(path.next_hop_mac, path.source_mac, path.interface);
                if let Err(error) = self.hops.insert(ends, hop, flags) {
                    tracing::trace!(%error, "a path was not noted");
                }
            }
            // While a neighbour is resolved again, its old Ethernet address is the best known.
            PathState::Resolving => {}
            PathState::Free | PathState::Kernel | PathState::Unreachable if query.tos == 0 => {
                let _ = self.hops.remove(&ends);
            }
            PathState::Free | PathState::Kernel | PathState::Unreachable => {}
        }
    }

    /// What another thread needs to make lanes.
    pub(crate) fn lane_programs(&mut self) -> Result<LanePrograms> {
        let copy = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|error| BpfError::System(format!("copying a descriptor: {error}")))
        };
        Ok(LanePrograms {
            guard: copy(xdp(&mut self.ebpf, program::GUARD)?.fd()?.as_fd())?,
            classifiers: LaneClassifiers::open(&mut self.ebpf)?,
            rings: copy(self.rings.fd().as_fd())?,
            standby_rings: copy(self.standby_rings.fd().as_fd())?,
            lane_mask: self.lane_mask,
        })
    }

    /// Puts a guard onto a device that has the drop filter already.
    pub(crate) fn attach_guard(&mut self, name: &str, index: u32, mode: AttachMode) -> Result<GuardLink> {
        if mode == AttachMode::Native {
            return xdp_guard(xdp(&mut self.ebpf, program::GUARD)?.fd()?.as_fd(), index);
        }
        Ok(GuardLink::Tc(self.classifiers.attach(&mut self.ebpf, program::GUARD_TC, name)?))
    }

    /// Guards a lane's bulk device (trains of segments) in the same way.
    pub(crate) fn attach_bulk_guard(&mut self, name: &str) -> Result<SchedClassifierLink> {
        self.classifiers.drop_all(&mut self.ebpf, name)?;
        self.classifiers.attach(&mut self.ebpf, program::GUARD_BULK, name)
    }

    /// Resets the counters of a lane.
    pub(crate) fn begin_counting(&mut self, lane: LaneId) -> Result<()> {
        let zero = PerCpuValues::try_from(vec![LaneCounters::default(); self.cpus])
            .map_err(|e| BpfError::System(e.to_string()))?;
        Ok(self.lane_counters.set(self.place(lane), zero, 0)?)
    }

    /// The slot of a lane in the arrays.
    pub(crate) fn place(&self, lane: LaneId) -> u32 {
        self.lane_mask.place(lane)
    }

    /// Applies changes in order; if one fails, undoes those before it.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) -> Result<()> {
        let mut done = Vec::with_capacity(changes.len());
        for change in changes {
            if let Err(error) = self.apply_one(&change) {
                for change in done.into_iter().rev() {
                    let _ = self.apply_one(&Change::inverse(change));
                }
                return Err(error);
            }
            done.push(change);
        }
        Ok(())
    }

    /// Applies changes as far as possible: an entry that is gone already needs no removal.
    pub(crate) fn apply_best(&mut self, changes: Vec<Change>) {
        for change in changes {
            if let Err(error) = self.apply_one(&change) {
                tracing::debug!(%error, ?change, "a map did not take a change");
            }
        }
    }

    fn apply_one(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Port { key, before, after } => {
                let bpf_key = bpf::PortKey::new(key.protocol as u8, key.local);
                let kind = if key.local.address.is_unspecified() { port_kind::ANY } else { port_kind::BOUND };
                let value = self.port_value(*key, before, after);
                if let Some(value) = value {
                    if before.is_empty() {
                        self.use_port(*key, kind);
                    }
                    let done = self.ports.insert(bpf_key, value, 0);
                    if done.is_err() && before.is_empty() {
                        self.unuse_port(*key, kind);
                    }
                    done?;
                } else {
                    let done = self.ports.remove(&bpf_key);
                    self.unuse_port(*key, kind);
                    done?;
                }
            }
            Change::Flow { key, before, after } => {
                let FlowKey { protocol, local, remote } = *key;
                let bpf_key = bpf::FlowKey::new(protocol as u8, local, remote);
                let port = PortKey { protocol, local };
                if let Some(title) = after {
                    if before.is_none() {
                        self.use_port(port, port_kind::FLOWS);
                    }
                    let done = self.flows.insert(bpf_key, flow_value(*title), 0);
                    if done.is_err() && before.is_none() {
                        self.unuse_port(port, port_kind::FLOWS);
                    }
                    done?;
                } else {
                    let done = self.flows.remove(&bpf_key);
                    self.unuse_port(port, port_kind::FLOWS);
                    done?;
                }
            }
            Change::Owned { lane, key, before, after } => {
                let kind = if key.local.address.is_unspecified() { port_kind::OWNED_ANY } else { port_kind::OWNED };
                let bpf_key = bpf::OwnedKey::new(*lane, key.protocol as u8, key.local);
                let value = after.map(|share| match share {
                    Share::Whole => bpf::OwnedValue::WHOLE,
                    Share::One(remote) => bpf::OwnedValue::one(remote),
                    Share::Flows => bpf::OwnedValue::FLOWS,
                });
                if let Some(value) = value {
                    if before.is_none() {
                        self.use_port(*key, kind);
                    }
                    let done = self.owned.insert(bpf_key, value, 0);
                    if done.is_err() && before.is_none() {
                        self.unuse_port(*key, kind);
                    }
                    done?;
                } else {
                    let done = self.owned.remove(&bpf_key);
                    self.unuse_port(*key, kind);
                    done?;
                }
            }
        }
        Ok(())
    }

    /// The map value for the lanes of a port. Lanes that join others are told apart from these
    /// until [`Programs::settle`].
    fn port_value(&mut self, key: PortKey, before: &[LaneId], after: &[LaneId]) -> Option<bpf::PortValue> {
        let mut joining = self.joining.remove(&key).unwrap_or_default();
        if key.protocol == Protocol::Tcp && !before.is_empty() {
            joining.extend(after.iter().filter(|lane| !before.contains(lane)));
        }
        let (new, old): (Vec<LaneId>, Vec<LaneId>) = after.iter().partition(|lane| joining.contains(lane));
        let value = bpf::PortValue::joining(&[&old[..], &new].concat(), old.len());
        if !new.is_empty() && !old.is_empty() {
            self.joining.insert(key, new);
        }
        value
    }

    /// Whether lanes are joining a port.
    pub(crate) fn is_joining(&self, key: &PortKey) -> bool {
        self.joining.contains_key(key)
    }

    /// Those of a port's lanes that have not joined it recently.
    pub(crate) fn settled(&self, key: &PortKey, lanes: &[LaneId]) -> Vec<LaneId> {
        let joining = self.joining.get(key).map_or(&[][..], Vec::as_slice);
        lanes.iter().copied().filter(|lane| !joining.contains(lane)).collect()
    }

    /// Ends the joining of a port; `lanes` are all that share it.
    pub(crate) fn settle(&mut self, key: PortKey, lanes: &[LaneId]) {
        if self.joining.remove(&key).is_some()
            && let Some(value) = bpf::PortValue::new(lanes)
            && let Err(error) = self.ports.insert(bpf::PortKey::new(key.protocol as u8, key.local), value, 0)
        {
            tracing::warn!(%error, "a shared port stays as it is");
        }
    }

    /// The lane that received a connection's handshake, if that began while a lane was joining its
    /// port.
    pub(crate) fn handshake(&self, key: &FlowKey) -> Option<LaneId> {
        self.handshakes.get(&bpf::FlowKey::new(key.protocol as u8, key.local, key.remote), 0).ok()
    }

    /// Whether divert knows a flow; true if the map cannot be read.
    pub(crate) fn has_flow(&self, key: &FlowKey) -> bool {
        let key = bpf::FlowKey::new(key.protocol as u8, key.local, key.remote);
        !matches!(self.flows.get(&key, 0), Err(MapError::KeyNotFound))
    }

    /// Enters the lanes that receive copies of a group's datagrams: at the port, and at any port.
    pub(crate) fn set_members(&mut self, change: &GroupChange) -> Result<()> {
        // Both, also after an error: the leave that follows may remove one that was entered.
        let port = self.set_group(&change.port, bpf::GroupValue::new(&change.port.after));
        let any = self.set_group(&change.any_port, bpf::GroupValue::any_port(&change.any_port.after));
        port.and(any)
    }

    fn set_group(&mut self, members: &Members, value: Option<bpf::GroupValue>) -> Result<()> {
        let key = bpf::GroupKey::new(members.key.group, members.key.interface);
        match value {
            _ if members.before == members.after => {}
            Some(value) => self.groups.insert(key, value, 0)?,
            None => self.groups.remove(&key)?,
        }
        Ok(())
    }

    /// The counters of a lane, summed over all processors.
    pub(crate) fn lane_counters(&self, lane: LaneId) -> LaneCounters {
        let mut total = LaneCounters::default();
        if let Ok(values) = self.lane_counters.get(&self.place(lane), 0) {
            values.iter().for_each(|value| total += *value);
        }
        total
    }

    /// What happened to packets on the NICs, in the order of [`HostCounter`], and how many frames
    /// of lanes NICs have not taken.
    pub(crate) fn host_counters(&self) -> [u64; 7] {
        use HostCounter as C;
        let [passed, diverted, copies, vlan, stray, capture] =
            [C::Passed, C::Diverted, C::GroupCopies, C::Vlan, C::StrayFragment, C::CaptureLost]
                .map(|counter| self.host_counters.get(&(counter as u32), 0).map_or(0, |values| values.iter().sum()));
        let lost = self.redirects.iter().flatten().map(|(_, losses)| losses.lost).sum();
        [passed, diverted, copies, vlan, stray, capture, lost]
    }

    /// Counts another entry of this kind for a port.
    fn use_port(&mut self, key: PortKey, kind: u8) {
        let uses = self.port_uses.entry((key.protocol, key.local.port)).or_default();
        let uses = &mut uses[kind.trailing_zeros() as usize];
        *uses += 1;
        if *uses == 1 {
            self.flip_port(key, kind);
        }
    }

    /// Counts one entry less.
    fn unuse_port(&mut self, key: PortKey, kind: u8) {
        let Some(all) = self.port_uses.get_mut(&(key.protocol, key.local.port)) else { return };
        let uses = &mut all[kind.trailing_zeros() as usize];
        if *uses == 0 {
            return;
        }
        *uses -= 1;
        let last = *uses == 0;
        if all.iter().all(|&uses| uses == 0) {
            self.port_uses.remove(&(key.protocol, key.local.port));
        }
        if last {
            self.flip_port(key, kind);
        }
    }

    fn flip_port(&self, key: PortKey, kind: u8) {
        let (word, shift) = bpf::port_kinds(key.protocol as u8, key.local.port);
        self.port_kinds.flip(word, u64::from(kind) << shift);
    }
}

impl GuardLink {
    /// The mode in which the lane is guarded.
    pub(crate) fn mode(&self) -> AttachMode {
        match self {
            Self::Xdp(_) => AttachMode::Native,
            Self::Tc(_) => AttachMode::Tc,
        }
    }
}

fn attach_redirect_watch(ebpf: &mut Ebpf) -> Result<[BtfTracePointLink; 2]> {
    let btf = Btf::from_sys_fs().map_err(|error| BpfError::System(format!("reading the kernel's types: {error}")))?;
    let mut attach = |name, tracepoint| -> Result<BtfTracePointLink> {
        let program: &mut BtfTracePoint = ebpf.program_mut(name).ok_or(BpfError::Missing(name))?.try_into()?;
        program.load(tracepoint, &btf)?;
        let id = program.attach()?;
        Ok(program.take_link(id)?)
    };
    Ok([attach(program::REDIRECT_LOST, "xdp_devmap_xmit")?, attach(program::REDIRECT_REFUSED, "xdp_redirect_err")?])
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

/// The map value for the owner of a flow.
fn flow_value(title: Title) -> bpf::FlowValue {
    match title {
        Title::Kernel => bpf::FlowValue::KERNEL,
        Title::Lane(lane) => bpf::FlowValue::new(lane),
    }
}

fn xdp<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Xdp> {
    Ok(ebpf.program_mut(name).ok_or(BpfError::Missing(name))?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Endpoint;

    #[test]
    fn a_full_map_is_told_apart_and_keeps_what_it_had() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root");
            return;
        }
        crate::run::raise_limits(&Limits::default());
        let mut programs = Programs::load(&Limits { flows: 1, ..Limits::default() }).unwrap();
        let local = Endpoint::new(Address::v4([10, 0, 0, 1]), 80);
        let flow = |port| {
            let remote = Endpoint::new(Address::v4([10, 0, 0, 2]), port);
            Change::Flow {
                key: FlowKey { protocol: Protocol::Tcp, local, remote },
                before: None,
                after: Some(Title::Lane(7)),
            }
        };
        programs.apply((0..1020).map(flow).collect()).unwrap();
        let error = programs.apply((2000..2010).map(flow).collect()).unwrap_err();
        assert!(error.is_full(), "{error}");
        // Changes before the one that did not fit have been undone.
        programs.apply((3000..3004).map(flow).collect()).unwrap();
        assert_eq!(programs.flows.keys().count(), 1024);
        programs.apply((0..1020).chain(3000..3004).map(|port| flow(port).inverse()).collect()).unwrap();
        assert!(programs.port_uses.is_empty());
    }
}
