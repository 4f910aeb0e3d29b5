//! The helper thread: keeps acknowledgements, retransmissions and keepalives going while the
//! program is busy elsewhere, and reads the service's messages.
//!
//! It stays out of the way of a program that polls or sleeps on the lane by itself: then it only
//! checks now and then whether that is still so. When no thread of the program does, the helper
//! waits on the rings and for the stack's next deadline on behalf of the program.

use crate::base::config::settings;
use crate::base::locked::Locked;
use crate::base::{helper_work, realtime, wakeup_fd};
use crate::lane::{self, Lane, ports, start};
use crate::process::control_poll::{ControlPoll, DEAF};
use crate::process::{lane_processes, leave};
use crate::socket::pending;
use crate::sys::errno::Result;
use crate::sys::scheduling::{CpuMask, Policy, Scheduling};
use crate::sys::{self, NO_FD, readable};
use crate::table::protect;
use core::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use libc::pollfd;
use std::sync::OnceLock;
use tickwire_stack::time::{Instant, Span};

/// The program counts as polling for this long after its last poll.
const RECENT: Span = Span::from_millis(1);
/// How often the helper checks whether the program still polls: at first, and, doubled each time,
/// at most. Meanwhile it is not woken for a timer that the program sets: that would be a wakeup for
/// each message, nearly all of which are acknowledged long before. One thread may set a timer after
/// another has fallen asleep, so that no thread of the program sleeps for it. Such a timer is late
/// by `LAST_LOOK` at most.
const FIRST_LOOK: Span = Span::from_millis(2);
const LAST_LOOK: Span = Span::from_millis(32);
/// The interval while connections that the program closed are unfinished, or other processes may
/// die.
const SWEEP: Span = Span::from_millis(200);
/// The interval while unused ports are held, some of which may have to be returned to the service.
const PORTS: Span = Span::from_secs(30);
/// Stack size: the thread needs little.
const STACK: usize = 256 << 10;

/// The process whose helper runs, 0 if none does.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// The processors on which the process was started, `None` if the system does not say.
static PROCESSORS: OnceLock<Option<CpuMask>> = OnceLock::new();

/// Before the program runs: its threads may set their CPU affinity later, and the helper must not
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

/// Starts the helper of this process, if it does not run.
pub(crate) fn start() {
    let pid = sys::process();
    let before = RUNS_IN.swap(pid, AcqRel);
    if before == pid {
        return wakeup_fd::ring();
    }
    // A helper that has ended leaves its eventfd; this process must not signal one that another
    // process left.
    if (before != 0 || wakeup_fd::descriptor() < 0)
        && let Ok(fd) = sys::eventfd().and_then(protect::keep)
    {
        wakeup_fd::replace(fd);
    }
    // The program's signals are for its own threads.
    let before = sys::block_signals();
    helper_work::is_requested();
    let started = std::thread::Builder::new().name("tickwire-helper".into()).stack_size(STACK).spawn(move || {
        schedule(&settings().helper);
        loop {
            let done = std::panic::catch_unwind(run);
            RUNS_IN.swap(0, AcqRel);
            // A thread that made a lane before this has only signalled the eventfd; one that makes
            // a lane after it starts another helper.
            let missed = done.is_ok() && lane::current().is_some();
            if !missed || RUNS_IN.compare_exchange(0, pid, AcqRel, Acquire).is_err() {
                return;
            }
        }
    });
    sys::restore_signals(&before);
    if started.is_err() {
        helper_work::is_there();
        RUNS_IN.store(0, Relaxed);
        sys::say("the helper thread cannot be started; acknowledgements wait until the program polls");
    }
}

/// Forgets the helper, which a forked child does not have. Its descriptor is closed if the child
/// has descriptors of its own.
pub(crate) fn forget(own_descriptors: bool) {
    RUNS_IN.store(0, Relaxed);
    helper_work::forget();
    let fd = wakeup_fd::replace(-1);
    if fd >= 0 && own_descriptors {
        protect::release(fd);
    }
}

/// Sleeps without the lock: no other thread has to wait for the helper meanwhile.
fn sleep(work: &mut Option<Locked<'static, ()>>, fds: &mut [pollfd], timeout: Option<Span>) -> Result<usize> {
    *work = None;
    let slept = sys::ppoll(fds, timeout, None);
    *work = Some(helper_work::begin());
    slept
}

fn run() {
    // Its signals are blocked. But while it holds a lock it continues at the program's end, for as
    // long as sent data is in flight (see `exit_gate`).
    let mut work = Some(helper_work::begin());
    helper_work::is_there();
    let mut look = FIRST_LOOK;
    let mut ear = ControlPoll::default();
    let mut swept = sys::now();
    let mut not_before = swept;
    let mut before: Option<&'static Lane> = None;
    loop {
        // As long as the connection to the service is open, packets for the lane's ports go to the
        // lane.
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
            sys::drain(wakeup_fd::descriptor());
        }
        // After the eventfd has been drained: it is signalled for messages that arrived while an
        // answer was awaited.
        let (heard, asked) = (lane.hear(woken[1]), lane.run_errands());
        if lane.talk.leaves() && !lane.is_over() {
            leave::leave(lane, |pause| {
                let _ = sleep(&mut work, &mut [], Some(pause));
            });
            continue;
        }
        if settings().helper.policy == Scheduling::DEFAULT.policy {
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
            lane_processes::look_for_dead(lane);
            if ports::any_rests() {
                lane.give_surplus_ports_back();
            }
        }
    }
}

/// The lane has ended, and sockets of it continue as kernel sockets: `tickwire stat` is to say so
/// when the service is back, although the program may never make another socket. `not_before` is
/// when the service may be asked again. Returns whether there are such sockets.
fn tell_why(work: &mut Option<Locked<'static, ()>>, not_before: &mut Instant) -> bool {
    if start::is_confined() {
        // The listing ends with the confined thread, and this one does not maintain it; until then
        // it stays.
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
    let mut fds = [readable(listed.unwrap_or(-1)), readable(wakeup_fd::descriptor())];
    let _ = sleep(work, &mut fds, listed.is_none().then(|| not_before.since(sys::now())));
    if fds[0].revents != 0 {
        start::hear();
    }
    if fds[1].revents != 0 {
        sys::drain(wakeup_fd::descriptor());
    }
    true
}

/// One wait. Returns which of the rings, the control connection and the wakeup eventfd were ready.
fn turn(lane: &'static Lane, work: &mut Option<Locked<'static, ()>>, look: &mut Span, ear: &ControlPoll) -> [bool; 3] {
    let now = sys::now();
    let busy = lane.asleep() > 0 || now.since(lane.polled_at()) < RECENT;
    let (service, rests) = match ear.rests(now) {
        None => lane.free_control_descriptor().map_or((-1, Some(DEAF)), |fd| (fd, None)),
        rests => (-1, rests),
    };
    let [wakes, rings] = if busy { [NO_FD; 2] } else { lane.rings() };
    let mut fds = [wakes, rings, readable(service), readable(wakeup_fd::descriptor())];
    let mut armed = false;
    let mut timeout = if busy {
        let this = *look;
        *look = this.times(2).min(LAST_LOOK);
        Some(this)
    } else {
        *look = FIRST_LOOK;
        // Here the stack is the helper's: it polls, and learns when to wake up next.
        let (is_armed, deadline) = lane.care_until_deadline();
        armed = is_armed;
        deadline.map(|at| at.since(sys::now()))
    };
    if lane.crowded() {
        timeout = Some(timeout.map_or(FIRST_LOOK, |t| t.min(FIRST_LOOK)));
    }
    let sweep = (!pending::is_empty() || lane_processes::has_company(lane)).then_some(SWEEP);
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

    /// The calling thread's policy and nice value.
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
        let works = || std::thread::scope(|scope| scope.spawn(helper_work::may_begin).join().unwrap());
        let forking = lane_processes::locks(|_| ());
        assert!(!works(), "the child would find what the helper was about to do undone for ever");
        drop(forking);
        // A fork waits for a helper that has been requested.
        helper_work::is_requested();
        std::thread::scope(|scope| {
            let fork = scope.spawn(|| drop(lane_processes::locks(|_| ())));
            assert!(!fork.is_finished());
            helper_work::is_there();
        });
    }
}
