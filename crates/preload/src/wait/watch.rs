//! The wakeup descriptor of a sleeping thread: its own epoll instance, which watches the lane's
//! doorbell. So one descriptor delivers both wakeups for all threads, in every process, and those
//! for this thread alone (`sys::ring_one`). (The rings are not in it: watching them, even while no
//! thread sleeps, costs the kernel a wakeup for every packet.)
//!
//! Where other processes use the lane, the instance also contains the thread's inbox
//! (`sys::inbox`), through which they wake this thread alone.

use crate::lane::{self, Lane};
use crate::sys;
use crate::sys::errno::Result;
use crate::sys::inbox::{self, Inbox};
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
    /// The inbox address for other processes, 0 if there is none.
    pub(super) address: u64,
}

/// Closes the instance when the thread ends. (The instance itself is in a variable without
/// destructor: at the end of the program it is needed after the main thread's destructors have
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

/// How long the thread does not try again after there was no free descriptor for an instance:
/// taking the program's last descriptor, even for a moment, may make another thread fail.
const PAUSE: Span = Span::from_millis(100);

thread_local! {
    static WATCH: Cell<Watch> = const { Cell::new(NO_WATCH) };
    static CLOSER: Closer = const { Closer };
    static NOT_BEFORE: Cell<Instant> = const { Cell::new(Instant::from_nanos(0)) };
}

/// The calling thread's instance, created if it has none for this lane and process (a forked child
/// shares its parent's, and would take the parent's edges). `None` if there is no descriptor for
/// one: the program may be at its limit, and waiting must not fail for that.
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

/// The event data of the inbox.
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
    // A doorbell signal from before ends the first sleep at once: it may have been for this thread,
    // which had no wakeup descriptor yet.
    sys::epoll_ctl(fd, libc::EPOLL_CTL_ADD, doorbell, (libc::EPOLLIN | libc::EPOLLET) as u32, 0)
        .inspect_err(|_| protect::release(fd))?;
    Ok(fd)
}

/// Consumes the wakeups, or the next sleep would end at once.
pub(super) fn hush(bell: Bell) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
    let heard = sys::epoll_take(bell.fd, &mut events).unwrap_or(0);
    if events[..heard].iter().any(|event| event.u64 == INBOX) {
        inbox::drain(bell.inbox);
    }
}
