//! Several processes on one lane: fork, exec, and processes that die on their own.

use crate::base::locked::Locked;
use crate::lane::{self, Lane};
use crate::process::fork_inheritance::{Birth, ELSEWHERE, ForkShare, is_forked_by, is_unborn, say_elsewhere};
use crate::socket::close;
use crate::socket::kernel;
use crate::socket::leaving;
use crate::socket::multicast;
use crate::socket::open;
use crate::socket::pending;
use crate::sys;
use crate::sys::errno::Errno;
use crate::table::counts;
use crate::table::desc::PROCESSES;
use crate::table::fd::{Entry, TABLE};
use crate::table::protect;
use crate::wait::epoll;
use core::ffi::c_int;
use std::cell::Cell;
use tickwire_lane::control::Reason;

thread_local! {
    /// The share of the child that this thread is about to fork. The child's only thread is the one
    /// that forked, and other threads of the parent may fork at the same time.
    static CHILD: Cell<Option<ForkShare>> = const { Cell::new(None) };
}

/// Whether other processes use the lane.
pub(crate) fn has_company(lane: &'static Lane) -> bool {
    lane.company() > 0
}

/// Before a fork: the child gets a slot and counts as a holder of everything that this process
/// holds. A child that inherits nothing gets no slot, and later a lane of its own.
fn before_fork(lane: &'static Lane) {
    if !open::any() {
        return;
    }
    let own = 1 << lane.slot();
    let taken = ForkShare::take(lane, Birth::Fork, |access, child| {
        let mut descriptions = access.descriptions();
        for index in 0..descriptions.used() {
            let mut description = descriptions.get(index);
            let holders = description.holders();
            // The child does not get what another thread is closing.
            if *holders & own != 0 && counts::is_counted(index) {
                *holders |= child;
            }
        }
        access.kernel_rows().share(access.slot, child);
    });
    match taken {
        Err(ELSEWHERE) if open::any_socket() => say_elsewhere(),
        Err(Errno(libc::ENOBUFS)) => {
            sys::say("too many processes share one lane; the sockets of this child will not work");
        }
        _ => {}
    }
    CHILD.set(taken.ok());
}

/// After a fork, in the parent: the child's process number, or -1 if there is none.
pub(crate) fn after_fork_in_parent(child: c_int) {
    if let Some(share) = CHILD.take() {
        share.settle(u32::try_from(child).ok());
    }
}

/// Enters the number of a slot's process, if the slot still has the value that `from` expects.
pub(crate) fn enter_number(lane: &'static Lane, slot: usize, pid: u32, from: impl Fn(u64) -> bool) {
    let _ = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let process = descriptions.process(slot);
        if from(*process) {
            *process = u64::from(pid);
        }
        Ok(())
    });
    crate::base::wakeup_fd::ring();
}

/// This process enters its number into the slot that was reserved for it.
pub(crate) fn born(lane: &'static Lane, slot: usize) {
    enter_number(lane, slot, sys::process(), is_unborn);
}

/// After a fork, in the child: it has a slot, a control connection and, when needed, a helper of
/// its own.
pub(crate) fn after_fork_in_child(lane: &'static Lane) {
    pending::clear();
    crate::base::realtime::forget();
    crate::process::helper::forget(true);
    lane.forget_threads();
    close::finish_for_others();
    let elsewhere = sys::parent_is_elsewhere();
    let Some(share) = CHILD.take().filter(|share| share.is_of(lane) && !elsewhere) else {
        if elsewhere && open::any_socket() {
            say_elsewhere();
        }
        abandon(true);
        return;
    };
    lane.set_slot(share.slot());
    born(lane, share.slot());
    let (number, token) = lane.identity();
    // The inherited connection is the parent's. It stays open here until our own is made, so the
    // lane has a connection at any time.
    match crate::lane::start::attach_again(number, token, false) {
        Ok((session, _)) => {
            lane.set_session(session);
            take_stock(lane);
            crate::process::helper::start();
        }
        // The lane works, or its end would have been reported: the service's socket cannot be
        // opened from here.
        Err(Reason::NoService) => lane.end(Reason::Unreachable),
        Err(reason) => lane.end(reason),
    }
}

/// In a child, before it has other threads. The child got its share at one moment and the
/// descriptor table at a later one. Threads of its parent may have closed, made or copied sockets
/// between the two. A socket that is only in the share would stay open while the child lives. A
/// table entry without a share would later refer to another socket.
fn take_stock(lane: &'static Lane) {
    let slot = lane.slot();
    let used = lane.with(|access| {
        let mut descriptions = access.descriptions();
        for (fd, entry) in TABLE.each() {
            if let Some(index) = entry.description()
                && *descriptions.get(index).holders() & 1 << slot == 0
            {
                TABLE.set(fd, without_share(entry));
            }
        }
        Ok(descriptions.used())
    });
    let Ok(used) = used else { return };
    kernel::take_stock(lane, false);
    (0..used).for_each(counts::forget);
    TABLE.each().filter_map(|(_, entry)| entry.description()).for_each(counts::add);
    multicast::joined().retain(|&(index, _)| counts::is_counted(index));
    let mut next = 0;
    loop {
        let dropped = lane.with(|access| {
            while next < used {
                next += 1;
                if !counts::is_counted(next - 1)
                    && let Ok(Some(after)) = close::drop_reference_of(access, next - 1, slot)
                {
                    return Ok(Some(after));
                }
            }
            Ok(None)
        });
        match dropped {
            Ok(Some(after)) => after.finish(lane),
            _ => return,
        }
    }
}

/// What a descriptor refers to in a child that has no share of its socket.
fn without_share(entry: Entry) -> Entry {
    match entry {
        Entry::Udp(_) | Entry::Tcp(_) | Entry::Dead(_) => Entry::Dead(libc::ENOBUFS as u32),
        Entry::Epoll(_) | Entry::Kernel(_) | Entry::Unlisted(_) => Entry::Foreign,
        Entry::Instance(_) | Entry::Lane | Entry::Foreign => entry,
    }
}

/// In a child that has no share of its parent's lane: the sockets that it inherited fail, and its
/// next socket asks for a lane of its own. Without a slot, nothing would keep the child from
/// closing the parent's sockets, or the parent from closing the child's; and the control connection
/// is the parent's.
///
/// False if a lock is held by a thread that only the parent has: the child cannot have a lane.
pub(crate) fn abandon(own_descriptors: bool) -> bool {
    crate::process::helper::forget(own_descriptors);
    let free = [pending::abandon(), multicast::abandon(), epoll::abandon()];
    lane::disinherit();
    for (fd, entry) in TABLE.each() {
        if let Some(index) = entry.description() {
            counts::forget(index);
        }
        TABLE.set(fd, without_share(entry));
    }
    if own_descriptors {
        close_protected();
    }
    free == [true; 3]
}

/// Closes the descriptors of the parent's lane, and of its request for one.
pub(crate) fn close_protected() {
    TABLE.each().filter(|&(_, entry)| entry == Entry::Lane).for_each(|(fd, _)| protect::release(fd));
}

/// A process is gone, or has released everything: its share of every socket is dropped, and with
/// the last share the socket. Nothing happens if the slot is not that process's any more. Then this
/// has been done before, and a new process may have the slot, whose sockets would be closed.
pub(crate) fn drop_process(lane: &'static Lane, slot: usize, process: u64) {
    let mut next = 0;
    // One at a time, because a list of them would have to be allocated.
    loop {
        let dropped = lane.with_quietly(|access| {
            if *access.descriptions().process(slot) != process {
                return Ok(None);
            }
            while next < access.descriptions().used() {
                let dropped = close::drop_reference_of(access, next, slot);
                next += 1;
                if let Ok(Some(after)) = dropped {
                    return Ok(Some(after));
                }
            }
            access.kernel_rows().drop_process(slot);
            lane.forget_waiters(access, slot);
            *access.descriptions().process(slot) = 0;
            Ok(None)
        });
        match dropped {
            Ok(Some(after)) => after.finish(lane),
            _ => break,
        }
    }
    // Its threads may have had the poll duty.
    lane.settle_duty();
}

/// The service reports that a process has closed its connection: it died, or became another
/// program. No other process has that connection open, so it has no child either that has not
/// entered its number yet.
pub(crate) fn gone(lane: &'static Lane, pid: u32) {
    let own = lane.slot();
    let slots = lane.with_quietly(|access| {
        let mut descriptions = access.descriptions();
        Ok((0..PROCESSES).map(|slot| (slot, *descriptions.process(slot))).collect::<Vec<_>>())
    });
    let slots = slots.unwrap_or_default();
    let is_its = |process: u64| process == u64::from(pid) || is_forked_by(process, pid);
    let (its, others): (Vec<_>, Vec<_>) =
        slots.into_iter().partition(|&(slot, process)| slot != own && is_its(process));
    its.into_iter().for_each(|(slot, process)| drop_process(lane, slot, process));
    look_for_dead(lane);
    // It may have been killed after it took in packets for another process, and before it woke
    // that. It is enough that one of the others signals the doorbell.
    if others.into_iter().find(|&(_, process)| process != 0 && !is_unborn(process)).is_some_and(|(slot, _)| slot == own)
    {
        sys::ring(lane.descriptors().1);
    }
}

/// Looks for processes of the lane that have died, and takes over what they have left.
pub(crate) fn look_for_dead(lane: &'static Lane) {
    pending::take_over(lane);
    let own = lane.slot();
    let mut others = [0u64; PROCESSES];
    let read = lane.with_quietly(|access| {
        let mut descriptions = access.descriptions();
        for (slot, pid) in others.iter_mut().enumerate() {
            *pid = *descriptions.process(slot);
        }
        Ok(())
    });
    if read.is_err() {
        return;
    }
    let mut company = 0;
    for (slot, &pid) in others.iter().enumerate() {
        if slot == own || pid == 0 {
            continue;
        }
        if !is_unborn(pid) && !sys::process_lives(pid as u32) {
            drop_process(lane, slot, pid);
        } else {
            company += 1;
        }
    }
    lane.set_company(company);
}

/// At the end of the program: everything is released, and sent data arrives.
pub(crate) fn at_exit() {
    let Some(lane) = lane::current() else { return };
    // Other threads wait at the gate until they are killed, and do not see the sockets close. If
    // the gate is shut, another thread has come this far, or is in exec.
    if lane.gate().close(false) {
        // As in Linux, where a process that exits does not linger (`inet_release`).
        drop_process(lane, lane.slot(), sys::process().into());
        crate::socket::flush::at_exit(lane);
        if has_company(lane) {
            pending::leave(lane);
        }
    }
    lane.retire();
}

/// Locks that no other thread may hold while the process forks: the child would find them held for
/// ever.
pub(crate) struct ForkLocks {
    _helper: Locked<'static, ()>,
    _starting: Option<Locked<'static, Option<crate::lane::start::ListedProgram>>>,
    _moving: Locked<'static, ()>,
    _registry: epoll::Registry,
    _ending: Option<lane::teardown::Teardown>,
    _joined: Locked<'static, multicast::Joined>,
    _pending: Locked<'static, Vec<pending::UnreleasedClaim>>,
    _streams: Locked<'static, Vec<(usize, c_int)>>,
    _given: Locked<'static, Option<std::collections::HashMap<usize, Vec<c_int>>>>,
    _lane: Option<lane::service::LaneForkLocks>,
    _still: Option<protect::Still>,
}

/// Before a fork, in the parent: what the child needs, and the locks.
pub(crate) fn prepare() -> ForkLocks {
    CHILD.set(None);
    locks(before_fork)
}

/// All locks. `before` runs when no other thread makes a lane any more, and before the locks that
/// it may need are taken.
pub(crate) fn locks(before: impl FnOnce(&'static Lane)) -> ForkLocks {
    // First, because the helper takes all other locks.
    let helper = crate::base::helper_work::asleep();
    // No other thread is making a lane now.
    let starting = crate::lane::start::hold();
    // Before the child gets its share: a socket that is about to leave the lane is not part of
    // that.
    let moving = leaving::hold();
    let lane = lane::current();
    if let Some(lane) = lane {
        before(lane);
    }
    ForkLocks {
        _helper: helper,
        _starting: starting,
        _moving: moving,
        _registry: epoll::registry(),
        // After the registry, because a thread that holds it may find a lane lost; before the
        // pending list, which is locked inside the lane.
        _ending: lane::teardown::hold(),
        _joined: multicast::joined(),
        _pending: pending::list(),
        _streams: crate::table::streams::list(),
        _given: crate::process::spawn::given(),
        _lane: lane.map(Lane::fork_locks),
        _still: protect::still(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::desc::flag;
    use crate::testing;
    use tickwire_stack::time::Span;

    #[test]
    fn the_share_of_a_process_that_got_the_slot_of_one_that_is_gone_stays() {
        const GONE: u64 = u32::MAX as u64;
        // A process that lives, independent of the process that checks.
        const NEW: u64 = 1;
        let lane = testing::lane();
        let fd = testing::connected(7);
        let index = TABLE.get(fd).description().unwrap();
        let slot = lane.with(|access| {
            let mut descriptions = access.descriptions();
            let slot = descriptions.take_process(NEW).unwrap();
            *descriptions.get(index).holders() |= 1 << slot;
            Ok(slot)
        });
        let slot = slot.unwrap();
        let holds = || lane.with(|access| Ok(*access.descriptions().get(index).holders() & 1 << slot != 0)).unwrap();
        drop_process(lane, slot, GONE);
        assert!(holds(), "a process that notices too late drops nothing");
        drop_process(lane, slot, NEW);
        assert!(!holds());
        testing::close(fd);
    }

    #[test]
    fn a_child_holds_what_is_in_its_table_and_has_what_it_holds() {
        let (lane, _service) = testing::another();
        let own = lane.slot();
        let joined = multicast::joined();
        // SAFETY: the child needs no other lock that a thread may have but the allocator's, which
        // the C library sees to, and ends here.
        let child = unsafe { libc::fork() };
        drop(joined);
        if child == 0 {
            // SAFETY: a plain number.
            unsafe { libc::alarm(20) };
            for (fd, _) in TABLE.each() {
                TABLE.set(fd, Entry::Foreign);
            }
            let take = |holder| lane.with(|access| Ok(access.descriptions().take(flag::TCP, holder))).unwrap().unwrap();
            let [kept, closed, made, set] = [own, own, own + 1, own + 1].map(take);
            let entries = [Entry::Tcp(kept), Entry::Tcp(kept), Entry::Tcp(made), Entry::Epoll(set)];
            for (fd, entry) in (900..).zip(entries) {
                TABLE.set(fd, entry);
            }
            counts::add(closed);
            counts::add(made);
            take_stock(lane);
            let has = |index| lane.flags_of(index) != 0;
            let as_it_should = [kept, closed, made, set].map(has) == [true, false, true, true]
                && [900, 902, 903].map(|fd| TABLE.get(fd))
                    == [Entry::Tcp(kept), Entry::Dead(libc::ENOBUFS as u32), Entry::Foreign]
                && [kept, closed, made].map(counts::is_counted) == [true, false, false];
            // The two descriptors are closed one after the other.
            close::ended(TABLE.set(900, Entry::Foreign));
            let counts = counts::is_counted(kept);
            close::ended(TABLE.set(901, Entry::Foreign));
            // SAFETY: a plain number.
            unsafe { libc::_exit(if as_it_should && counts && !counts::is_counted(kept) { 7 } else { 1 }) };
        }
        let mut status: c_int = -1;
        // SAFETY: a place for a number.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
    }

    #[test]
    fn what_a_process_took_in_before_it_was_killed_is_rung_for_by_another() {
        let (lane, _service) = testing::another();
        let (_, doorbell) = lane.descriptors();
        let rung = || {
            let mut fds = [libc::pollfd { fd: doorbell, events: libc::POLLIN, revents: 0 }];
            sys::ppoll(&mut fds, Some(Span::ZERO), None) == Ok(1)
        };
        assert!(!rung());
        gone(lane, i32::MAX as u32);
        assert!(rung());
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_lives_while_it_has_others() {
        let program = format!(
            "import ctypes, threading, time\n\
             threading.Thread(target=time.sleep, args=(60,)).start()\n\
             ctypes.CDLL(None).syscall({}, 0)",
            libc::SYS_exit
        );
        let mut other = std::process::Command::new("python3").args(["-c", &program]).spawn().unwrap();
        let stat = format!("/proc/{}/stat", other.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(sys::process_lives(other.id()));
        other.kill().unwrap();
        while sys::process_lives(other.id()) {
            std::thread::yield_now();
        }
        other.wait().unwrap();
        assert!(!sys::process_lives(other.id()));
    }
}
