//! How a process gets its lane: with its first IP socket, and again when the service came back.

use crate::c::shared::Shared;
use crate::c::sys;
use crate::config::Settings;
use crate::desc::single;
use crate::errno::Errno;
use crate::lane::{self, Handover, Lane, Parts};
use crate::protect;
use crate::session::Session;
use crate::wire::Wire;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};
use tickwire_link::control::{Channel, Descriptors, Name, Reason, Reply, Request, Token, socket_path};
use tickwire_link::region::Region;
use tickwire_stack::time::Span;
use tickwire_stack::{Config, Limits, Memory};

/// How often at most the service is asked for a lane.
const RETRY: Span = Span::from_secs(1);

/// When the service may be asked again, in nanoseconds of the monotonic clock.
static RETRY_AT: AtomicU64 = AtomicU64::new(0);
/// One thread asks at a time.
static STARTING: Mutex<()> = Mutex::new(());
/// The reason that was told on standard error last.
static TOLD: Mutex<Option<Reason>> = Mutex::new(None);
static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings of this process.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| {
        let (settings, complaint) = Settings::read(|name| std::env::var(name).ok());
        if let Some(complaint) = complaint {
            sys::say(&complaint);
        }
        settings
    })
}

/// The lane of this process, made if there is none yet. `None`: sockets stay on the kernel.
pub(crate) fn lane() -> Option<&'static Lane> {
    if let Some(lane) = lane::current() {
        return Some(lane);
    }
    // A handler that interrupted us in here, or in the lane, cannot make one.
    if crate::wait::is_inside() {
        return None;
    }
    let now = sys::now().as_nanos();
    if now < RETRY_AT.load(Relaxed) {
        return None;
    }
    let _one = STARTING.try_lock().ok()?;
    if let Some(lane) = lane::current() {
        return Some(lane);
    }
    match connect() {
        Ok(lane) => {
            *TOLD.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let lane = lane::install(lane);
            crate::helper::start();
            Some(lane)
        }
        Err(reason) => {
            RETRY_AT.store(now + RETRY.as_nanos(), Relaxed);
            refused(reason);
            None
        }
    }
}

/// Says why the program is not accelerated, once; ends it if it must not run so.
fn refused(reason: Reason) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let known = told.is_none() && settings().noted && matches!(reason, Reason::NoService | Reason::NotPermitted);
    if *told != Some(reason) {
        *told = Some(reason);
        if known {
            return;
        }
        sys::say(&format!("not accelerated, running on the kernel's stack: {reason}"));
    }
    if settings().require {
        sys::say("acceleration is required (--require), so the program ends here");
        std::process::exit(69);
    }
}

fn connect() -> Result<Lane, Reason> {
    let channel = Channel::connect(&socket_path()).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Reason::NotPermitted,
        _ => Reason::NoService,
    })?;
    let channel = kept(channel)?;
    let mut session = Session::new(channel);
    let hello = Request::Hello { program: Name::new(&program()), layout: Memory::LAYOUT_HASH };
    match session.call(&hello, None) {
        Ok((Reply::Lane { lane, token, limits }, descriptors)) => {
            attach(session, lane, token, &limits, descriptors, None)
        }
        Ok((Reply::Refused { reason, .. }, _)) => Err(reason),
        Ok(_) => Err(Reason::Version),
        Err(_) => Err(Reason::NoService),
    }
}

/// Moves a channel to a protected descriptor.
pub(crate) fn kept(channel: Channel) -> Result<Channel, Reason> {
    let fd = protect::keep(channel.into_raw_fd()).map_err(|_| Reason::LaneFull)?;
    Ok(Channel::from(crate::c::shared::own(fd)))
}

/// Another connection of this process to its lane (a forked child's, or after exec).
pub(crate) fn attach_again(
    number: u32,
    token: Token,
    descriptors: bool,
) -> Result<(Session, Option<(Limits, Descriptors)>), Reason> {
    let channel = Channel::connect(&socket_path()).map_err(|_| Reason::NoService)?;
    let mut session = Session::new(kept(channel)?);
    match session.call(&Request::Attach { lane: number, token, descriptors }, None) {
        Ok((Reply::Attached, _)) => Ok((session, None)),
        Ok((Reply::Lane { limits, .. }, descriptors)) => Ok((session, Some((limits, descriptors)))),
        Ok((Reply::Refused { reason, .. }, _)) => Err(reason),
        _ => Err(Reason::NoService),
    }
}

/// Maps what the service gave and starts the stack in it if nobody has.
pub(crate) fn attach(
    session: Session,
    number: u32,
    token: Token,
    limits: &Limits,
    mut descriptors: Descriptors,
    slot: Option<usize>,
) -> Result<Lane, Reason> {
    let mut next = |place| descriptors.take(place).ok_or(Reason::BadRequest);
    let (region, ring, doorbell): (OwnedFd, OwnedFd, OwnedFd) = (next(0)?, next(1)?, next(2)?);
    let mapped = Region::map(region.as_fd(), number, limits).map_err(|error| {
        sys::say(&error.to_string());
        Reason::Version
    })?;
    let keep = |fd: OwnedFd| protect::keep(fd.into_raw_fd()).map_err(|_| Reason::LaneFull);
    let (region, ring, doorbell) = (keep(region)?, keep(ring)?, keep(doorbell)?);
    assemble(session, Handover { number, token, limits: *limits, region }, mapped, ring, doorbell, slot)
}

/// Puts a lane together from protected descriptors.
pub(crate) fn assemble(
    session: Session,
    handover: Handover,
    mapped: Region,
    ring: i32,
    doorbell: i32,
    slot: Option<usize>,
) -> Result<Lane, Reason> {
    let wire = Wire::attach(ring, &mapped).map_err(|error| {
        sys::say(&format!("the lane's rings cannot be mapped: {error}"));
        Reason::ServiceError
    })?;
    let parts = Parts {
        shared: Shared::in_region(mapped, wire),
        ring,
        doorbell,
        handover,
        settings: settings().clone(),
        session: Some(session),
    };
    begin(&parts)?;
    Lane::new(parts, slot)
}

/// Starts the stack if this is the lane's first process.
pub(crate) fn begin(parts: &Parts) -> Result<(), Reason> {
    let mut guard = parts.shared.lock().map_err(|_| Reason::LaneGone)?;
    if guard.stack.user()[single::STARTED] == 0 {
        let config = Config { secret: sys::random().map_err(|_: Errno| Reason::ServiceError)?, ..Config::default() };
        guard.stack.init(&config, sys::now());
        guard.stack.user()[single::STARTED] = 1;
    }
    Ok(())
}

fn program() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim_end().to_owned()
}
