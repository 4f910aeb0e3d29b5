//! How a process gets its lane: with its first IP socket, and again when the service is back.

use crate::base::cancel_shield::Shield;
use crate::base::config::settings;
use crate::base::locked::{Lock, Locked, SignalDeferral};
use crate::base::own_stack;
use crate::lane::observer::observer;
use crate::lane::session::Session;
use crate::lane::{self, Handover, Lane, Parts};
use crate::sys;
use crate::sys::errno::Errno;
use crate::sys::shared_stack::SharedStack;
use crate::sys::wire::Wire;
use crate::table::desc::single;
use crate::table::fd::TABLE;
use crate::table::protect;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::time::Duration;
use tickwire_lane::control::{Name, Reason, Reply, Request, Token};
use tickwire_lane_linux::control::{Channel, Descriptors, socket_path, why_unconnected};
use tickwire_lane_linux::region::{self, Region};
use tickwire_lane_linux::standby_ring::StandbyRing;
use tickwire_stack::tcp::Ecn;
use tickwire_stack::time::Span;
use tickwire_stack::{Limits, Memory, StackConfig};

/// The service is asked for a lane at most this often.
pub(crate) const RETRY: Span = Span::from_secs(1);
/// How long the service may take to answer a program's first request, which waits for it; and for
/// how long it is not asked again after a timeout.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
const SILENCE: Span = Span::from_secs(10);
/// A service that declined to list this program's older sockets is asked again at most this often.
const DECLINED: Span = Span::from_secs(30);
/// How long the service may take to answer that: nothing depends on it.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that tells `tickwire stat` why this program has no lane.
pub(crate) struct ListedProgram {
    session: Session,
    /// It was made for the sockets that are older than the service, and is of no use without them;
    /// else the service refused a lane.
    for_older: bool,
}

/// The exit code of a program that requires acceleration and cannot have it (EX_UNAVAILABLE of
/// sysexits.h, like that of `tickwire run`).
const EXIT_UNAVAILABLE: i32 = 69;

/// When the service may be asked again, in nanoseconds of the monotonic clock.
static RETRY_AT: AtomicU64 = AtomicU64::new(0);
/// The program has confined itself: the service must not be asked at all.
static CONFINED: AtomicBool = AtomicBool::new(false);
/// One thread asks at a time; the others wait for its lane. While there is no lane: how the program
/// is listed. The helper sleeps on that connection, and is woken when it is replaced.
static STARTING: Lock<Option<ListedProgram>> = Lock::new(None);

thread_local! {
    /// Whether this thread is the one that asks: a signal handler that interrupts it cannot wait
    /// for it.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Marks, while it lives, this thread as the one that asks.
struct Asking;

impl Asking {
    fn begin() -> Option<Self> {
        ASKING.with(|asking| (!asking.replace(true)).then_some(Self))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.with(|asking| asking.set(false));
    }
}

/// Waits until no thread asks, and keeps it so (across fork). `None` in a signal handler that
/// interrupted the thread that asks.
pub(crate) fn hold() -> Option<Locked<'static, Option<ListedProgram>>> {
    (!ASKING.with(Cell::get)).then(|| STARTING.lock())
}
/// The reason that was last logged to standard error.
static TOLD: Lock<Option<Reason>> = Lock::new(None);
/// Whether this program ever had a lane.
static HAD_ONE: AtomicBool = AtomicBool::new(false);

/// The lane of this process, created if there is none yet. `None`: sockets stay on the kernel.
pub(crate) fn lane() -> Option<&'static Lane> {
    if let Some(lane) = lane::current() {
        return Some(lane);
    }
    // A handler that interrupted us in here, or in the lane, cannot make one.
    if crate::base::reentrancy::is_inside() {
        return None;
    }
    if is_vain() {
        return None;
    }
    let _holding = SignalDeferral::new();
    let _asking = Asking::begin()?;
    let _shield = Shield::new();
    // The lock may be held by a thread that a stray child does not have.
    let mut kept = if lane::is_stray() { STARTING.try_lock()? } else { STARTING.lock() };
    if let Some(lane) = lane::current() {
        return Some(lane);
    }
    // Another thread may have asked in vain meanwhile.
    if is_vain() {
        return None;
    }
    if lane::is_stray() && !(observer().abandon)() {
        return None;
    }
    *kept = None;
    let kept = &mut *kept;
    // `own_stack` makes a second thread. A child of fork has a smaller table than its parent.
    protect::make_room();
    let begin = || {
        let _asking = Asking::begin();
        begun(kept)
    };
    match own_stack::run(begin) {
        Ok(lane) => {
            (observer().start_helper)();
            Some(lane)
        }
        Err(reason) => {
            let rest = if reason == Reason::Silent { SILENCE } else { RETRY };
            RETRY_AT.store((sys::now() + rest).as_nanos(), Relaxed);
            // The descriptor that the helper slept on may be closed.
            crate::base::wakeup_fd::ring();
            refused(reason);
            None
        }
    }
}

/// A lane from the service, in use by this process from now on.
fn begun(kept: &mut Option<ListedProgram>) -> Result<&'static Lane, Reason> {
    let lane = connect(kept)?;
    *TOLD.lock() = None;
    HAD_ONE.store(true, Relaxed);
    let lane = lane::install(lane);
    (observer().begun)(lane);
    Ok(lane)
}

/// Whether a request for a lane would fail now.
fn is_vain() -> bool {
    is_confined() || sys::now().as_nanos() < RETRY_AT.load(Relaxed)
}

/// The program is about to confine itself, perhaps to fewer system calls than the lane needs. Any
/// other system call might kill it. `leaves` gives the sockets of its lane to the kernel.
pub(crate) fn confine(leaves: impl FnOnce(&'static Lane)) {
    let asks = !is_vain();
    CONFINED.store(true, SeqCst);
    // A thread that was making a lane has finished after this; none begins any more.
    drop(hold());
    if let Some(lane) = lane::current() {
        // In order, so that no packet is diverted any more when the program continues.
        leaves(lane);
        let session = lane.talk.take();
        lane.end(Reason::Confined);
        // Over the existing connection: the program may have given up the rights, or the view of
        // the file system, to make another.
        list_confined(session);
    } else if asks && !lane::is_stray() && !sys::is_filtered() {
        // The program may have sockets afterwards, and cannot report it then. But under an existing
        // filter a new connection may kill it.
        let _shield = Shield::new();
        // A child forked now would keep the connection.
        let made = hold().map(|_starting| session());
        list_confined(made.and_then(Result::ok));
    }
}

/// Has the service list this program as one that confines itself.
fn list_confined(session: Option<Session>) {
    let Some(mut session) = session else { return };
    match list(&mut session, Reason::Confined) {
        Ok(()) => {
            if let Some(mut listed) = hold() {
                *listed = Some(ListedProgram { session, for_older: false });
            }
        }
        // Children that confine themselves, too, must not wait for a service that hangs.
        Err(rest) => RETRY_AT.store((sys::now() + rest).as_nanos(), Relaxed),
    }
}

/// The program was not allowed to confine itself.
pub(crate) fn unconfine() {
    CONFINED.store(false, SeqCst);
}

/// Whether it has confined itself.
pub(crate) fn is_confined() -> bool {
    CONFINED.load(SeqCst)
}

/// Whether a new socket must fail because the program's lane has ended, or it may not ask for one,
/// and acceleration is required.
pub(crate) fn refuses() -> bool {
    settings().require && (HAD_ONE.load(Relaxed) || is_confined()) && lane::current().is_none()
}

/// A program continues with a lane after exec.
pub(crate) fn inherited() {
    HAD_ONE.store(true, Relaxed);
}

/// Logs once why the program is not accelerated. If it requires acceleration, it ends here at its
/// first socket; a program that was accelerated before gets an error for each new socket instead
/// ([`refuses`]).
fn refused(reason: Reason) {
    if settings().require && !HAD_ONE.load(Relaxed) {
        sys::say(&format!("{} was ended at its first socket, because --require was given: {reason}", program()));
        std::process::exit(EXIT_UNAVAILABLE);
    }
    let mut told = TOLD.lock();
    let known = told.is_none()
        && settings().noted
        && matches!(reason, Reason::NoService | Reason::NotPermitted | Reason::NotService | Reason::Silent);
    if *told != Some(reason) {
        *told = Some(reason);
        if known {
            return;
        }
        if refuses() {
            sys::say(&format!("new sockets fail (--require) until the program is accelerated again: {reason}"));
        } else {
            sys::say(&format!("not accelerated, running on the kernel's stack: {reason}"));
        }
    }
}

/// Why the program's sockets are in no lane's rows, if it has such sockets. If any are older than
/// the service, that is the reason.
pub(crate) fn why_unlisted() -> Option<Reason> {
    // The thread that ends the lane may not have entered any of them yet.
    lane::await_ending();
    let mut reasons = TABLE.unlisted().map(|(_, reason)| reason);
    let first = reasons.next()?;
    Some(if reasons.any(|reason| reason == Reason::Restarted) { Reason::Restarted } else { first })
}

/// The descriptor of the connection by which this program is listed, if it is.
pub(crate) fn listed_by() -> Option<i32> {
    STARTING.lock().as_ref().map(|listed| listed.session.descriptor())
}

/// The service may be back although the program has made no socket since: as long as it has sockets
/// of its last lane, it is listed in `tickwire stat`.
///
/// # Errors
/// For how long the service is not to be asked again.
pub(crate) fn announce(reason: Reason) -> Result<Option<i32>, Span> {
    let session = {
        // A child forked now would keep the connection.
        let _starting = STARTING.lock();
        session()
    };
    let mut session = session.map_err(|_| RETRY)?;
    // Not under the lock: a service that hangs would hold up every fork and every first socket.
    list(&mut session, reason)?;
    let mut listed = STARTING.lock();
    if listed.is_none() && lane::current().is_none() {
        *listed = Some(ListedProgram { session, for_older: true });
    }
    Ok(listed.as_ref().map(|listed| listed.session.descriptor()))
}

/// Sockets of another process were passed to one that has no lane, and may never ask for one: it is
/// listed in `tickwire stat`.
pub(crate) fn announce_passed() {
    if is_vain() || lane::is_stray() || crate::base::reentrancy::is_inside() {
        return;
    }
    let Some(_asking) = Asking::begin() else { return };
    let _shield = Shield::new();
    if listed_by().is_none()
        && let Err(rest) = announce(Reason::NotMoved)
    {
        RETRY_AT.store((sys::now() + rest).as_nanos(), Relaxed);
    }
}

/// Has the service list this program without a lane, for as long as the connection lasts.
///
/// # Errors
/// For how long the service is not to be asked again.
fn list(session: &mut Session, reason: Reason) -> Result<(), Span> {
    let request = Request::OnKernel { program: Name::new(&program()), reason };
    match session.call_within(TIMEOUT, &request, None) {
        Ok((Reply::Done, _)) => Ok(()),
        // The service may still be starting.
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(SILENCE),
        // The service was about to end: it closes connections before it stops listening.
        Err(_) => Err(RETRY),
        Ok(_) => Err(DECLINED),
    }
}

/// The service has closed the connection by which this program is listed, or has sent a message
/// that is not awaited.
pub(crate) fn hear() {
    STARTING.lock().take_if(|listed| listed.session.pushes().is_err());
}

/// There are no older sockets any more.
pub(crate) fn withdraw() {
    STARTING.lock().take_if(|listed| listed.for_older);
}

/// In a forked child: the connection is the parent's.
pub(crate) fn forget() {
    if let Some(mut kept) = STARTING.try_lock() {
        let kept = kept.take();
        if is_confined() {
            // Closing it may be forbidden.
            core::mem::forget(kept);
        }
    }
}

fn session() -> Result<Session, Reason> {
    let path = socket_path();
    let channel = Channel::connect(&path).map_err(|error| why_unconnected(&path, &error))?;
    Ok(Session::new(protected(channel)?))
}

/// A lane from the service; if the service refuses, the connection is kept.
fn connect(kept: &mut Option<ListedProgram>) -> Result<Lane, Reason> {
    let mut session = session()?;
    let hello = Request::Hello { program: Name::new(&program()), layout: Memory::LAYOUT_HASH };
    match owned(session.call_within(FIRST_ANSWER, &hello, None)) {
        Ok((Reply::Lane { lane, token, limits, mtu }, descriptors)) => {
            let lane = attach(session, lane, token, &limits, descriptors, None)?;
            lane.assume_mtu(mtu);
            Ok(lane)
        }
        Ok((Reply::Refused { reason, .. }, _)) => {
            *kept = Some(ListedProgram { session, for_older: false });
            Err(reason)
        }
        Ok(_) => Err(Reason::Version),
        // An answer that is not valid for this version.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Reason::Version),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Reason::Silent),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Err(Reason::Descriptors),
        Err(_) => Err(Reason::NoService),
    }
}

/// An answer, taken out of its session.
fn owned(answer: io::Result<(&Reply, &mut Descriptors)>) -> io::Result<(Reply, Descriptors)> {
    answer.map(|(reply, descriptors)| (reply.clone(), core::mem::take(descriptors)))
}

/// Moves a channel to a protected descriptor.
pub(crate) fn protected(channel: Channel) -> Result<Channel, Reason> {
    let fd = protect::keep(channel.into_raw_fd()).map_err(|_| Reason::Descriptors)?;
    Ok(Channel::from(sys::owned(fd)))
}

/// Another connection of this process to its lane (a forked child's, or after exec).
pub(crate) fn attach_again(
    number: u32,
    token: Token,
    descriptors: bool,
) -> Result<(Session, Option<(Limits, Descriptors)>), Reason> {
    let channel = Channel::connect(&socket_path()).map_err(|error| match error.raw_os_error() {
        Some(libc::EMFILE) => Reason::Descriptors,
        _ => Reason::NoService,
    })?;
    let mut session = Session::new(protected(channel)?);
    match owned(session.call(&Request::Attach { lane: number, token, descriptors }, None)) {
        Ok((Reply::Attached, _)) => Ok((session, None)),
        Ok((Reply::Lane { limits, .. }, descriptors)) => Ok((session, Some((limits, descriptors)))),
        Ok((Reply::Refused { reason, .. }, _)) => Err(reason),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Err(Reason::Descriptors),
        _ => Err(Reason::NoService),
    }
}

/// Maps the region that the service gave, and starts the stack in it if no process has.
pub(crate) fn attach(
    session: Session,
    number: u32,
    token: Token,
    limits: &Limits,
    mut descriptors: Descriptors,
    slot: Option<usize>,
) -> Result<Lane, Reason> {
    let mut next = |place| descriptors.take(place).ok_or(Reason::BadRequest);
    let [region, ring, tap, doorbell, standby]: [OwnedFd; 5] = [next(0)?, next(1)?, next(2)?, next(3)?, next(4)?];
    let mapped = Region::map(region.as_fd(), number, limits).map_err(|error| {
        sys::say(&error.to_string());
        Reason::Version
    })?;
    let keep = |fd: OwnedFd| protect::keep(fd.into_raw_fd()).map_err(|_| Reason::Descriptors);
    let [region, ring, tap, doorbell, standby] =
        [keep(region)?, keep(ring)?, keep(tap)?, keep(doorbell)?, keep(standby)?];
    let handover = Handover { number, token, limits: *limits, region, tap, standby };
    let lane = assemble(session, handover, mapped, ring, doorbell, slot);
    if lane.is_err() {
        // A program that asks again every second must run out of neither memory nor descriptors.
        // The mapping stays, but if no other process has the lane, its pages can be freed. (A
        // process that attaches to another's lane has a slot.)
        if slot.is_none() {
            let _ = region::empty(sys::borrowed(region), limits);
        }
        [region, ring, tap, doorbell, standby].into_iter().for_each(protect::release);
    }
    lane
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
    let wire = Wire::attach(ring, handover.tap, &mapped).map_err(|error| {
        sys::say(&format!("the lane's ring cannot be mapped: {error}"));
        Reason::ServiceError
    })?;
    let standby = StandbyRing::map(sys::owned(handover.standby)).map_err(|error| {
        sys::say(&format!("the lane's standby ring cannot be mapped: {error}"));
        Reason::ServiceError
    })?;
    let parts = Parts {
        shared: SharedStack::in_region(mapped, wire),
        ring,
        doorbell,
        standby: Some(standby),
        handover,
        settings: settings().clone(),
        session: Some(session),
    };
    begin(&parts)?;
    Lane::new(parts, slot)
}

/// Starts the stack if this is the lane's first process.
pub(crate) fn begin(parts: &Parts) -> Result<(), Reason> {
    let mut guard = parts.shared.lock(|| Ok(true)).map_err(|_| Reason::LaneGone)?;
    if guard.stack.user()[single::STARTED] == 0 {
        let mut config =
            StackConfig { secret: sys::random().map_err(|_: Errno| Reason::ServiceError)?, ..StackConfig::default() };
        config.tcp.ecn = notification().unwrap_or(config.tcp.ecn);
        config.tcp.hold_acks = true;
        config.tcp.min_rto = parts.settings.min_rto.unwrap_or(config.tcp.min_rto);
        guard.stack.init(&config);
        let secret = sys::random().map_err(|_: Errno| Reason::ServiceError)?;
        let words = parts.shared.waiting().wake_secret.iter().zip(secret);
        words.for_each(|(word, secret)| word.store(secret, Relaxed));
        guard.stack.user()[single::STARTED] = 1;
    }
    Ok(())
}

/// The host's setting for explicit congestion notification: a network that supports it for the
/// kernel supports it for us.
fn notification() -> Option<Ecn> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_ecn").ok()?;
    Ecn::from_linux(text.trim().parse().ok()?)
}

/// The program's name. If it cannot read /proc any more, the name of its thread.
fn program() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_else(|_| sys::thread_name());
    name.trim_end().to_owned()
}
