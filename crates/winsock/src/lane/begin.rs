//! Getting the lane, at the first socket of IP.

use super::alarm::Alarm;
use super::control::Control;
use super::events::Events;
use super::kernel_halves::KernelHalves;
use super::offered_ports::OfferedPorts;
use super::{Core, Lane, helper, without_lane};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, OnceLock};
use tickwire_lane::control::{Reason, Reply};
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_windows::clock;
use tickwire_lane_windows::control::Handles;
use tickwire_lane_windows::event::WakeEvent;
use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide, ReadRing};
use tickwire_lane_windows::port::ProgramPort;
use tickwire_lane_windows::section::SharedSection;
use tickwire_lane_windows::stack_memory::stack_memory;
use tickwire_stack::{Stack, StackConfig};

static LANE: OnceLock<Result<Lane, Reason>> = OnceLock::new();

/// The lane of this process, which is made at the first call.
///
/// # Errors
/// Why it has none; it gets none later either.
pub(crate) fn lane() -> Result<&'static Lane, Reason> {
    let made = LANE.get_or_init(begin);
    let lane = made.as_ref().map_err(|reason| *reason)?;
    static HELPER: OnceLock<bool> = OnceLock::new();
    // After the lane is there, because the helper uses it.
    if *HELPER.get_or_init(|| helper::start(lane)) { Ok(lane) } else { Err(Reason::ServiceError) }
}

/// The lane of this process, if it has one.
pub(crate) fn lane_if_begun() -> Option<&'static Lane> {
    LANE.get()?.as_ref().ok()
}

/// Whether this process has a lane that gets packets.
pub(crate) fn has_packets() -> bool {
    lane_if_begun().is_some_and(|lane| lane.has_packets)
}

/// The connection of a program that has no lane. While it is there, `tickwire stat` shows the
/// program, and why.
static UNSERVED: OnceLock<Control> = OnceLock::new();

fn begin() -> Result<Lane, Reason> {
    let (control, reply, handles) = Control::begin().inspect_err(|reason| without_lane::say(*reason))?;
    let set_up = match reply {
        Reply::Lane { mtu, .. } => set_up(mtu, handles).inspect_err(|reason| control.stay_on_kernel(*reason)),
        Reply::Refused { reason, .. } => Err(reason),
        _ => Err(Reason::Version),
    };
    let Made { core, ring, kernel_halves, alarm } = match set_up {
        Ok(done) => done,
        Err(reason) => {
            let _ = UNSERVED.set(control);
            without_lane::say(reason);
            return Err(reason);
        }
    };
    // A service without a driver gives a lane all the same, which shows the program's sockets.
    let has_packets = control.packets_come().inspect_err(|reason| without_lane::say(*reason)).is_ok();
    Ok(Lane {
        core: Mutex::new(core),
        ring,
        changed: Condvar::new(),
        control,
        is_lost: AtomicBool::new(false),
        has_packets,
        last_packet: AtomicU64::new(clock::now().as_nanos()),
        kernel_halves,
        offered_ports: OfferedPorts::default(),
        alarm,
        has_events: AtomicBool::new(false),
        delivering: Mutex::default(),
        polling: Mutex::default(),
        unfinished: Mutex::default(),
        working: Mutex::default(),
    })
}

/// What a lane is made of.
struct Made {
    core: Core,
    ring: RecordRing<ReadRing>,
    kernel_halves: KernelHalves,
    alarm: Alarm,
}

/// The stack in the memory that the service has made.
fn set_up(mtu: u32, mut handles: Handles) -> Result<Made, Reason> {
    let mut place = 0;
    let mut next = || {
        place += 1;
        handles.take(place - 1).ok_or(Reason::Version)
    };
    let (own, services) = (SharedSection::from(next()?), SharedSection::from(next()?));
    let (doorbell, arrived) = (WakeEvent::from(next()?), WakeEvent::from(next()?));
    let memory = LaneMemory::map(LaneSide::Program, &own, &services).map_err(|_| Reason::ServiceError)?;
    let mut stack = Stack::new(stack_memory(&memory).map_err(|_| Reason::ServiceError)?);
    stack.init(&StackConfig { secret: secret(), ..StackConfig::default() });
    stack.assume_mtu(mtu);
    stack.fill();
    let events = Events::new(&mut stack).map_err(|_| Reason::LaneFull)?;
    let kernel_halves = KernelHalves::new().map_err(|_| Reason::ServiceError)?;
    let alarm = Alarm::new().map_err(|_| Reason::ServiceError)?;
    let port = ProgramPort::new(memory, doorbell, arrived);
    let ring = port.watch();
    let core = Core { stack, port, is_armed: false, generation: 0, is_all_sent: true, sleepers: 0, events };
    Ok(Made { core, ring, kernel_halves, alarm })
}

/// A secret for sequence numbers (RFC 6528): random numbers that the standard library has from the
/// system.
fn secret() -> [u64; 4] {
    use std::hash::{BuildHasher, RandomState};
    std::array::from_fn(|word| RandomState::new().hash_one(word))
}
