//! The lane as this process has it: the stack in the shared region, the rings, the lock around both, and the control connection.

use crate::c::shared::{Core, Shared};
use crate::c::sys;
use crate::config::Settings;
use crate::desc::Descriptions;
use crate::errno::{Errno, Result};
use crate::locked::{Lock, Locked};
use crate::session::Session;
use crate::wait;
use core::ffi::c_int;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::os::fd::BorrowedFd;
use tickwire_link::control::{Claim, ClaimKind, Descriptors, Push, Reason, Reply, Request, Token};
use tickwire_link::port::Port;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, PathState};
use tickwire_stack::time::Instant;
use tickwire_stack::{Limits, Stack, table};

/// Most destinations that wait to be asked for, beside those that wait in the stack.
const MOST_REQUESTS: usize = 64;
/// How many of them are asked for in one turn of the helper thread.
const ERRANDS: usize = 8;

/// A lane in use by this process. Lanes are never taken down in memory: a thread may be inside at any time; a lane that ended is marked.
pub(crate) struct Lane {
    shared: Shared,
    /// The rings' descriptor (-1 in tests) and the doorbell.
    ring: c_int,
    doorbell: c_int,
    handover: Handover,
    settings: Settings,
    session: Lock<Option<Session>>,
    /// This process's slot among the lane's processes.
    slot: AtomicUsize,
    /// Code of the reason for which the lane ended, 0 while it lives.
    ended: AtomicU32,
    /// When frames last came in, in nanoseconds.
    traffic: AtomicU64,
    /// When the stack next wants to be called, in nanoseconds; 0 never.
    deadline: AtomicU64,
    sleepers: AtomicU32,
    /// How many other processes use the lane, as last seen.
    company: AtomicU32,
    /// Destinations of which the stack wants to hear; the helper thread asks.
    requests: Lock<Vec<Address>>,
}

/// A lane's locks, held while the process forks.
pub(crate) struct ForkLocks {
    _session: Locked<'static, Option<Session>>,
    _requests: Locked<'static, Vec<Address>>,
}

/// The stack, for as long as the lock is held.
pub(crate) struct Access<'l> {
    /// The stack.
    pub(crate) stack: &'l mut Stack<'static>,
    /// The time at which the lock was had.
    pub(crate) now: Instant,
    /// The slot of this process.
    pub(crate) slot: usize,
    rows: &'static [table::Row],
}

impl Access<'_> {
    /// The descriptions of all sockets of the lane.
    pub(crate) fn descriptions(&mut self) -> Descriptions<'_> {
        Descriptions::new(self.stack.user())
    }

    /// The public row of a TCP connection by its index, whatever has become of it.
    pub(crate) fn tcp_row(&self, index: u32) -> Option<&'static table::Row> {
        self.rows.get(index as usize)
    }
}

/// Marks the lane as lost if a panic passes by: what the stack holds may be half-changed.
struct Poison<'l>(&'l Lane);

impl Drop for Poison<'_> {
    fn drop(&mut self) {
        self.0.shared.poison();
    }
}

/// The lane of this process, on a page of its own, which the kernel empties in every child. So a child of which we did not hear (made by a direct
/// system call) has no lane, and cannot close its parent's sockets or take the lock in its parent's name.
#[repr(align(4096))]
struct Wiped(AtomicPtr<Lane>);
static CURRENT: Wiped = Wiped(AtomicPtr::new(core::ptr::null_mut()));
/// The same, in memory that a child inherits.
static INHERITED: AtomicPtr<Lane> = AtomicPtr::new(core::ptr::null_mut());

/// The lane of this process, if it has one that lives.
#[inline]
pub(crate) fn current() -> Option<&'static Lane> {
    crate::c::shared::leaked(&CURRENT.0)
}

/// The lane of the process of which this one is a child without a lane, until it is forgotten.
pub(crate) fn of_parent() -> Option<&'static Lane> {
    if current().is_some() { None } else { crate::c::shared::leaked(&INHERITED) }
}

/// Makes `lane` the one of this process, for good or until it ends.
pub(crate) fn install(lane: Lane) -> &'static Lane {
    let lane = Box::leak(Box::new(lane));
    crate::pending::make_room(lane.handover.limits.tcp);
    sys::wipe_in_children(&CURRENT);
    INHERITED.store(lane, Release);
    CURRENT.0.store(lane, Release);
    lane
}

/// In a child that knows that it is one: its parent's lane, which is its own from now on, until it forgets it.
pub(crate) fn inherit() -> Option<&'static Lane> {
    let lane = crate::c::shared::leaked(&INHERITED)?;
    CURRENT.0.store(core::ptr::from_ref(lane).cast_mut(), Release);
    Some(lane)
}

/// In a process that has no share in `lane`: it is not this process's any more, and nobody is told.
pub(crate) fn forget(lane: &'static Lane) {
    lane.ended.store(1, Relaxed);
    lane.uninstall();
}

/// What names a lane to a program that is to go on with it.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) number: u32,
    pub(crate) token: Token,
    pub(crate) limits: Limits,
    /// The region's descriptor, -1 in tests.
    pub(crate) region: c_int,
}

/// What a lane is made of.
pub(crate) struct Parts {
    pub(crate) shared: Shared,
    pub(crate) ring: c_int,
    pub(crate) doorbell: c_int,
    pub(crate) handover: Handover,
    pub(crate) settings: Settings,
    pub(crate) session: Option<Session>,
}

impl Lane {
    /// A lane of these parts; a process slot is taken for this process.
    ///
    /// # Errors
    /// The reason for which it cannot be used.
    pub(crate) fn new(parts: Parts, slot: Option<usize>) -> core::result::Result<Self, Reason> {
        let lane = Self {
            shared: parts.shared,
            ring: parts.ring,
            doorbell: parts.doorbell,
            handover: parts.handover,
            settings: parts.settings,
            session: Lock::new(parts.session),
            slot: AtomicUsize::new(0),
            ended: AtomicU32::new(0),
            traffic: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            company: AtomicU32::new(0),
            requests: Lock::new(Vec::with_capacity(MOST_REQUESTS)),
        };
        let pid = sys::process();
        let slot = match slot {
            Some(slot) => Ok(slot),
            None => lane.with(|access| access.descriptions().take_process(pid).ok_or(Errno(libc::ENOBUFS))),
        };
        lane.slot.store(slot.map_err(|_| Reason::LaneFull)?, Relaxed);
        Ok(lane)
    }

    /// The program is about to end or to be replaced: no other thread of it is inside the lane when that happens.
    pub(crate) fn retire(&self) {
        self.shared.retire();
    }

    /// The program goes on after all.
    pub(crate) fn resume(&self) {
        self.shared.resume();
    }

    /// The settings of this process.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The lane's number and secret.
    pub(crate) fn identity(&self) -> (u32, Token) {
        (self.handover.number, self.handover.token)
    }

    /// What another program needs to know to go on with the lane, and its region's descriptor.
    pub(crate) fn handover(&self) -> &Handover {
        &self.handover
    }

    /// The rings' descriptor and the doorbell.
    pub(crate) fn descriptors(&self) -> (c_int, c_int) {
        (self.ring, self.doorbell)
    }

    /// The slot of this process.
    pub(crate) fn slot(&self) -> usize {
        self.slot.load(Relaxed)
    }

    /// This process has another slot from now on (a forked child).
    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Relaxed);
    }

    /// How many other processes use the lane, as last seen.
    pub(crate) fn company(&self) -> u32 {
        self.company.load(Relaxed)
    }

    /// Remembers how many other processes use the lane.
    pub(crate) fn set_company(&self, others: u32) {
        self.company.store(others, Relaxed);
    }

    /// A forked child has none of its parent's other threads.
    pub(crate) fn forget_threads(&self) {
        self.sleepers.store(0, Relaxed);
        self.set_company(1);
    }

    /// When frames last came in.
    pub(crate) fn last_traffic(&self) -> Instant {
        Instant::from_nanos(self.traffic.load(Relaxed))
    }

    /// Whether the stack wants to be called at `now`.
    pub(crate) fn due(&self, now: Instant) -> bool {
        let at = self.deadline.load(Relaxed);
        at != 0 && now.as_nanos() >= at
    }

    /// Whether packets wait in the transmit ring because the device was busy: they need another kick soon.
    pub(crate) fn unsent(&self) -> bool {
        self.shared.port().is_some_and(Port::unsent)
    }

    /// Kicks what the device was too busy for.
    pub(crate) fn kick_again(&self) {
        if let Some(port) = self.shared.port()
            && port.unsent()
        {
            let _ = port.kick();
        }
    }

    /// Whether the rings show nothing to do. A guess without the lock.
    pub(crate) fn quiet(&self) -> bool {
        self.shared.port().is_none_or(Port::quiet)
    }

    /// Lets threads that wait for the lock have it.
    pub(crate) fn give_way(&self) {
        self.shared.give_way();
    }

    /// When a program of the lane last polled.
    pub(crate) fn polled_at(&self) -> Instant {
        self.shared.polled_at()
    }

    /// Counts a thread as asleep.
    pub(crate) fn falls_asleep(&self, access: &mut Access<'_>) {
        self.sleepers.fetch_add(1, Relaxed);
        access.stack.sleep_begin();
    }

    /// Counts one less.
    pub(crate) fn wakes(&self, access: &mut Access<'_>) {
        let _ = self.sleepers.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
        access.stack.sleep_end();
    }

    /// How many threads of this process sleep on the lane.
    pub(crate) fn sleepers(&self) -> u32 {
        self.sleepers.load(Relaxed)
    }

    /// Polls the rings, runs timers, does `work`, and sends what that left to send.
    ///
    /// # Errors
    /// What `work` answers; `EAGAIN` if this very thread is inside already (a signal handler interrupted it there); `ENETDOWN` if the lane
    /// has ended.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Access<'_>) -> Result<T>) -> Result<T> {
        self.enter(None, work, true)
    }

    /// As [`Lane::with`], for a polling thread that has just read the clock.
    ///
    /// # Errors
    /// As [`Lane::with`].
    pub(crate) fn with_at<T>(&self, now: Instant, work: impl FnOnce(&mut Access<'_>) -> Result<T>) -> Result<T> {
        self.enter(Some(now), work, true)
    }

    /// As [`Lane::with`], for the helper thread, which does not count as the program's own polling.
    pub(crate) fn with_quietly<T>(&self, work: impl FnOnce(&mut Access<'_>) -> Result<T>) -> Result<T> {
        self.enter(None, work, false)
    }

    #[inline]
    fn enter<T>(
        &self,
        now: Option<Instant>,
        work: impl FnOnce(&mut Access<'_>) -> Result<T>,
        program: bool,
    ) -> Result<T> {
        let inside = wait::enter().ok_or(wait::AGAIN)?;
        if self.ended.load(Relaxed) != 0 {
            return Err(Errno(libc::ENETDOWN));
        }
        let poison = Poison(self);
        let mut guard = match self.shared.lock() {
            Ok(guard) => guard,
            Err(_) => {
                core::mem::forget(poison);
                drop(inside);
                self.end(Reason::LaneGone);
                return Err(Errno(libc::ENETDOWN));
            }
        };
        let now = now.unwrap_or_else(sys::now);
        let Core { stack, wire } = &mut *guard;
        if wire.poll(stack, now) > 0 {
            self.traffic.store(now.as_nanos(), Relaxed);
        }
        if self.due(now) {
            stack.on_time(now);
        }
        if program {
            self.shared.note_poll(now);
        }
        let answer = work(&mut Access { stack, now, slot: self.slot(), rows: self.shared.rows() });
        let kick = wire.flush(stack, now);
        self.deadline.store(stack.deadline().map_or(0, Instant::as_nanos), Relaxed);
        let ring = stack.take_doorbell();
        let request = stack.has_request() && self.note_requests(stack);
        drop(guard);
        core::mem::forget(poison);
        let signalled = inside.leave();
        if kick && let Some(port) = self.shared.port() {
            // A full device queue is no error: the next call kicks again.
            let _ = port.kick();
        }
        if ring {
            sys::ring(self.doorbell);
        }
        if request {
            crate::helper::wake();
        }
        if signalled {
            crate::c::signal::deliver();
        }
        answer
    }

    /// Takes over what the stack wants to hear of, as far as there is room; the rest stays with the stack. Says whether it was any.
    #[cold]
    fn note_requests(&self, stack: &mut Stack<'_>) -> bool {
        let mut wanted = self.requests.lock();
        let before = wanted.len();
        while wanted.len() < MOST_REQUESTS
            && let Some(destination) = stack.take_request()
        {
            wanted.push(destination);
        }
        wanted.len() > before
    }

    /// Asks the service for the paths of which the stack wants to hear: a few at a time, because the caller has other work, too.
    pub(crate) fn run_errands(&self) {
        let (wanted, more) = {
            let mut all = self.requests.lock();
            let few = all.len().min(ERRANDS);
            (all.drain(..few).collect::<Vec<_>>(), !all.is_empty())
        };
        for destination in wanted {
            let _ = self.resolve(destination, Address::ANY, 0);
        }
        if more {
            crate::helper::wake();
        }
    }

    fn session(&self) -> Locked<'_, Option<Session>> {
        self.session.lock()
    }

    /// Puts another control connection in the place of the present one.
    pub(crate) fn set_session(&self, session: Session) {
        *self.session() = Some(session);
    }

    /// Its locks, held (across fork).
    pub(crate) fn fork_locks(&'static self) -> ForkLocks {
        let session = self.session();
        ForkLocks { _session: session, _requests: self.requests.lock() }
    }

    /// The control connection's descriptor, -1 if there is none.
    pub(crate) fn control_descriptor(&self) -> c_int {
        self.session().as_ref().map_or(-1, Session::descriptor)
    }

    /// Asks the service; the lane ends if that is gone.
    ///
    /// # Errors
    /// The reason for which the service refused, or cannot be asked.
    pub(crate) fn ask(
        &self,
        request: &Request,
        descriptor: Option<c_int>,
    ) -> core::result::Result<(Reply, Descriptors), Reason> {
        if wait::is_inside() {
            return Err(Reason::ServiceError);
        }
        let _shield = crate::c::cancel::Shield::new();
        let borrowed = descriptor.map(crate::c::shared::borrow);
        let answer = match self.session().as_mut() {
            Some(session) => session.call(request, borrowed as Option<BorrowedFd<'_>>),
            None => return Err(Reason::LaneGone),
        };
        match answer {
            Ok((Reply::Refused { reason, .. }, _)) => Err(reason),
            Ok(answer) => Ok(answer),
            // The service is slow; what runs needs it not. Only this request fails.
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Err(Reason::ServiceError),
            Err(_) => {
                self.end(Reason::NoService);
                Err(Reason::LaneGone)
            }
        }
    }

    /// Claims what comes to the kernel socket's port, or one flow to it.
    ///
    /// # Errors
    /// The reason for which the socket stays on the kernel.
    pub(crate) fn claim(&self, fd: c_int, kind: ClaimKind, remote: Endpoint) -> core::result::Result<u64, Reason> {
        match self.ask(&Request::Claim { kind, remote }, Some(fd))? {
            (Reply::Claimed { claim: Claim(claim), .. }, _) => Ok(claim),
            _ => Err(Reason::BadRequest),
        }
    }

    /// Takes a claim out, or one flow of it. Best effort: the service forgets all claims with the lane.
    pub(crate) fn release(&self, claim: u64, remote: Endpoint) {
        if claim != 0 {
            let _ = self.ask(&Request::Release { claim: Claim(claim), remote }, None);
        }
    }

    /// Asks how a destination is reached, if the stack does not know, and tells the stack. `scope` is the interface that a link-local
    /// address needs, `via` the one that the socket names; 0 is none.
    ///
    /// # Errors
    /// The reason for which it is not reached by the lane.
    pub(crate) fn reach(
        &self,
        destination: Address,
        source: Address,
        scope: u32,
        via: u32,
    ) -> core::result::Result<PathInfo, Reason> {
        let wanted = if via == 0 { scope } else { via };
        let fit = |path: PathInfo| {
            if wanted == 0 || path.interface == wanted { Ok(path) } else { Err(Reason::OtherWay) }
        };
        let known = self.with(|access| Ok(access.stack.path_get(&destination).map(|path| (path.info, path.inferred))));
        match known {
            Ok(Some((info, 0))) if matches!(info.state, PathState::Ready | PathState::Resolving) => return fit(info),
            Err(_) => return Err(Reason::LaneGone),
            _ => {}
        }
        match self.resolve(destination, source, scope) {
            // A group needs no route if the socket names the interface.
            Err(Reason::NoRoute) if via != 0 && destination.is_multicast() => self.resolve(destination, source, via),
            Ok(path) => fit(path),
            Err(reason) => Err(reason),
        }
    }

    fn resolve(&self, destination: Address, source: Address, interface: u32) -> core::result::Result<PathInfo, Reason> {
        match self.ask(&Request::Resolve { destination, source, interface }, None)? {
            (Reply::Path { path, reason }, _) => {
                let _ = self.with(|access| {
                    access.stack.path_set(path, access.now);
                    Ok(())
                });
                match (path.state, reason) {
                    (PathState::Ready | PathState::Resolving, Reason::None) => Ok(path),
                    (_, Reason::None) => Err(Reason::NoRoute),
                    (_, reason) => Err(reason),
                }
            }
            _ => Err(Reason::BadRequest),
        }
    }

    /// What the service said unasked: the stack is told. The lane ends if the service has gone.
    pub(crate) fn hear(&'static self) {
        // The connection is let go of before anything is done with what it brought.
        let pushes = self.session().as_mut().map(Session::pushes);
        let pushes = match pushes {
            Some(Ok(pushes)) => pushes,
            Some(Err(_)) => return self.end(Reason::NoService),
            None => return,
        };
        for push in pushes {
            match push {
                Push::PathChanged { path, .. } => {
                    let _ = self.with_quietly(|access| {
                        access.stack.path_set(path, access.now);
                        Ok(())
                    });
                }
                Push::PeerGone { pid } => crate::process::gone(self, pid),
                Push::ClaimLost { claim, reason } => crate::open::claim_lost(self, claim.0, reason),
                Push::Closing { reason } => return self.end(reason),
                Push::Mtu { mtu } => self.assume_mtu(mtu),
            }
        }
    }

    /// The smallest MTU of the interfaces: the stack assumes it until it knows by which of them a peer is reached.
    pub(crate) fn assume_mtu(&self, mtu: u32) {
        let _ = self.with_quietly(|access| {
            access.stack.assume_mtu(mtu);
            Ok(())
        });
    }

    fn uninstall(&self) {
        let this = core::ptr::from_ref(self).cast_mut();
        for place in [&INHERITED, &CURRENT.0] {
            let _ = place.compare_exchange(this, core::ptr::null_mut(), AcqRel, Relaxed);
        }
    }

    /// The lane is over: connections fail, everything else goes on as what its kernel socket is.
    pub(crate) fn end(&self, reason: Reason) {
        if self.ended.swap(u32::from(reason.code()).max(1), Relaxed) != 0 {
            return;
        }
        self.uninstall();
        crate::open::lane_ended(self, reason);
        sys::ring(self.doorbell);
    }

    /// This process leaves the lane, which is over for it. The service learns of it by the end of the connection.
    pub(crate) fn leave(&self, reason: Reason) {
        self.end(reason);
        *self.session() = None;
        crate::helper::wake();
    }

    /// Flags of a description, also of a lane that has ended.
    pub(crate) fn flags_of(&self, index: u32) -> u64 {
        let Some(_inside) = wait::enter() else { return 0 };
        self.shared.lock().map_or(0, |mut guard| Descriptions::new(guard.stack.user()).get(index).flags())
    }

    /// Why the socket of a row stays on the kernel, also of a lane that has ended.
    pub(crate) fn reason_of(&self, row: u32) -> Reason {
        let Some(_inside) = wait::enter() else { return Reason::None };
        let code = self
            .shared
            .lock()
            .map_or(0, |guard| guard.stack.kernel_rows().get(row as usize).map_or(0, |r| r.reason.get()));
        Reason::from_code(code).unwrap_or_default()
    }

    /// Flags of a description, inside.
    pub(crate) fn flags_of_held(&self, access: &mut Access<'_>, index: u32) -> u64 {
        access.descriptions().get(index).flags()
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Relaxed) != 0
    }
}

/// A free row for a socket that stays on the kernel.
pub(crate) fn kernel_row<'s>(stack: &'s Stack<'_>) -> Option<(u32, &'s table::Row)> {
    let rows = stack.kernel_rows();
    let free = rows.iter().position(|row| row.kind.get() == table::kind::FREE)?;
    Some((free as u32, &rows[free]))
}
