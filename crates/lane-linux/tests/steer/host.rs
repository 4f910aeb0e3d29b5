//! The BPF programs in the real kernel, with their maps, in a network namespace with the devices
//! and sockets that they look at. The kernel runs them on single frames (`BPF_PROG_TEST_RUN`);
//! nothing is attached to a device.

use crate::frames::LONGEST;
use crate::maps::{self, FlowBytes, FlowValueBytes, FragmentBytes, FragmentValueBytes, GroupBytes, GroupValueBytes};
use crate::test_run;
use crate::topology::Namespace;
use crate::world::{FAR, HOST, LANES, LOCAL_PORTS, NICS, PEERS, REMOTE_PORTS};
use anyhow::{Context, Result, ensure};
use aya::maps::{Array, DevMapHash, HashMap, Map, MapData, PerCpuArray};
use aya::programs::{SchedClassifier, Xdp};
use aya::{Ebpf, Pod};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tickwire_lane::record_ring::{RING_BYTES, RecordRing};
use tickwire_lane_linux::bpf::{self, HostCounter, map, port_kind, program};
use tickwire_lane_linux::mapped_ring::MappedRing;
use tickwire_lane_linux::sys_packet::PacketSender;
use tickwire_lane_linux::sys_tap::BULK_DEVICE;
use tickwire_lane_linux::{sys_bpf, sys_tap};
use tickwire_stack::addr::Endpoint;
use tickwire_steer::counters::{HostCounters, LaneCounters};
use tickwire_steer::tables::{LaneNumber, NicIndex, Owned, Protocol, Tables};
use tickwire_steer::{Kernel, KernelSocket, Merged};

/// Maps that the service does not touch.
const FRAGMENTS: &str = "fragments";
const FRAGMENTS_OUT: &str = "fragments_out";

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Divert,
    DivertGeneric,
    DivertTc,
    DivertGroups,
    Guard,
    GuardTc,
    GuardBulk,
}

impl Program {
    pub(crate) const ALL: [Self; 7] = [
        Self::Divert,
        Self::DivertGeneric,
        Self::DivertTc,
        Self::DivertGroups,
        Self::Guard,
        Self::GuardTc,
        Self::GuardBulk,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Divert => program::DIVERT,
            Self::DivertGeneric => program::DIVERT_GENERIC,
            Self::DivertTc => program::DIVERT_TC,
            Self::DivertGroups => program::DIVERT_GROUPS,
            Self::Guard => program::GUARD,
            Self::GuardTc => program::GUARD_TC,
            Self::GuardBulk => program::GUARD_BULK,
        }
    }

    pub(crate) const fn is_xdp(self) -> bool {
        matches!(self, Self::Divert | Self::DivertGeneric | Self::Guard)
    }
}

/// A frame that came into a lane's ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) lane: LaneNumber,
    pub(crate) nic: NicIndex,
    pub(crate) frame: Vec<u8>,
}

/// What a program did with a frame.
pub(crate) struct Ran {
    /// What it returned.
    pub(crate) verdict: u32,
    /// What it made of the frame.
    pub(crate) frame: Vec<u8>,
    /// The rings' new records.
    pub(crate) records: Vec<Record>,
}

/// What the programs have learnt from packets, as bytes. The times of fragments are left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Learnt {
    flows: BTreeMap<FlowBytes, FlowValueBytes>,
    handshakes: BTreeMap<FlowBytes, u32>,
    fragments: BTreeMap<FragmentBytes, FragmentValueBytes>,
    sent_fragments: BTreeMap<FragmentBytes, FragmentValueBytes>,
    early: BTreeMap<GroupBytes, u32>,
}

impl Learnt {
    fn new(
        flows: BTreeMap<FlowBytes, FlowValueBytes>,
        handshakes: BTreeMap<FlowBytes, u32>,
        mut fragments: [BTreeMap<FragmentBytes, FragmentValueBytes>; 2],
        groups: &BTreeMap<GroupBytes, GroupValueBytes>,
    ) -> Self {
        fragments.iter_mut().flat_map(BTreeMap::values_mut).for_each(|value| value[..maps::SEEN].fill(0));
        let early = groups.iter().map(|(key, value)| (*key, maps::early(value))).collect();
        let [fragments, sent_fragments] = fragments;
        Self { flows, handshakes, fragments, sent_fragments, early }
    }

    /// What the model has learnt.
    pub(crate) fn of(tables: &Tables) -> Self {
        let fragments = [maps::fragments(tables), maps::sent_fragments(tables)];
        Self::new(maps::flows(tables), maps::handshakes(tables), fragments, &maps::groups(tables))
    }
}

/// The counters of the host, and of each of [`LANES`].
pub(crate) type Counters = (HostCounters, Vec<LaneCounters>);

/// The host.
pub(crate) struct Host {
    bpf: Ebpf,
    rings: Vec<(LaneNumber, RecordRing<MappedRing>)>,
    counted: Counters,
    /// The words of the ports' kinds that are not zero.
    kinds: Vec<u32>,
    _devices: Vec<OwnedFd>,
    _sockets: (TcpListener, [TcpStream; 2]),
}

impl Host {
    /// Prepares the host in the network namespace of the calling thread, `here`. The other one has
    /// the peers.
    pub(crate) fn new(here: &Namespace, far: &Namespace) -> Result<Self> {
        for (at, (nic, mac, mtu)) in NICS.into_iter().enumerate() {
            here.ip(&format!(
                "link add nic{at} index {nic} mtu {mtu} address {mac} type veth peer name far{at} address {FAR} netns {}; \
                 address add {}/24 dev nic{at}; link set nic{at} up",
                far.path(),
                HOST[at]
            ))?;
        }
        far.ip(&format!("address add {}/24 dev far0; link set far0 up; link set far1 up", PEERS[0]))?;
        let mut bpf = Ebpf::load(bpf::HOST)?;
        for which in Program::ALL {
            let program = bpf.program_mut(which.name()).context("a known program")?;
            if which.is_xdp() {
                <&mut Xdp>::try_from(program)?.load()
            } else {
                <&mut SchedClassifier>::try_from(program)?.load()
            }
            .with_context(|| format!("{which:?}"))?;
        }
        // By the second one no frame can be redirected: so the verdict tells them apart.
        let mut nics: DevMapHash<_> = bpf.map_mut(map::NICS).context("a known map")?.try_into()?;
        nics.insert(NICS[0].0, NICS[0].0, None, 0)?;
        let (mut rings, mut devices) = (Vec::new(), Vec::new());
        for lane in LANES {
            devices.push(sys_tap::create(&format!("lane{lane}"), lane, false)?);
            devices.push(sys_tap::create(&format!("bulk{lane}"), lane | BULK_DEVICE, true)?);
            let ring = sys_bpf::create_ring(RING_BYTES)?;
            let Some(Map::ArrayOfMaps(array)) = bpf.map_mut(map::RINGS) else { anyhow::bail!("an array of maps") };
            sys_bpf::set_inner(array.fd().as_fd(), lane & bpf::DEFAULT_LANE_MASK, ring.as_fd())?;
            rings.push((lane, RecordRing::new(MappedRing::map(ring, RING_BYTES)?)));
        }
        let sockets = sockets(far)?;
        let counted = (HostCounters::default(), vec![LaneCounters::default(); LANES.len()]);
        Ok(Self { bpf, rings, counted, kinds: Vec::new(), _devices: devices, _sockets: sockets })
    }

    fn hash<K: Pod, V: Pod>(&mut self, name: &str) -> Result<HashMap<&mut MapData, K, V>> {
        Ok(self.bpf.map_mut(name).context("a known map")?.try_into()?)
    }

    /// The entries of a map.
    fn entries<K: Pod + Ord, V: Pod>(&mut self, name: &str) -> Result<BTreeMap<K, V>> {
        Ok(self.hash::<K, V>(name)?.iter().collect::<Result<_, _>>()?)
    }

    /// Puts these entries in the place of all that a map has.
    fn replace<K: Pod, V: Pod>(&mut self, name: &str, entries: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let mut map = self.hash::<K, V>(name)?;
        let old: Vec<K> = map.keys().collect::<Result<_, _>>()?;
        for key in old {
            map.remove(&key)?;
        }
        for (key, value) in entries {
            map.insert(key, value, 0)?;
        }
        Ok(())
    }

    /// Enters tables into the maps, and counts from zero.
    pub(crate) fn fill(&mut self, tables: &Tables) -> Result<()> {
        self.replace(map::FLOWS, maps::flows(tables))?;
        self.replace(map::HANDSHAKES, maps::handshakes(tables))?;
        self.replace(map::GROUPS, maps::groups(tables))?;
        self.replace(FRAGMENTS, maps::fragments(tables))?;
        self.replace(FRAGMENTS_OUT, maps::sent_fragments(tables))?;
        let shares = tables.ports.iter().map(|(key, share)| -> Result<_> {
            let value = bpf::PortValue::joining(&share.lanes, share.settled).context("lanes")?;
            Ok((bpf::PortMapKey::new(key.protocol.number(), key.local), value))
        });
        let shares: Vec<_> = shares.collect::<Result<_>>()?;
        self.replace(map::PORTS, shares)?;
        let addresses = tables.addresses.iter();
        let addresses =
            addresses.map(|(key, &mac)| (bpf::AddressMapKey::new(key.address, key.nic), bpf::AddressValue::new(mac)));
        self.replace(map::ADDRESSES, addresses)?;
        let sources = tables.sources.iter();
        self.replace(map::SOURCES, sources.map(|(key, &nic)| (bpf::SourceMapKey::new(key.address, key.mac), nic)))?;
        let hops = tables.hops.iter().map(|(key, hop)| {
            let key = bpf::HopMapKey::new(key.source, key.destination);
            (key, bpf::HopValue::new(hop.destination, hop.source, hop.nic))
        });
        self.replace(map::HOPS, hops)?;
        let owned = tables.owned.iter().map(|(key, owned)| {
            let value = match *owned {
                Owned::Whole => bpf::OwnedValue::WHOLE,
                Owned::One(remote) => bpf::OwnedValue::one(remote),
                Owned::Flows => bpf::OwnedValue::FLOWS,
            };
            (bpf::OwnedMapKey::new(key.lane, key.protocol.number(), key.local), value)
        });
        self.replace(map::OWNED, owned)?;
        self.fill_kinds(tables)?;
        self.counted = (HostCounters::default(), vec![LaneCounters::default(); LANES.len()]);
        self.counted = self.counters()?;
        Ok(())
    }

    /// Marks the ports that have entries.
    fn fill_kinds(&mut self, tables: &Tables) -> Result<()> {
        let or = |local: Endpoint, exact, any| if local.address.is_unspecified() { any } else { exact };
        let flows = tables.flows.keys().map(|key| (key.protocol, key.local.port, port_kind::FLOWS));
        let ports = tables.ports.keys();
        let ports = ports.map(|key| (key.protocol, key.local.port, or(key.local, port_kind::BOUND, port_kind::ANY)));
        let owned = tables.owned.keys();
        let owned =
            owned.map(|key| (key.protocol, key.local.port, or(key.local, port_kind::OWNED, port_kind::OWNED_ANY)));
        let mut words = BTreeMap::<u32, u64>::new();
        let marks: Vec<(Protocol, u16, u8)> = flows.chain(ports).chain(owned).collect();
        for (protocol, port, kind) in marks {
            let (word, shift) = bpf::port_kinds(protocol.number(), port);
            *words.entry(word).or_default() |= u64::from(kind) << shift;
        }
        let mut map: Array<_, u64> = self.bpf.map_mut(map::PORT_KINDS).context("a known map")?.try_into()?;
        for word in self.kinds.drain(..) {
            map.set(word, 0, 0)?;
        }
        for (word, bits) in words {
            map.set(word, bits, 0)?;
            self.kinds.push(word);
        }
        Ok(())
    }

    /// What the programs have learnt.
    pub(crate) fn learnt(&mut self) -> Result<Learnt> {
        let fragments = [self.entries(FRAGMENTS)?, self.entries(FRAGMENTS_OUT)?];
        Ok(Learnt::new(
            self.entries(map::FLOWS)?,
            self.entries(map::HANDSHAKES)?,
            fragments,
            &self.entries(map::GROUPS)?,
        ))
    }

    /// What has been counted since the tables were entered.
    pub(crate) fn counters(&mut self) -> Result<Counters> {
        let map = self.bpf.map_mut(map::HOST_COUNTERS).context("a known map")?;
        let counters: PerCpuArray<_, u64> = map.try_into()?;
        let sum = |which: HostCounter, before: u64| -> Result<u64> {
            Ok(counters.get(&(which as u32), 0)?.iter().sum::<u64>() - before)
        };
        let before = &self.counted.0;
        let host = HostCounters {
            passed: sum(HostCounter::Passed, before.passed)?,
            diverted: sum(HostCounter::Diverted, before.diverted)?,
            group_copies: sum(HostCounter::GroupCopies, before.group_copies)?,
            vlan: sum(HostCounter::Vlan, before.vlan)?,
            stray_fragments: sum(HostCounter::StrayFragment, before.stray_fragments)?,
        };
        let map = self.bpf.map_mut(map::LANE_COUNTERS).context("a known map")?;
        let counters: PerCpuArray<_, bpf::LaneCountersValue> = map.try_into()?;
        let mut lanes = Vec::new();
        for (lane, before) in LANES.iter().zip(&self.counted.1) {
            let mut sum = bpf::LaneCountersValue::default();
            counters.get(&(lane & bpf::DEFAULT_LANE_MASK), 0)?.iter().for_each(|&one| sum += one);
            ensure!(sum.lost_packets == 0, "a ring is full");
            let mut refused = before.refused;
            refused.iter_mut().zip(sum.refused).for_each(|(before, now)| *before = now - *before);
            lanes.push(LaneCounters {
                in_packets: sum.in_packets - before.in_packets,
                in_bytes: sum.in_bytes - before.in_bytes,
                out_packets: sum.out_packets - before.out_packets,
                out_bytes: sum.out_bytes - before.out_bytes,
                refused,
            });
        }
        Ok((host, lanes))
    }

    fn program(&self, which: Program) -> Result<BorrowedFd<'_>> {
        Ok(self.bpf.program(which.name()).context("a known program")?.fd()?.as_fd())
    }

    /// Has the kernel run a program on a frame by a device.
    pub(crate) fn run(&self, which: Program, device: u32, frame: &[u8], merged: Option<Merged>) -> Result<Ran> {
        /// Places of `ifindex`, `gso_segs` and `gso_size` among the words of `struct __sk_buff`.
        const IFINDEX: usize = 10;
        const SEGMENTS: usize = 41;
        const SIZE: usize = 44;
        let mut output = vec![0; LONGEST + 64];
        let program = self.program(which)?;
        let ran = if which.is_xdp() {
            // `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index,
            // egress_ifindex.
            test_run::run_into(program, &[0, frame.len() as u32, 0, device, 0, 0], frame, 1, &mut output)?
        } else {
            let mut context = [0; 48];
            context[IFINDEX] = device;
            if let Some(Merged { segment, packets }) = merged {
                (context[SIZE], context[SEGMENTS]) = (segment, packets.unwrap_or(0));
            }
            test_run::run_into(program, &context, frame, 1, &mut output)?
        };
        output.truncate(ran.length);
        let mut records = Vec::new();
        for (lane, ring) in &self.rings {
            ring.read(64, |packet, read| {
                let mut frame = vec![0; packet.len as usize];
                read(0, &mut frame);
                records.push(Record { lane: *lane, nic: packet.interface, frame });
            });
        }
        Ok(Ran { verdict: ran.verdict, frame: output, records })
    }
}

/// The kernel's sockets, as [`sockets`] makes them.
pub(crate) struct Sockets;

impl Kernel for Sockets {
    fn tcp_socket(&self, local: Endpoint, remote: Endpoint) -> Option<KernelSocket> {
        let is_of = |peer, port: usize| local.address == HOST[0] && remote == Endpoint::new(peer, REMOTE_PORTS[port]);
        if local.port != LOCAL_PORTS[3] {
            None
        } else if is_of(PEERS[0], 0) {
            Some(KernelSocket::Connection)
        } else if is_of(PEERS[0], 1) {
            Some(KernelSocket::TimeWait)
        } else if is_of(PEERS[1], 2) {
            Some(KernelSocket::Request)
        } else {
            Some(KernelSocket::Listener)
        }
    }
}

/// Makes a listener of the kernel's, and with peers a connection, one that is over, and one that is
/// being opened by a station that does not go on.
fn sockets(far: &Namespace) -> Result<(TcpListener, [TcpStream; 2])> {
    let port = LOCAL_PORTS[3];
    let listener = TcpListener::bind(("::", port))?;
    let connect = |remote: u16| {
        far.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", format!("{remote} {remote}"))?;
            let stream = TcpStream::connect((std::net::IpAddr::from(HOST[0]), port))?;
            stream.set_read_timeout(Some(Duration::from_secs(3)))?;
            anyhow::Ok(stream)
        })
    };
    let mut over = connect(REMOTE_PORTS[1])?;
    drop(listener.accept()?);
    // Until the kernel's end has sent its FIN, so that it is the one that waits.
    ensure!(std::io::Read::read(&mut over, &mut [0])? == 0, "the connection ends");
    drop(over);
    let stream = connect(REMOTE_PORTS[0])?;
    let (accepted, _) = listener.accept()?;
    let sender = far.run(|| PacketSender::open(far.index("far0")?).context("a packet socket"))?;
    sender.send(&syn(REMOTE_PORTS[2], port))?;
    // For the kernel to have received what is on its way.
    std::thread::sleep(Duration::from_millis(100));
    Ok((listener, [stream, accepted]))
}

/// A SYN from the second peer, with its checksums.
fn syn(from: u16, to: u16) -> Vec<u8> {
    let sum = |bytes: &[u8]| -> [u8; 2] {
        let sum: u32 = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
    };
    let ([peer, host], length) = ([PEERS[1], HOST[0]].map(|end| end.to_v4().unwrap_or_default()), 20_u8);
    let mut tcp = [from.to_be_bytes(), to.to_be_bytes()].concat();
    tcp.extend([0, 0, 0, 100, 0, 0, 0, 0, 0x50, 2, 0x40, 0, 0, 0, 0, 0]);
    let pseudo = [&peer[..], &host, &[0, 6, 0, length], &tcp].concat();
    tcp[16..18].copy_from_slice(&sum(&pseudo));
    let mut ip = [&[0x45, 0, 0, 20 + length, 0, 1, 0, 0, 64, 6, 0, 0][..], &peer, &host].concat();
    let checksum = sum(&ip);
    ip[10..12].copy_from_slice(&checksum);
    [&NICS[0].1.0[..], &FAR.0, &[8, 0], &ip, &tcp].concat()
}
