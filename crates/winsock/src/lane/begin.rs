//! Getting the lane, at the first socket of IP.

use super::control::Control;
use super::{Core, Lane, helper};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, OnceLock};
use tickwire_lane::control::{Reason, Reply};
use tickwire_lane_windows::clock;
use tickwire_lane_windows::event::WakeEvent;
use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide};
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

fn begin() -> Result<Lane, Reason> {
    let (control, reply, mut handles) = Control::begin()?;
    let mtu = match reply {
        Reply::Lane { mtu, .. } => mtu,
        Reply::Refused { reason, .. } => return Err(reason),
        _ => return Err(Reason::Version),
    };
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
    let port = ProgramPort::new(memory, doorbell, arrived);
    let ring = port.watch();
    Ok(Lane {
        core: Mutex::new(Core { stack, port, is_armed: false, generation: 0, is_all_sent: true, sleepers: 0 }),
        ring,
        changed: Condvar::new(),
        control,
        is_lost: AtomicBool::new(false),
        last_packet: AtomicU64::new(clock::now().as_nanos()),
        unfinished: Mutex::default(),
        working: Mutex::default(),
    })
}

/// A secret for sequence numbers (RFC 6528): random numbers that the standard library has from the
/// system.
fn secret() -> [u64; 4] {
    use std::hash::{BuildHasher, RandomState};
    std::array::from_fn(|word| RandomState::new().hash_one(word))
}
