//! The guard on lanes' devices, and lanes' rings. A part of it is for another thread, which makes
//! and removes lanes.

use super::classifiers::LaneClassifiers;
use super::{BpfError, Programs, Result, xdp};
use aya::programs::tc::SchedClassifierLink;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::Builder;
use tickwire_lane::control::AttachMode;
use tickwire_lane::record_ring::RING_BYTES;
use tickwire_lane_linux::bpf::program;
use tickwire_lane_linux::standby_ring::STANDBY_RING_BYTES;
use tickwire_lane_linux::sys_bpf;
use tickwire_registry::LaneId;

/// How the guard is attached to a lane's TAP device; dropping it detaches.
#[derive(Debug)]
pub(crate) enum GuardLink {
    Xdp(#[expect(dead_code, reason = "held to stay attached")] OwnedFd),
    Tc(#[expect(dead_code, reason = "held to stay attached")] SchedClassifierLink),
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
    maps: Arc<RingMaps>,
}

/// The arrays in which the BPF programs find the rings of lanes.
pub(crate) struct RingMaps {
    rings: OwnedFd,
    standby_rings: OwnedFd,
    lane_mask: LaneMask,
}

/// The bits of a lane's number that select its slot in the arrays. Two devices may have the same
/// slot, lanes that exist at the same time may not.
#[derive(Clone, Copy)]
pub(super) struct LaneMask(u32);

impl LaneMask {
    /// The mask for so many slots, a power of two.
    pub(super) fn new(places: u32) -> Self {
        Self(places - 1)
    }

    fn place(self, lane: LaneId) -> u32 {
        lane & self.0
    }
}

impl RingMaps {
    /// Makes the rings of a lane, which makes it reachable.
    pub(crate) fn add_lane(&self, lane: LaneId) -> Result<LaneRings> {
        let ring = |bytes| sys_bpf::create_ring(bytes);
        let made = ring(RING_BYTES).and_then(|receive| {
            let rings = LaneRings { receive, standby: ring(STANDBY_RING_BYTES)? };
            self.enter(lane, &rings)?;
            Ok(rings)
        });
        made.map_err(|error| BpfError::System(format!("making a lane's rings: {error}")))
    }

    fn enter(&self, lane: LaneId, rings: &LaneRings) -> io::Result<()> {
        let set = |map: &OwnedFd, ring: &OwnedFd| sys_bpf::set_inner(map.as_fd(), self.place(lane), ring.as_fd());
        let set_standby = || set(&self.standby_rings, &rings.standby);
        let (receive, standby) = at_the_same_time(set_standby, || set(&self.rings, &rings.receive));
        receive.and(standby)
    }

    /// Removes the rings of a lane, if it has any, which makes it unreachable.
    pub(crate) fn remove_lane(&self, lane: LaneId) {
        let remove = |map: &OwnedFd| sys_bpf::remove_inner(map.as_fd(), self.place(lane));
        let _ = at_the_same_time(|| remove(&self.standby_rings), || remove(&self.rings));
    }

    /// The slot of a lane in the arrays.
    fn place(&self, lane: LaneId) -> u32 {
        self.lane_mask.place(lane)
    }
}

/// Does two things that wait for the kernel, the first on a thread of its own. An entry in a map of
/// maps, for instance, is changed after an RCU grace period, which takes 10 ms and more, and can be
/// the same one for both. Where there is no thread, one comes after the other.
fn at_the_same_time<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let thread = Builder::new().name("kernel".into()).stack_size(256 << 10).spawn_scoped(scope, &first);
        let second = second();
        let first = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => first(),
        };
        (first, second)
    })
}

impl LanePrograms {
    /// The slot of a lane in the arrays.
    pub(crate) fn place(&self, lane: LaneId) -> u32 {
        self.maps.place(lane)
    }

    /// The arrays of all rings.
    pub(crate) fn ring_maps(&self) -> &Arc<RingMaps> {
        &self.maps
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
}

fn xdp_guard(guard: BorrowedFd<'_>, device: u32) -> Result<GuardLink> {
    let link = sys_bpf::attach_xdp(guard, device);
    link.map(GuardLink::Xdp).map_err(|error| BpfError::System(format!("attaching the guard: {error}")))
}

impl Programs {
    /// What another thread needs to make lanes.
    pub(crate) fn lane_programs(&mut self) -> Result<LanePrograms> {
        let copy = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|error| BpfError::System(format!("copying a descriptor: {error}")))
        };
        Ok(LanePrograms {
            guard: copy(xdp(&mut self.ebpf, program::GUARD)?.fd()?.as_fd())?,
            classifiers: LaneClassifiers::open(&mut self.ebpf)?,
            maps: Arc::new(RingMaps {
                rings: copy(self.rings.fd().as_fd())?,
                standby_rings: copy(self.standby_rings.fd().as_fd())?,
                lane_mask: self.lane_mask,
            }),
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

    /// The slot of a lane in the arrays.
    pub(crate) fn place(&self, lane: LaneId) -> u32 {
        self.lane_mask.place(lane)
    }
}
