//! Signal handlers and threads that are inside the lane.
//!
//! A handler that interrupts a thread there, or one that holds a lock of ours, cannot call into the
//! lane. One that does not return (`longjmp`) would leave the lane half-changed and its lock held
//! for ever, for all its processes. So this library installs its own handler in front of the
//! program's: inside the lane, it blocks the signal and sends it to the thread again. It unblocks
//! the signal when the thread has left the lane, a microsecond later. Handlers of faults cannot be
//! deferred, and handlers that are uninstalled by running (`SA_RESETHAND`) are not: they run
//! wherever the thread is.
//!
//! The signals of a bad pointer (`SIGSEGV`, `SIGBUS`) also have a handler of ours in front of the
//! program's. Where the program's memory is being copied, the copy fails (see [`guarded`]), and
//! nothing else happens.

use super::export;
use crate::base::deferred_signals;
use crate::sys;
use crate::sys::errno;
use crate::sys::{guarded, real};
use crate::wait;
use core::ffi::{c_int, c_void};
use core::mem::{transmute, zeroed};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use libc::{sighandler_t, siginfo_t, ucontext_t};

/// The signals of a bad pointer.
const BAD_POINTER: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The program's handlers, by signal.
static INSTALLED: [AtomicU64; 65] = [const { AtomicU64::new(Installed::DEFAULT.0) }; 65];
/// Whether copies of the program's memory are guarded.
static GUARDS: AtomicBool = AtomicBool::new(false);

/// A handler of the program: its address, whose highest bits are free, and how to call it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Installed(u64);

impl Installed {
    const DEFAULT: Self = Self(libc::SIG_DFL as u64);
    /// It takes only the signal's number.
    const PLAIN: u64 = 1 << 63;
    /// It is uninstalled by running.
    const ONCE: u64 = 1 << 62;

    fn of(action: &libc::sigaction) -> Self {
        let when = |bit, is: bool| if is { bit } else { 0 };
        let handled = action.sa_sigaction != libc::SIG_DFL;
        let plain = when(Self::PLAIN, handled && action.sa_flags & libc::SA_SIGINFO == 0);
        let once = when(Self::ONCE, handled && action.sa_flags & libc::SA_RESETHAND != 0);
        Self(action.sa_sigaction as u64 | plain | once)
    }

    fn handler(self) -> sighandler_t {
        (self.0 & !(Self::PLAIN | Self::ONCE)) as sighandler_t
    }

    fn is_plain(self) -> bool {
        self.0 & Self::PLAIN != 0
    }

    fn is_once(self) -> bool {
        self.0 & Self::ONCE != 0
    }

    /// Runs it.
    ///
    /// # Safety
    /// It is a function that takes the kernel's arguments, or, if it is plain, only the signal's
    /// number.
    unsafe fn run(self, (signal, info, context): (c_int, *mut siginfo_t, *mut c_void)) {
        // SAFETY: by the caller's promise.
        unsafe {
            if self.is_plain() {
                transmute::<usize, extern "C-unwind" fn(c_int)>(self.handler())(signal);
            } else {
                transmute::<usize, extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void)>(self.handler())(
                    signal, info, context,
                );
            }
        }
    }
}

extern "C-unwind" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if BAD_POINTER.contains(&signal) {
        // SAFETY: the kernel's arguments of this handler.
        return unsafe { on_bad_pointer(signal, info, context) };
    }
    // SAFETY: the kernel's arguments of this handler.
    if deferred_signals::are_to_wait() && unsafe { put_off(signal, info, context) } {
        return;
    }
    let installed = installed(signal);
    if installed == Installed::DEFAULT {
        return;
    }
    deferred_signals::count_handler();
    let before = errno::get();
    let disturbed = wait::disturb();
    errno::set(before);
    // SAFETY: the program installed a function of this kind.
    unsafe { installed.run((signal, info, context)) };
    if let Some(lane) = disturbed {
        // No wakeup has reached it meanwhile, and the signal may have arrived just before the
        // thread slept.
        let before = errno::get();
        sys::ring(lane.descriptors().1);
        errno::set(before);
    }
}

/// A bad pointer of the program in a call of this library, or otherwise what would have happened
/// without the library.
///
/// # Safety
/// The kernel's arguments of the running handler.
unsafe fn on_bad_pointer(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: by the caller's promise.
    let is_fault = unsafe { (*info).si_code } > 0;
    // SAFETY: by the caller's promise.
    if is_fault && unsafe { guarded::recover(context) } {
        return;
    }
    let installed = take(signal);
    if installed == Installed::DEFAULT {
        // The kernel's default action follows when this returns: the faulting instruction runs
        // again, or the signal is sent again.
        // SAFETY: all zero is a valid action, which is the default; `info` is the kernel's
        // argument.
        unsafe {
            let action: libc::sigaction = zeroed();
            real::sigaction(signal, &raw const action, core::ptr::null_mut());
            if !is_fault {
                libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info);
            }
        }
        return;
    }
    // SAFETY: the program installed a function of this kind.
    unsafe { installed.run((signal, info, context)) };
}

/// From here on a copy from or to unmapped memory of the program fails instead of ending the
/// program. The few programs that ignore such signals are not covered: programs that they start
/// would not ignore them any more.
pub(crate) fn guard() {
    if GUARDS.swap(true, SeqCst) {
        return;
    }
    for signal in BAD_POINTER {
        // SAFETY: all zero is a valid action, and is filled in.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            if real::sigaction(signal, core::ptr::null(), &raw mut action) < 0 {
                continue;
            }
            let (found, mut before) = (action.sa_sigaction, zeroed());
            let Some(behind) = behind_ours(signal, &action).filter(|_| found != ours()) else { continue };
            // Another thread may install a handler meanwhile: that one stays.
            let (none, found) = (Installed::DEFAULT.0, Installed::of(&action).0);
            let _ = INSTALLED[signal as usize].compare_exchange(none, found, SeqCst, SeqCst);
            real::sigaction(signal, &raw const behind, &raw mut before);
            if before.sa_sigaction == ours() {
                real::sigaction(signal, &raw const before, core::ptr::null_mut());
            }
        }
    }
}

/// Whether a copy of unmapped memory fails with an error.
pub(crate) fn guards() -> bool {
    GUARDS.load(SeqCst)
}

/// Defers a signal until the thread has left the lane, and holds none of our locks. False if the
/// system does not accept it again.
///
/// # Safety
/// `info` and `context` are the kernel's arguments of the running handler.
unsafe fn put_off(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    let before = errno::get();
    // SAFETY: by the caller's promise. The kernel takes the thread's mask from the context when the
    // handler returns; until then the signal may be open (`SA_NODEFER`).
    let sent = unsafe {
        let mut this = zeroed();
        libc::sigemptyset(&raw mut this);
        libc::sigaddset(&raw mut this, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const this, core::ptr::null_mut());
        let sent = libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info) == 0;
        if sent {
            libc::sigaddset(&raw mut (*context.cast::<ucontext_t>()).uc_sigmask, signal);
        }
        sent
    };
    if sent {
        deferred_signals::put_off(signal);
    }
    errno::set(before);
    sent
}

fn ours() -> sighandler_t {
    on_signal as *const () as sighandler_t
}

/// The program's handler behind ours.
fn installed(signal: c_int) -> Installed {
    INSTALLED.get(signal as usize).map_or(Installed::DEFAULT, |installed| Installed(installed.load(SeqCst)))
}

/// The same, to be run: one that is uninstalled by running is removed.
fn take(signal: c_int) -> Installed {
    loop {
        let found = installed(signal);
        let (before, after) = (found.0, Installed::DEFAULT.0);
        if !found.is_once() || INSTALLED[signal as usize].compare_exchange(before, after, SeqCst, SeqCst).is_ok() {
            return found;
        }
    }
}

fn remember(signal: c_int, action: Installed) {
    if let Some(installed) = INSTALLED.get(signal as usize) {
        installed.store(action.0, SeqCst);
    }
}

/// Whether an action has to be placed behind our handler.
fn is_to_be_ours(signal: c_int, action: &libc::sigaction) -> bool {
    let handled = ![libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR].contains(&action.sa_sigaction);
    if BAD_POINTER.contains(&signal) {
        return handled || action.sa_sigaction == libc::SIG_DFL && GUARDS.load(SeqCst);
    }
    (1..=64).contains(&signal) && !sys::FAULTS.contains(&signal) && handled && action.sa_flags & libc::SA_RESETHAND == 0
}

/// The action for the kernel in place of one that has to be placed behind our handler.
fn behind_ours(signal: c_int, action: &libc::sigaction) -> Option<libc::sigaction> {
    if !is_to_be_ours(signal, action) {
        return None;
    }
    let mut behind = *action;
    behind.sa_sigaction = ours();
    behind.sa_flags = behind.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
    if action.sa_sigaction == libc::SIG_DFL {
        // The thread's own stack may be unmapped.
        behind.sa_flags |= libc::SA_ONSTACK;
    }
    Some(behind)
}

/// The same; the action is stored. One that only the kernel handles ends the previous one: `guard`
/// may place ours in front of it later.
fn changed(signal: c_int, action: &libc::sigaction) -> Option<libc::sigaction> {
    let Some(behind) = behind_ours(signal, action) else {
        if BAD_POINTER.contains(&signal) {
            remember(signal, Installed::DEFAULT);
        }
        return None;
    };
    if action.sa_sigaction != ours() {
        remember(signal, Installed::of(action));
    }
    Some(behind)
}

/// An action for which the kernel has ours, as the program knows it.
fn as_installed(signal: c_int, installed: Installed, action: &mut libc::sigaction) {
    action.sa_sigaction = installed.handler();
    if installed.is_plain() {
        action.sa_flags &= !libc::SA_SIGINFO;
    }
    if installed.is_once() {
        action.sa_flags |= libc::SA_RESETHAND;
    }
    if BAD_POINTER.contains(&signal) && installed == Installed::DEFAULT {
        action.sa_flags &= !(libc::SA_SIGINFO | libc::SA_ONSTACK);
    }
}

/// Places what `signal` and its variants `install` behind our handler; returns their result as the
/// program knows it.
fn adopt(signal: c_int, install: impl FnOnce() -> sighandler_t) -> sighandler_t {
    let before = installed(signal);
    let answer = install();
    // SAFETY: all zero is a valid action, and is filled in; the changed one differs in the handler,
    // which is a function of ours.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        if answer != libc::SIG_ERR
            && real::sigaction(signal, core::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction != ours()
            && let Some(changed) = changed(signal, &action)
        {
            real::sigaction(signal, &raw const changed, core::ptr::null_mut());
        }
    }
    if answer == ours() { before.handler() } else { answer }
}

export! {
    /// `sigaction(2)`.
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        let before = installed(signal);
        // SAFETY: null or the program's structures; one of our own in place of the first.
        unsafe {
            let changed = new.as_ref().and_then(|action| changed(signal, action));
            let done = real::sigaction(signal, changed.as_ref().map_or(new, core::ptr::from_ref), old);
            if done < 0 {
                remember(signal, before);
            } else if let Some(old) = old.as_mut()
                && old.sa_sigaction == ours()
            {
                as_installed(signal, before, old);
            }
            done
        }
    }

    /// `signal(3)`.
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments are passed on unchanged.
        adopt(signal, || unsafe { real::signal(signal, handler) })
    }

    /// `bsd_signal(3)`.
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { self::signal(signal, handler) }
    }

    /// `ssignal(3)`, which is `signal`.
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { self::signal(signal, handler) }
    }

    /// `sysv_signal(3)`.
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { __sysv_signal(signal, handler) }
    }

    /// The function behind `signal` in a program that is compiled for strict C or POSIX.
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments are passed on unchanged.
        adopt(signal, || unsafe { real::__sysv_signal(signal, handler) })
    }

    /// `sigaction` under another name of the C library.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { sigaction(signal, new, old) }
    }

    /// `sigset(3)`.
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments are passed on unchanged.
        adopt(signal, || unsafe { real::sigset(signal, handler) })
    }
}
