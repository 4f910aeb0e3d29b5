//! The bell of a thread that sleeps: an epoll instance of its own that watches the lane's doorbell.
//! So it hears both what is for all, in every process, and what is for it alone (`sys::ring_one`),
//! by one descriptor. (The rings are not in it: whatever watches them, even while nobody sleeps,
//! costs the kernel a wake-up for every packet.)
//!
//! Where other processes use the lane, the instance contains the thread's inbox, too
//! (`sys::inbox`), by which they wake this thread alone.

use crate::base::errno::Result;
use crate::c::sys;
use crate::c::sys::inbox::{self, Inbox};
use crate::lane::{self, Lane};
use crate::table::protect;
use core::ffi::c_int;
use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};

/// The calling thread's instance.
#[derive(Clone, Copy)]
struct Watch {
    fd: c_int,
    /// The inbox, -1 if there is none, and its address.
    inbox: c_int,
    address: u64,
    lane: *const Lane,
    process: u32,
}

const NO_WATCH: Watch = Watch { fd: -1, inbox: -1, address: 0, lane: core::ptr::null(), process: 0 };

/// What wakes the calling thread.
#[derive(Clone, Copy)]
pub(super) struct Bell {
    /// The instance.
    pub(super) fd: c_int,
    inbox: c_int,
    /// How other processes reach it, 0 for not at all.
    pub(super) address: u64,
}

/// Closes the instance when the thread ends. (The instance itself is in a variable without
/// destructor: at the end of the program it is needed after the destructors of the main thread have
/// run.)
struct Closer;

impl Drop for Closer {
    fn drop(&mut self) {
        let watch = WATCH.replace(NO_WATCH);
        if watch.fd >= 0 && watch.process == lane::process() {
            watch.release();
        }
    }
}

impl Watch {
    fn release(self) {
        [self.fd, self.inbox].into_iter().filter(|&fd| fd >= 0).for_each(protect::release);
    }
}

/// After there was no descriptor for one, how long the thread does not try again: a moment's
/// possession of the program's last may be what another thread fails by.
const PAUSE: Span = Span::from_millis(100);

thread_local! {
    static WATCH: Cell<Watch> = const { Cell::new(NO_WATCH) };
    static CLOSER: Closer = const { Closer };
    static NOT_BEFORE: Cell<Instant> = const { Cell::new(Instant::from_nanos(0)) };
}

/// The calling thread's instance, which is made if it has none for this lane and process (a forked
/// child shares its parent's, and would take the parent's edges). `None` if there is no descriptor
/// for one: the program may be at its limit, which its waiting must not tell it.
pub(super) fn own(lane: &'static Lane) -> Option<Bell> {
    let watch = WATCH.get();
    let process = lane::process();
    if watch.fd >= 0 && watch.process == process {
        if core::ptr::eq(watch.lane, lane) {
            return Some(with_inbox(watch, lane));
        }
        watch.release();
    }
    WATCH.set(NO_WATCH);
    let now = sys::now();
    if now < NOT_BEFORE.get() {
        return None;
    }
    let fd = make(lane).inspect_err(|_| NOT_BEFORE.set(now + PAUSE)).ok()?;
    let watch = Watch { fd, lane, process, ..NO_WATCH };
    WATCH.set(watch);
    let _ = CLOSER.try_with(|_| {});
    Some(with_inbox(watch, lane))
}

/// What the bell's events carry: the inbox has something.
const INBOX: u64 = 1;

/// Gives the thread an inbox, if other processes use the lane.
fn with_inbox(mut watch: Watch, lane: &Lane) -> Bell {
    let wanted = watch.inbox < 0 && lane.company() > 0 && sys::now() >= NOT_BEFORE.get();
    if wanted {
        match open_inbox(watch.fd, lane) {
            Ok(Inbox { fd, address }) => (watch.inbox, watch.address) = (fd, address),
            Err(_) => NOT_BEFORE.set(sys::now() + PAUSE),
        }
        WATCH.set(watch);
    }
    Bell { fd: watch.fd, inbox: watch.inbox, address: watch.address }
}

fn open_inbox(bell: c_int, lane: &Lane) -> Result<Inbox> {
    let Inbox { fd, address } = inbox::open(lane.wake_secret())?;
    let fd = protect::keep(fd)?;
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    sys::epoll_ctl(bell, libc::EPOLL_CTL_ADD, fd, events, INBOX).inspect_err(|_| protect::release(fd))?;
    Ok(Inbox { fd, address })
}

fn make(lane: &Lane) -> Result<c_int> {
    let fd = protect::keep(sys::epoll_create(libc::EPOLL_CLOEXEC)?)?;
    let (_, doorbell) = lane.descriptors();
    // What was rung before ends the first sleep at once: it may have been for this thread, which
    // had no bell yet.
    sys::epoll_ctl(fd, libc::EPOLL_CTL_ADD, doorbell, (libc::EPOLLIN | libc::EPOLLET) as u32, 0)
        .inspect_err(|_| protect::release(fd))?;
    Ok(fd)
}

/// Takes off what a bell has heard, or the next sleep would end at once.
pub(super) fn hush(bell: Bell) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
    let heard = sys::epoll_take(bell.fd, &mut events).unwrap_or(0);
    if events[..heard].iter().any(|event| event.u64 == INBOX) {
        inbox::drain(bell.inbox);
    }
}
