//! Exports and hooks for the start, fork and end of processes.

use super::export;
use crate::lane;
use crate::process::fork_inheritance;
use crate::process::lane_processes::{self, ForkLocks};
use crate::socket::{leaving, open};
use crate::sys::real;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::pid_t;
use std::cell::RefCell;

/// What `clone` runs in the child.
type Start = extern "C" fn(*mut c_void) -> c_int;

thread_local! {
    /// The locks that the forking thread holds between the two sides of the fork.
    static LOCKS: RefCell<Option<ForkLocks>> = const { RefCell::new(None) };
}

/// Before a fork by the C library. (A fork without hooks may be called in a signal handler, where
/// this must not run.)
extern "C" fn before_fork() {
    let _ = super::caught(|| {
        fork_inheritance::before_child();
        Ok(())
    });
    prepare();
}

extern "C" fn prepare() {
    let _ = super::caught(|| {
        let held = lane_processes::prepare();
        LOCKS.with(|locks| *locks.borrow_mut() = Some(held));
        Ok(())
    });
}

extern "C" fn parent() {
    let _ = super::caught(|| {
        LOCKS.with(|locks| drop(locks.borrow_mut().take()));
        Ok(())
    });
}

extern "C" fn child() {
    let _ = super::caught(|| {
        lane::heard_of();
        LOCKS.with(|locks| drop(locks.borrow_mut().take()));
        crate::lane::start::forget();
        crate::wait::epoll_wait::forget_sleepers();
        crate::sys::cancellation::forget();
        match lane::inherit() {
            Some(lane) => lane_processes::after_fork_in_child(lane),
            // The parent may continue without a lane, and its lane may have ended just now.
            None => {
                crate::wait::epoll::lane_ended();
                crate::process::helper::forget(true);
                lane_processes::close_protected();
            }
        }
        Ok(())
    });
}

unsafe extern "C" {
    fn __cxa_atexit(run: extern "C" fn(*mut c_void), argument: *mut c_void, object: *mut c_void) -> c_int;
    fn __cxa_at_quick_exit(run: extern "C" fn(*mut c_void), object: *mut c_void) -> c_int;
}

/// At `exit`: after all exit handlers of the program and its libraries, before the C library
/// flushes its streams.
extern "C" fn at_exit(_: *mut c_void) {
    super::stdio::flush_all();
    at_end();
}

/// At `quick_exit`, also as the last handler.
extern "C" fn at_quick_exit(_: *mut c_void) {
    at_end();
}

/// At the end of the process.
fn at_end() {
    let _ = super::caught(|| {
        lane_processes::at_exit();
        Ok(())
    });
}

/// Runs when the library is loaded, before the program.
extern "C" fn load() {
    real::resolve_all();
    super::observer::install();
    super::exec::remember_environment();
    crate::process::helper::remember_processors();
    // SAFETY: functions of ours that live as long as the process.
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(parent), Some(child));
        // Registered for no object: handlers of an object run when it is unloaded, and this library
        // is unloaded before those of the program. Their static objects may still have threads to
        // join and sockets to close.
        __cxa_atexit(at_exit, core::ptr::null_mut(), core::ptr::null_mut());
        __cxa_at_quick_exit(at_quick_exit, core::ptr::null_mut());
    }
    let _ = super::caught(|| {
        crate::process::exec::inherit();
        // Programs of several threads have them before their first socket.
        crate::table::protect::make_room_early();
        (0..3).for_each(super::stdio::stand_in);
        Ok(())
    });
}

#[cfg(not(any(test, fuzzing)))]
#[used]
// SAFETY: the loader calls each entry of this section once, as a function without arguments that it
// needs.
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

/// In the parent, after a fork or its failure.
fn forked(pid: pid_t) {
    let before = crate::sys::errno::get();
    let _ = super::caught(|| {
        lane_processes::after_fork_in_parent(pid);
        Ok(())
    });
    crate::sys::errno::set(before);
}

/// The arguments of a child of a clone that is no fork.
struct Orphan {
    start: Start,
    argument: *mut c_void,
    own_descriptors: bool,
}

extern "C" fn begin_orphan(orphan: *mut c_void) -> c_int {
    // SAFETY: the structure in the parent's frame, of which this process has a copy.
    let Orphan { start, argument, own_descriptors } = unsafe { orphan.cast::<Orphan>().read() };
    let _ = super::caught(|| {
        lane_processes::abandon(own_descriptors);
        Ok(())
    });
    let status = start(argument);
    // The C library would end only this thread, but by now there may be a helper thread.
    // SAFETY: ends the process, as a clone whose function returns does.
    unsafe { _exit(status) }
}

/// Logs once why the child of a clone has none of its parent's sockets.
fn say_orphan() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        crate::sys::say(
            "the program calls clone with flags that fork does not have (namespaces, for one): \
             sockets that it shares with other processes do not work in the child, which may open new ones",
        );
    }
}

/// Whether a `prctl` may confine the program. A call that the kernel refuses for lack of a right,
/// or does not know, does not. Nor does a filter without an address: that only asks whether the
/// kernel supports filters.
fn confines(option: c_int, mode: usize, filter: usize) -> bool {
    const STRICT: usize = libc::SECCOMP_MODE_STRICT as usize;
    const FILTER: usize = libc::SECCOMP_MODE_FILTER as usize;
    option == libc::PR_SET_SECCOMP
        && match mode {
            STRICT => true,
            FILTER => filter != 0 && crate::sys::may_filter_calls(),
            _ => false,
        }
}

export! {
    /// `fork(2)`. The hooks do the work, for forks inside the C library, too; here the parent gets
    /// the child's number.
    fn fork() -> pid_t {
        // SAFETY: no arguments.
        let pid = unsafe { real::fork() };
        if pid != 0 {
            forked(pid);
        }
        pid
    }

    /// `_Fork(3)`: a fork without hooks, so ours are called here.
    #[allow(non_snake_case, reason = "the C library's name")]
    fn _Fork() -> pid_t {
        prepare();
        // SAFETY: no arguments.
        let pid = unsafe { real::_Fork() };
        if pid == 0 {
            child();
        } else {
            parent();
            forked(pid);
        }
        pid
    }

    /// `clone(2)`. Threads are not touched. A clone that does no more than `fork` or `vfork`
    /// becomes a fork. After a bare clone the C library in the child takes itself for the parent's
    /// thread, so both would hold a lock of the lane. (Later arguments that the program has not
    /// given are not used, only passed on.)
    fn clone(start: Option<Start>, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent_tid: *mut pid_t, tls: *mut c_void, child_tid: *mut pid_t) -> c_int {
        const FORK: c_int = 0xff | libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
        let shares_memory = flags & libc::CLONE_VM != 0 && (flags & libc::CLONE_VFORK == 0 || flags & libc::CLONE_SIGHAND != 0);
        let pass_on = |start, argument, flags| {
            // SAFETY: the program's arguments, except for the function that runs first.
            unsafe { real::clone(start, stack, flags, argument, parent_tid, tls, child_tid) }
        };
        let (Some(run), false, true) = (start, shares_memory || flags & libc::CLONE_THREAD != 0, lane::current().is_some()) else {
            return pass_on(start, argument, flags);
        };
        if flags & !FORK == 0 && flags & 0xff == libc::SIGCHLD {
            // SAFETY: no arguments.
            let pid = unsafe { fork() };
            if pid == 0 {
                if flags & libc::CLONE_CHILD_SETTID != 0 && !child_tid.is_null() {
                    // SAFETY: the program's place.
                    unsafe { *child_tid = crate::sys::process() as pid_t };
                }
                let status = run(argument);
                // SAFETY: ends the process, as a clone whose function returns does.
                unsafe { _exit(status) }
            }
            if pid > 0 && flags & libc::CLONE_PARENT_SETTID != 0 && !parent_tid.is_null() {
                // SAFETY: the program's place.
                unsafe { *parent_tid = pid };
            }
            return pid;
        }
        const NAMESPACES: c_int = libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWPID | libc::CLONE_NEWNET;
        let is_refused = flags & NAMESPACES != 0 && flags & libc::CLONE_NEWUSER == 0 && !crate::sys::is_administrator();
        let _ = super::caught(|| {
            if let Some(lane) = lane::current().filter(|_| open::any() && !is_refused) {
                fork_inheritance::leave_to_kernel(lane, |_| true);
            }
            Ok(())
        });
        if open::any_socket() {
            say_orphan();
        }
        let mut orphan = Orphan { start: run, argument, own_descriptors: flags & libc::CLONE_FILES == 0 };
        // A child that borrows its parent's memory until it execs would change our tables for the
        // parent, too. So it gets a copy; the parent waits all the same.
        pass_on(Some(begin_orphan), (&raw mut orphan).cast(), flags & !libc::CLONE_VM)
    }

    /// `prctl(2)`. Its further arguments are numbers or pointers: one register each in both calling
    /// conventions.
    fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
        let confines = confines(option, second, third);
        if confines {
            let _ = super::caught(|| {
                crate::lane::start::confine(leaving::before_confinement);
                Ok(())
            });
        }
        // SAFETY: the program's arguments are passed on unchanged.
        let done = unsafe { real::prctl(option, second, third, fourth, fifth) };
        if confines && done < 0 {
            crate::lane::start::unconfine();
        }
        done
    }

    /// `vfork(2)`: as `fork`, since a child that borrows its parent's memory would close the
    /// parent's sockets in our table.
    fn vfork() -> pid_t {
        // SAFETY: no arguments.
        unsafe { fork() }
    }

    /// `daemon(3)`. In the C library's own version the parent would end there, with its threads
    /// wherever they are.
    fn daemon(stay: c_int, keep: c_int) -> c_int {
        // SAFETY: plain numbers and a constant name; the parent ends as in the C library.
        unsafe {
            match fork() {
                -1 => return -1,
                0 => {}
                _ => _exit(0),
            }
            if libc::setsid() < 0 {
                return -1;
            }
            if stay == 0 {
                libc::chdir(c"/".as_ptr());
            }
            if keep == 0 {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                if null < 0 {
                    return -1;
                }
                for standard in 0..3 {
                    super::descriptor::dup2(null, standard);
                }
                if null > 2 {
                    super::descriptor::close(null);
                }
            }
        }
        0
    }

    /// `_exit(2)`: sent data still arrives.
    fn _exit(status: c_int) -> ! {
        at_end();
        // SAFETY: ends the process.
        unsafe {
            libc::syscall(libc::SYS_exit_group, status);
            core::hint::unreachable_unchecked()
        }
    }

    /// `_Exit(3)`.
    #[allow(non_snake_case, reason = "the C library's name")]
    fn _Exit(status: c_int) -> ! {
        // SAFETY: ends the process.
        unsafe { _exit(status) }
    }
}
