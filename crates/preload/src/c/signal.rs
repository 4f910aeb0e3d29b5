//! Signal handlers and threads that are inside the lane.
//!
//! A handler that interrupts a thread there, or with one of our locks in hand, cannot call into the
//! lane, and one that does not come back (`longjmp`) would leave the lane half-changed and its lock
//! taken for ever, for all its processes. So handlers are installed behind one of ours: inside the
//! lane, it blocks the signal, sends it to the thread once more, and lets it through when the
//! thread is out, a microsecond later. Handlers of faults cannot be put off, and handlers that are
//! uninstalled by running (`SA_RESETHAND`) are not: they run wherever they are.
//!
//! Before the handlers of what a bad pointer raises (`SIGSEGV`, `SIGBUS`) comes one of ours, too:
//! where the program's memory is copied, the copy has failed (see [`guarded`]), and nothing else
//! happens.

use super::{export, guarded, real, sys};
use crate::base::errno;
use crate::base::inside;
use crate::base::locked;
use crate::wait;
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem::{transmute, zeroed};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use libc::{sighandler_t, siginfo_t, ucontext_t};

/// What a bad pointer raises.
const BAD_POINTER: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What the program installed, by signal.
static INSTALLED: [AtomicU64; 65] = [const { AtomicU64::new(Installed::DEFAULT.0) }; 65];
/// Whether copies of the program's memory are guarded.
static GUARDS: AtomicBool = AtomicBool::new(false);

/// A handler of the program's: its address, which leaves the highest bits free, and how it is to be
/// run.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Installed(u64);

impl Installed {
    const DEFAULT: Self = Self(libc::SIG_DFL as u64);
    /// It wants no more than the signal's number.
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
    /// It is a function that takes what the kernel gave, or, if it is plain, no more than the
    /// signal's number.
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

thread_local! {
    /// Signals that are put off, a bit each.
    static PUT_OFF: Cell<u64> = const { Cell::new(0) };
    /// How many handlers have run in this thread.
    static RAN: Cell<u32> = const { Cell::new(0) };
}

/// How many handlers have run in this thread.
pub(crate) fn ran() -> u32 {
    RAN.get()
}

extern "C-unwind" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if BAD_POINTER.contains(&signal) {
        // SAFETY: what the kernel gave this handler.
        return unsafe { on_bad_pointer(signal, info, context) };
    }
    // SAFETY: what the kernel gave this handler.
    if (inside::is_inside() || locked::any()) && unsafe { put_off(signal, info, context) } {
        return;
    }
    let installed = installed(signal);
    if installed == Installed::DEFAULT {
        return;
    }
    RAN.set(RAN.get().wrapping_add(1));
    let before = errno::get();
    let disturbed = wait::disturb();
    errno::set(before);
    // SAFETY: the program installed a function of this kind.
    unsafe { installed.run((signal, info, context)) };
    if let Some(lane) = disturbed {
        // Nothing has rung for it meanwhile, and the signal may have come just before the thread
        // slept.
        let before = errno::get();
        sys::ring(lane.descriptors().1);
        errno::set(before);
    }
}

/// A bad pointer of the program's in a call of ours, or what would have happened without us.
///
/// # Safety
/// What the kernel gave the running handler.
unsafe fn on_bad_pointer(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: by the caller's promise.
    let is_fault = unsafe { (*info).si_code } > 0;
    // SAFETY: by the caller's promise.
    if is_fault && unsafe { guarded::recover(context) } {
        return;
    }
    let installed = take(signal);
    if installed == Installed::DEFAULT {
        // What the kernel does comes when this returns: the faulting instruction once more, or the
        // signal once more.
        // SAFETY: all zero is a valid action, which is the system's own; `info` is what the kernel
        // gave.
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

/// From here on a copy of the program's memory that is not there fails, and does not end the
/// program. A program that ignores such signals, as few do, goes without: what it starts would not
/// ignore them.
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
            // Another thread may install a handler meanwhile: that is the one which stays.
            let (none, found) = (Installed::DEFAULT.0, Installed::of(&action).0);
            let _ = INSTALLED[signal as usize].compare_exchange(none, found, SeqCst, SeqCst);
            real::sigaction(signal, &raw const behind, &raw mut before);
            if before.sa_sigaction == ours() {
                real::sigaction(signal, &raw const before, core::ptr::null_mut());
            }
        }
    }
}

/// Whether a copy that is not there fails.
pub(crate) fn guards() -> bool {
    GUARDS.load(SeqCst)
}

/// Puts a signal off until the thread is out of the lane, and holds none of our locks. False if the
/// system does not take it back.
///
/// # Safety
/// `info` and `context` are what the kernel gave the running handler.
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
        PUT_OFF.set(PUT_OFF.get() | 1 << (signal - 1));
        if inside::is_inside() {
            inside::signal_put_off();
        }
    }
    errno::set(before);
    sent
}

/// Lets the signals through that were put off, unless it is still too early. Their handlers run
/// before this returns, if it does.
#[cold]
pub(crate) fn deliver() {
    if inside::is_inside() || locked::any() {
        return;
    }
    let signals = PUT_OFF.replace(0);
    // SAFETY: a set of our own.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&raw mut set);
        (1..=64).filter(|signal| signals & 1 << (signal - 1) != 0).for_each(|signal| {
            libc::sigaddset(&raw mut set, signal);
        });
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
    }
}

/// As [`deliver`], if there are any.
#[inline]
pub(crate) fn deliver_any() {
    if PUT_OFF.get() != 0 {
        deliver();
    }
}

/// Whether any wait for the calling thread.
pub(crate) fn is_put_off() -> bool {
    PUT_OFF.get() != 0
}

fn ours() -> sighandler_t {
    on_signal as *const () as sighandler_t
}

/// What the program has installed behind our handler.
fn installed(signal: c_int) -> Installed {
    INSTALLED.get(signal as usize).map_or(Installed::DEFAULT, |installed| Installed(installed.load(SeqCst)))
}

/// The same, to be run: what is uninstalled by that is not there any more.
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

/// Whether an action is to be put behind our handler.
fn is_to_be_ours(signal: c_int, action: &libc::sigaction) -> bool {
    let handled = ![libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR].contains(&action.sa_sigaction);
    if BAD_POINTER.contains(&signal) {
        return handled || action.sa_sigaction == libc::SIG_DFL && GUARDS.load(SeqCst);
    }
    (1..=64).contains(&signal) && !sys::FAULTS.contains(&signal) && handled && action.sa_flags & libc::SA_RESETHAND == 0
}

/// What the kernel is to have in the place of an action that is to be put behind our handler.
fn behind_ours(signal: c_int, action: &libc::sigaction) -> Option<libc::sigaction> {
    if !is_to_be_ours(signal, action) {
        return None;
    }
    let mut behind = *action;
    behind.sa_sigaction = ours();
    behind.sa_flags = behind.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
    if action.sa_sigaction == libc::SIG_DFL {
        // The thread's own stack may be what is not there.
        behind.sa_flags |= libc::SA_ONSTACK;
    }
    Some(behind)
}

/// The same; the action is remembered. One that is the kernel's alone ends what was before: `guard`
/// may put ours before it later.
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

/// An action in which the kernel has ours, as the program knows it.
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

/// Puts what `signal` and its kin `install` behind our handler; the answer is theirs as the program
/// knows it.
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
        // SAFETY: null or the program's structures; one of our own in the place of the first.
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
        // SAFETY: the program's arguments go on unchanged.
        adopt(signal, || unsafe { real::signal(signal, handler) })
    }

    /// `bsd_signal(3)`.
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments go on unchanged.
        unsafe { self::signal(signal, handler) }
    }

    /// `ssignal(3)`, which is `signal`.
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments go on unchanged.
        unsafe { self::signal(signal, handler) }
    }

    /// `sysv_signal(3)`.
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments go on unchanged.
        unsafe { __sysv_signal(signal, handler) }
    }

    /// What `signal` is in a program that is compiled for strict C or POSIX.
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments go on unchanged.
        adopt(signal, || unsafe { real::__sysv_signal(signal, handler) })
    }

    /// `sigaction` by another name of the C library's.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: the program's arguments go on unchanged.
        unsafe { sigaction(signal, new, old) }
    }

    /// `sigset(3)`.
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's arguments go on unchanged.
        adopt(signal, || unsafe { real::sigset(signal, handler) })
    }
}
