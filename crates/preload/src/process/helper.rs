//! The helper thread: keeps acknowledgements, retransmissions and keepalives going while the
//! program is busy elsewhere, and hears the service.
//!
//! It stays out of the way of a program that polls or sleeps on the lane by itself: then it only
//! looks now and then whether that is still so. When nobody does, it waits on the rings and the
//! stack's next deadline in the program's place.

use crate::base::bell;
use crate::base::errno::Result;
use crate::base::locked::{Lock, Locked};
use crate::base::scheduling::{CpuMask, Policy, Scheduling};
use crate::c::sys::{self, NO_FD, readable};
use crate::lane::{self, Lane, ports, start};
use crate::process::ear::{DEAF, Ear};
use crate::process::{family, leave, realtime};
use crate::socket::pending;
use crate::table::protect;
use core::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use libc::pollfd;
use std::sync::OnceLock;
use tickwire_stack::time::{Instant, Span};

/// The program counts as polling for so long after it last did.
const RECENT: Span = Span::from_millis(1);
/// How often the helper looks whether the program still polls: at first, and, doubled each time, at
/// last. Meanwhile nobody wakes it for a timer that the program has set: it would be woken for each
/// message, of which nearly all are acknowledged long before. So a timer that no thread of the
/// program sleeps for, because it is set by another after the one has fallen asleep, is late by so
/// much at most.
const FIRST_LOOK: Span = Span::from_millis(2);
const LAST_LOOK: Span = Span::from_millis(32);
/// While connections that the program closed are to be finished, or other processes may die.
const SWEEP: Span = Span::from_millis(200);
/// While ports rest of which some may have to go back to the service.
const PORTS: Span = Span::from_secs(30);
/// The thread needs little.
const STACK: usize = 256 << 10;

/// The process whose helper runs, 0 if none does.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);
/// Held by a helper whenever it does not sleep. Most of what it does takes memory from the heap, or
/// gives it back.
static WORK: Lock<()> = Lock::new(());
/// Not 0 while a helper has been asked for that does not hold [`WORK`] yet.
static UNBORN: AtomicU32 = AtomicU32::new(0);

/// The processors on which the process was started, `None` if the system does not say.
static PROCESSORS: OnceLock<Option<CpuMask>> = OnceLock::new();

/// Before the program runs: its threads may confine themselves later, and the helper must not
/// inherit that.
pub(crate) fn remember_processors() {
    PROCESSORS.get_or_init(|| sys::affinity().ok());
}

/// Gives the calling thread, the helper, its own scheduling. A new thread inherits policy, nice
/// value and processors of its creator, which is whichever thread opened the first socket.
fn schedule(wanted: &Scheduling) {
    let processors = wanted.cpus.or_else(|| PROCESSORS.get_or_init(|| sys::affinity().ok()).to_owned());
    if let Some(Err(error)) = processors.map(|mask| sys::set_affinity(&mask))
        && wanted.cpus.is_some()
    {
        sys::say(&format!(
            "the helper thread cannot have the processors of TICKWIRE_HELPER_CPUS: {}",
            std::io::Error::from_raw_os_error(error.0)
        ));
    }
    if let Err(error) = sys::set_policy(wanted.policy) {
        // Without the right to a lower nice value the helper keeps the one that it inherited.
        let _ = sys::set_policy(Policy::Other(0));
        if wanted.policy != Scheduling::DEFAULT.policy {
            sys::say(&format!(
                "the helper thread cannot have the scheduling of TICKWIRE_HELPER_POLICY: {}",
                std::io::Error::from_raw_os_error(error.0)
            ));
        }
    }
}

/// Waits until the helper sleeps, and keeps it asleep for as long as the answer lives.
///
/// The child of a fork that the C library does not prepare (`_Fork`) finds the heap as it was: what
/// a thread that it does not have was about to change stays locked for ever. By POSIX such a child
/// does without, but ours needs some to go on with the lane, and a program of one thread cannot
/// know that there is another.
pub(crate) fn asleep() -> Locked<'static, ()> {
    loop {
        let work = WORK.lock();
        if UNBORN.load(Acquire) == 0 {
            return work;
        }
        drop(work);
        sys::wait_while(&UNBORN, 1);
    }
}

/// A helper lives, or will not.
fn born() {
    UNBORN.store(0, Release);
    sys::wake_all(&UNBORN);
}

/// Starts the helper of this process, if it does not run.
pub(crate) fn start() {
    let pid = sys::process();
    let before = RUNS_IN.swap(pid, AcqRel);
    if before == pid {
        return bell::ring();
    }
    // One that has ended leaves its eventfd; what another process left is not ours to ring.
    if (before != 0 || bell::descriptor() < 0)
        && let Ok(fd) = sys::eventfd().and_then(protect::keep)
    {
        bell::replace(fd);
    }
    // The program's signals are for its own threads.
    let before = sys::block_signals();
    UNBORN.store(1, Release);
    let started = std::thread::Builder::new().name("tickwire-helper".into()).stack_size(STACK).spawn(move || {
        schedule(&start::settings().helper);
        loop {
            let done = std::panic::catch_unwind(run);
            RUNS_IN.swap(0, AcqRel);
            // Whoever made a lane before this has only rung; whoever does after it starts another
            // helper.
            let missed = done.is_ok() && lane::current().is_some();
            if !missed || RUNS_IN.compare_exchange(0, pid, AcqRel, Acquire).is_err() {
                return;
            }
        }
    });
    sys::restore_signals(&before);
    if started.is_err() {
        born();
        RUNS_IN.store(0, Relaxed);
        sys::say("the helper thread cannot be started; acknowledgements wait until the program polls");
    }
}

/// Forgets the helper, which a forked child does not have. Its descriptor is closed if the child
/// has descriptors of its own.
pub(crate) fn forget(own_descriptors: bool) {
    RUNS_IN.store(0, Relaxed);
    UNBORN.store(0, Relaxed);
    let fd = bell::replace(-1);
    if fd >= 0 && own_descriptors {
        protect::release(fd);
    }
}

/// Sleeps: nobody has to wait for the helper meanwhile.
fn sleep(work: &mut Option<Locked<'static, ()>>, fds: &mut [pollfd], timeout: Option<Span>) -> Result<usize> {
    *work = None;
    let slept = sys::ppoll(fds, timeout, None);
    *work = Some(WORK.lock());
    slept
}

fn run() {
    // Its signals are blocked. But with a lock in hand it goes on at the program's end for as long
    // as what was sent is on its way (see `gate`).
    let mut work = Some(WORK.lock());
    born();
    let mut look = FIRST_LOOK;
    let mut ear = Ear::default();
    let mut swept = sys::now();
    let mut not_before = swept;
    let mut before: Option<&'static Lane> = None;
    loop {
        // As long as the service hears us, what comes for the lane's ports goes to the lane.
        if let Some(left) = before.take_if(|lane| lane.is_over()) {
            left.talk.hang_up();
        }
        let Some(lane) = lane::current() else {
            if tell_why(&mut work, &mut not_before) {
                continue;
            }
            // The next lane starts the helper anew.
            return;
        };
        before = Some(lane);
        let woken = turn(lane, &mut work, &mut look, &ear);
        if woken[2] {
            sys::drain(bell::descriptor());
        }
        // After the bell is quiet again: it rings for what came while an answer was awaited.
        let (heard, asked) = (lane.hear(woken[1]), lane.run_errands());
        if lane.talk.leaves() && !lane.is_over() {
            leave::leave(lane, |pause| {
                let _ = sleep(&mut work, &mut [], Some(pause));
            });
            continue;
        }
        if start::settings().helper.policy == Scheduling::DEFAULT.policy {
            realtime::take_up();
        }
        let now = sys::now();
        match (heard, asked) {
            (None, _) | (_, None) => ear.later(now),
            (_, Some(1..)) => ear.listens(),
            (Some(pushes), _) if woken[1] => ear.woken(now, pushes),
            _ => {}
        }
        if now.since(swept) >= SWEEP {
            swept = now;
            pending::sweep(lane);
            family::look_for_dead(lane);
            if ports::any_rests() {
                lane.give_surplus_ports_back();
            }
        }
    }
}

/// The lane has ended, and sockets of it go on with the kernel: `tickwire stat` is to say so when
/// the service is back, although the program may never make another socket. `not_before` is when
/// the service may be told again. Says whether there are such sockets.
fn tell_why(work: &mut Option<Locked<'static, ()>>, not_before: &mut Instant) -> bool {
    if start::is_confined() {
        // It ends with the thread that is, and is not kept by this one; until then it stays listed.
        return false;
    }
    let Some(reason) = start::why_unlisted() else {
        start::withdraw();
        return false;
    };
    let mut listed = start::listed_by();
    if lane::current().is_some() {
        return true;
    }
    let now = sys::now();
    if listed.is_none() && now >= *not_before {
        *not_before = now + start::RETRY;
        match start::announce(reason) {
            Ok(by) => listed = by,
            Err(rest) => *not_before = now + rest,
        }
    }
    let mut fds = [readable(listed.unwrap_or(-1)), readable(bell::descriptor())];
    let _ = sleep(work, &mut fds, listed.is_none().then(|| not_before.since(sys::now())));
    if fds[0].revents != 0 {
        start::hear();
    }
    if fds[1].revents != 0 {
        sys::drain(bell::descriptor());
    }
    true
}

/// One wait. Says which of the rings, the control connection and the wake-up showed something.
fn turn(lane: &'static Lane, work: &mut Option<Locked<'static, ()>>, look: &mut Span, ear: &Ear) -> [bool; 3] {
    let now = sys::now();
    let busy = lane.asleep() > 0 || now.since(lane.polled_at()) < RECENT;
    let (service, rests) = match ear.rests(now) {
        None => lane.free_control_descriptor().map_or((-1, Some(DEAF)), |fd| (fd, None)),
        rests => (-1, rests),
    };
    let [wakes, rings] = if busy { [NO_FD; 2] } else { lane.rings() };
    let mut fds = [wakes, rings, readable(service), readable(bell::descriptor())];
    let mut armed = false;
    let mut timeout = if busy {
        let this = *look;
        *look = this.times(2).min(LAST_LOOK);
        Some(this)
    } else {
        *look = FIRST_LOOK;
        // Here the stack is the helper's: it polls, and learns when to be back.
        let (is_armed, deadline) = lane.care_until_deadline();
        armed = is_armed;
        deadline.map(|at| at.since(sys::now()))
    };
    if lane.crowded() {
        timeout = Some(timeout.map_or(FIRST_LOOK, |t| t.min(FIRST_LOOK)));
    }
    let sweep = (!pending::is_empty() || family::has_company(lane)).then_some(SWEEP);
    let surplus = ports::any_rests().then_some(PORTS);
    for due in [sweep, surplus, rests].into_iter().flatten() {
        timeout = Some(timeout.map_or(due, |t| t.min(due)));
    }
    let slept = sleep(work, &mut fds, timeout);
    if armed {
        let _ = lane.with_quietly(|_| {
            lane.disarm();
            Ok(())
        });
    }
    lane.care_no_more();
    if slept.is_err() || lane.are_left_over([fds[0], fds[1]]) && fds[2..].iter().all(|fd| fd.revents == 0) {
        return [false; 3];
    }
    let now = sys::now();
    let unpolled = now.since(lane.polled_at()) >= RECENT;
    if unpolled && lane.asleep() > 0 && !lane.quiet() {
        lane.is_neglected();
    }
    if lane.due(now) || lane.crowded() || unpolled && fds[1].revents != 0 {
        let _ = lane.with_quietly(|_| Ok(()));
    }
    let [_, rings, service, bell] = fds.map(|fd| fd.revents != 0);
    [rings, service, bell]
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_int;

    /// What the kernel says of the calling thread.
    fn policy_and_nice() -> (c_int, c_int) {
        // SAFETY: plain numbers.
        unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) }
    }

    #[test]
    fn the_helper_inherits_neither_policy_nor_processors_of_the_thread_that_starts_it() {
        remember_processors();
        let all = sys::affinity().unwrap();
        let seen = std::thread::spawn(move || {
            let first = all.iter().position(|&word| word != 0).unwrap();
            let mut one: CpuMask = [0; 16];
            one[first] = 1 << all[first].trailing_zeros();
            sys::set_affinity(&one).unwrap();
            let real_time = sys::set_policy(Policy::Fifo(10)).is_ok();
            assert!(sys::set_policy(Policy::Batch).is_ok() || real_time);
            std::thread::spawn(move || {
                let inherited = (policy_and_nice().0, sys::affinity().unwrap());
                assert_eq!(inherited, (libc::SCHED_BATCH, one));
                schedule(&Scheduling::DEFAULT);
                let own = (policy_and_nice(), sys::affinity().unwrap());
                schedule(&Scheduling { policy: Policy::Idle, cpus: Some(one) });
                (own, policy_and_nice().0, sys::affinity().unwrap() == one)
            })
            .join()
            .unwrap()
        });
        assert_eq!(seen.join().unwrap(), (((libc::SCHED_OTHER, 0), all), libc::SCHED_IDLE, true));
    }

    #[test]
    fn a_fork_finds_no_helper_at_work() {
        let works = || std::thread::scope(|scope| scope.spawn(|| WORK.try_lock().is_some()).join().unwrap());
        let forking = family::locks(|_| ());
        assert!(!works(), "the child would find what the helper was about to do undone for ever");
        drop(forking);
        // One that is asked for is waited for.
        UNBORN.store(1, Release);
        std::thread::scope(|scope| {
            let fork = scope.spawn(|| drop(family::locks(|_| ())));
            assert!(!fork.is_finished());
            born();
        });
    }
}
