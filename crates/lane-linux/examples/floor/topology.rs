//! Topology: two hosts (network namespaces) on one cable (a veth pair), each with one lane, made
//! without the service.
//!
//! The namespaces have no names and belong to this process: whatever happens, nothing is left
//! behind.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use aya::Ebpf;
use aya::maps::{Array, DevMapHash, HashMap, Map, MapData, PerCpuArray};
use aya::programs::tc::{NlOptions, TcAttachOptions, TcError, qdisc_add_clsact};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType, Xdp, XdpMode};
use tickwire_lane::record_ring::{RING_BYTES, RecordRing};
use tickwire_lane_linux::bpf::{self, map, port_kind, program};
use tickwire_lane_linux::mapped_ring::MappedRing;
use tickwire_lane_linux::standby_ring::{STANDBY_RING_BYTES, StandbyRing};
use tickwire_lane_linux::sys_ethtool::switch_transmit_checksums_off;
use tickwire_lane_linux::{sys_bpf, sys_tap};
use tickwire_stack::addr::{Address, Endpoint, Mac};

/// The port that both ends own.
pub const PORT: u16 = 7007;
/// The number of a host's only lane.
const LANE: u32 = 77;
const UDP: u8 = 17;
const TCP: u8 = 6;

/// A network namespace of our own.
pub struct Namespace(File);

impl Namespace {
    pub fn new() -> Result<Self> {
        let made = std::thread::spawn(|| -> io::Result<Self> {
            // SAFETY: no memory is passed; concerns only this thread.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            for family in ["all", "default"] {
                // Neighbour discovery and its like would disturb the measurement. A kernel without
                // IPv6 has no such file.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{family}/disable_ipv6"), "1");
            }
            Ok(Self(File::open("/proc/thread-self/ns/net")?))
        });
        made.join().expect("does not panic").context("a network namespace (this needs root)")
    }

    /// Moves the calling thread in.
    pub fn enter(&self) {
        // SAFETY: no memory is passed; concerns only this thread.
        assert_eq!(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
    }

    /// Does something inside.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|s| {
            let thread = s.spawn(|| {
                self.enter();
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// What `ip` takes for it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs `ip` (several commands, separated by `;`) inside.
    pub fn ip(&self, commands: &str) -> Result<()> {
        self.run(|| {
            for command in commands.split(';') {
                let output =
                    Command::new("ip").args(command.split_whitespace()).output().context("cannot run ip (iproute2)")?;
                let error = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "ip {}: {error}", command.trim());
            }
            Ok(())
        })
    }

    pub fn index(&self, device: &str) -> Result<u32> {
        self.run(|| {
            let name = std::ffi::CString::new(device)?;
            // SAFETY: `name` is a C string.
            match unsafe { libc::if_nametoindex(name.as_ptr()) } {
                0 => Err(io::Error::last_os_error()).context(format!("device {device}")),
                index => Ok(index),
            }
        })
    }
}

/// How divert is attached to the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divert {
    Native,
    Generic,
    Tc,
}

/// How the guard is attached to the TAP device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    Xdp,
    Tc,
    /// Only what is left when the service has died: the filter that drops everything.
    Gone,
}

/// One host of the topology.
pub struct Host {
    pub ns: Namespace,
    pub address: Ipv4Addr,
    pub mac: Mac,
    pub nic: u32,
    bpf: Option<Ebpf>,
}

/// One lane: what the service keeps, and what the program gets.
pub struct Lane {
    /// Its number: the interface index of its TAP device.
    pub number: u32,
    pub tap: OwnedFd,
    pub ring: OwnedFd,
    pub standby: OwnedFd,
}

/// Two hosts on one cable of the given MTU.
pub fn cable(mtu: u32, jumbo_ready: bool) -> Result<[Host; 2]> {
    let (a, b) = (Namespace::new()?, Namespace::new()?);
    a.ip(&format!(
        "link add nic0 mtu {mtu} address 02:00:00:00:00:01 type veth peer name nic0 mtu {mtu} address 02:00:00:00:00:02 netns {}",
        b.path()
    ))?;
    let host = |ns: Namespace, n: u8| -> Result<Host> {
        ns.ip(&format!("address add 10.77.0.{n}/24 dev nic0; link set nic0 up; link set lo up"))?;
        if !jumbo_ready {
            // As a wire would have it: whole checksums.
            ns.run(|| switch_transmit_checksums_off("nic0"))?;
        }
        let nic = ns.index("nic0")?;
        Ok(Host { ns, address: Ipv4Addr::new(10, 77, 0, n), mac: Mac([2, 0, 0, 0, 0, n]), nic, bpf: None })
    };
    Ok([host(a, 1)?, host(b, 2)?])
}

impl Host {
    fn maps(&mut self) -> &mut Ebpf {
        self.bpf.as_mut().expect("divert first")
    }

    /// Has divert wake by frames in native XDP, too.
    pub fn set_wake_frames(&mut self) -> Result<()> {
        let mut settings: Array<_, u32> = self.maps().map_mut(map::SETTINGS).context("a known map")?.try_into()?;
        Ok(settings.set(0, bpf::setting::WAKE_FRAMES, 0)?)
    }

    fn hash<K: aya::Pod, V: aya::Pod>(&mut self, name: &str) -> HashMap<&mut MapData, K, V> {
        HashMap::try_from(self.maps().map_mut(name).expect("a known map")).expect("a hash map")
    }

    fn xdp(bpf: &mut Ebpf, name: &str, device: u32, mode: XdpMode) -> Result<()> {
        let program: &mut Xdp = bpf.program_mut(name).context("a known program")?.try_into()?;
        program.load()?;
        program.attach_to_if_index(device, mode).with_context(|| format!("{name} as {mode:?}"))?;
        Ok(())
    }

    /// Attaches a classifier behind those that the device has: as a TCX link where the kernel has
    /// these (6.6), else as a legacy filter, which runs in the order of its priority.
    fn tc(bpf: &mut Ebpf, name: &str, device: &str, priority: u16) -> Result<()> {
        let program: &mut SchedClassifier = bpf.program_mut(name).context("a known program")?.try_into()?;
        program.load()?;
        let tcx = TcAttachOptions::TcxOrder(LinkOrder::default());
        if program.attach_with_options(device, TcAttachType::Ingress, tcx).is_ok() {
            return Ok(());
        }
        match qdisc_add_clsact(device) {
            Ok(()) | Err(TcError::AlreadyAttached) => {}
            Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => {}
            Err(error) => return Err(error).with_context(|| format!("a place for filters on {device}")),
        }
        let legacy = TcAttachOptions::Netlink(NlOptions { priority, ..NlOptions::default() });
        program.attach_with_options(device, TcAttachType::Ingress, legacy).with_context(|| format!("{name} at tc"))?;
        Ok(())
    }

    /// Attaches divert to the NIC.
    pub fn divert(&mut self, how: Divert) -> Result<()> {
        let nic = self.nic;
        let mut bpf = Ebpf::load(bpf::HOST)?;
        self.ns.run(|| -> Result<()> {
            match how {
                Divert::Native => Self::xdp(&mut bpf, program::DIVERT, nic, XdpMode::Driver)?,
                Divert::Generic => Self::xdp(&mut bpf, program::DIVERT_GENERIC, nic, XdpMode::Skb)?,
                Divert::Tc => Self::tc(&mut bpf, program::DIVERT_TC, "nic0", 1)?,
            }
            if how != Divert::Tc {
                Self::tc(&mut bpf, program::DIVERT_GROUPS, "nic0", 1)?;
            }
            let mut nics: DevMapHash<_> = bpf.map_mut(map::NICS).context("a known map")?.try_into()?;
            nics.insert(nic, nic, None, 0)?;
            Ok(())
        })?;
        self.bpf = Some(bpf);
        let mac = self.mac;
        for address in self.addresses() {
            self.hash(map::ADDRESSES).insert(bpf::AddressMapKey::new(address, nic), bpf::AddressValue::new(mac), 0)?;
            self.hash(map::SOURCES).insert(bpf::SourceMapKey::new(address, mac), nic, 0)?;
        }
        Ok(())
    }

    /// Makes a lane. It owns nothing yet.
    pub fn lane(&mut self, guard: Guard) -> Result<Lane> {
        let tap = self.ns.run(|| sys_tap::create("lane", LANE, false)).context("a TAP device")?;
        self.ns.ip("link set lane arp off; link set lane up")?;
        let ring = sys_bpf::create_ring(RING_BYTES).context("a ring buffer")?;
        let bpf = self.bpf.as_mut().context("divert first")?;
        self.ns.run(|| -> Result<()> {
            match guard {
                Guard::Xdp => Self::xdp(bpf, program::GUARD, LANE, XdpMode::Driver)?,
                Guard::Tc => Self::tc(bpf, program::GUARD_TC, "lane", 1)?,
                Guard::Gone => {}
            }
            Self::tc(bpf, program::DROP_ALL, "lane", 2)
        })?;
        let Some(Map::ArrayOfMaps(rings)) = bpf.map_mut(map::RINGS) else { anyhow::bail!("an array of maps") };
        sys_bpf::set_inner(rings.fd().as_fd(), LANE & bpf::DEFAULT_LANE_MASK, ring.as_fd())?;
        let standby = sys_bpf::create_ring(STANDBY_RING_BYTES).context("a ring buffer")?;
        let Some(Map::ArrayOfMaps(rings)) = bpf.map_mut(map::STANDBY_RINGS) else { anyhow::bail!("an array of maps") };
        sys_bpf::set_inner(rings.fd().as_fd(), LANE & bpf::DEFAULT_LANE_MASK, standby.as_fd())?;
        Ok(Lane { number: LANE, tap, ring, standby })
    }

    /// The addresses of the host. That of IPv6 is known to the programs only, not to the kernel.
    pub fn addresses(&self) -> [Address; 2] {
        let mut v6 = [0; 16];
        (v6[0], v6[1], v6[15]) = (0xfd, 0x77, self.address.octets()[3]);
        [self.address.into(), Address(v6)]
    }

    /// Lets the lane send from a port and receive what comes to it.
    pub fn claim(&mut self, lane: &Lane, port: u16) -> Result<()> {
        self.claim_at(lane, self.addresses(), port)
    }

    /// The same at these addresses.
    pub fn claim_at(&mut self, lane: &Lane, addresses: [Address; 2], port: u16) -> Result<()> {
        self.claim_of(lane, UDP, addresses, port)
    }

    /// The same for TCP.
    pub fn claim_tcp(&mut self, lane: &Lane, port: u16) -> Result<()> {
        self.claim_of(lane, TCP, self.addresses(), port)
    }

    fn claim_of(&mut self, lane: &Lane, protocol: u8, addresses: [Address; 2], port: u16) -> Result<()> {
        for address in addresses {
            let local = Endpoint::new(address, port);
            self.hash(map::OWNED).insert(
                bpf::OwnedMapKey::new(lane.number, protocol, local),
                bpf::OwnedValue::WHOLE,
                0,
            )?;
            let value = bpf::PortValue::new(&[lane.number]).context("one lane")?;
            self.hash(map::PORTS).insert(bpf::PortMapKey::new(protocol, local), value, 0)?;
        }
        let (word, shift) = bpf::port_kinds(protocol, port);
        let any = addresses.iter().any(|address| address.is_unspecified());
        let kinds = if any { port_kind::ANY | port_kind::OWNED_ANY } else { port_kind::BOUND | port_kind::OWNED };
        let mut map: Array<_, u64> = self.maps().map_mut(map::PORT_KINDS).context("a known map")?.try_into()?;
        let old = map.get(&word, 0)?;
        map.set(word, old | u64::from(kinds) << shift, 0)?;
        Ok(())
    }

    /// A loaded program.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>> {
        let bpf = self.bpf.as_ref().context("divert first")?;
        Ok(bpf.program(name).context("a known program")?.fd()?.as_fd())
    }

    /// What the programs counted for a lane, all processors together.
    pub fn lane_counters(&mut self, lane: &Lane) -> Result<bpf::LaneCountersValue> {
        let map = self.maps().map_mut(map::LANE_COUNTERS).context("a known map")?;
        let counters: PerCpuArray<_, bpf::LaneCountersValue> = map.try_into()?;
        let mut sum = bpf::LaneCountersValue::default();
        for &one in counters.get(&(lane.number & bpf::DEFAULT_LANE_MASK), 0)?.iter() {
            sum += one;
        }
        Ok(sum)
    }
}

impl Lane {
    /// What wakes the standby thread.
    pub fn standby(&self) -> Result<StandbyRing> {
        Ok(StandbyRing::map(self.standby.try_clone()?)?)
    }

    /// What the program makes of the descriptors.
    pub fn open(&self) -> Result<(RecordRing<MappedRing>, OwnedFd)> {
        Ok((RecordRing::new(MappedRing::map(self.ring.try_clone()?, RING_BYTES)?), self.tap.try_clone()?))
    }
}
