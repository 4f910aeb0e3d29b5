//! The operating system's calls that this library makes for itself, with safe faces. All go to the C library behind us or straight to
//! the kernel, never to our own stand-ins.

use super::iov::Buffers;
use super::name;
use super::real;
use crate::base::errno::{Errno, Result};
use core::ffi::{CStr, c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::sync::atomic::AtomicU32;
use libc::{epoll_event, msghdr, pollfd, sigset_t, socklen_t, timespec};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::time::{Instant, Span};

/// Sets the thread's error number.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library gives every thread its own valid place.
    unsafe { *libc::__errno_location() = value };
}

fn check(answer: c_int) -> Result<c_int> {
    if answer < 0 { Err(Errno::last()) } else { Ok(answer) }
}

/// The answer of a direct system call. Those that wait are direct: the C library's are points at which a thread is cancelled, and none
/// may be in the midst of the lane (see `cancel`).
pub(super) fn called(answer: libc::c_long) -> Result<usize> {
    usize::try_from(answer).map_err(|_| Errno::last())
}

/// How many bytes the kernel's set of signals has.
const KERNEL_SIGNALS: usize = 8;

/// The time of `CLOCK_MONOTONIC`, without a system call on the usual hosts.
#[inline]
pub(crate) fn now() -> Instant {
    let mut at = MaybeUninit::<timespec>::uninit();
    // SAFETY: a valid place; this clock always exists, so it is filled in.
    let at = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, at.as_mut_ptr());
        at.assume_init()
    };
    Instant::from_nanos(at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64)
}

/// A span as the kernel wants it.
pub(crate) fn timespec(span: Span) -> timespec {
    let ns = span.as_nanos();
    timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

/// Has the kernel empty a static in every child that does not share memory. The static fills its pages alone and begins empty, so it is anonymous memory;
/// where pages are larger than it thinks, nothing happens.
pub(crate) fn wipe_in_children<T>(place: &'static T) {
    // SAFETY: pages of ours; the advice changes nothing in this process.
    unsafe { libc::madvise(core::ptr::from_ref(place).cast_mut().cast(), size_of::<T>(), libc::MADV_WIPEONFORK) };
}

/// The calling process.
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// The calling thread, as the kernel numbers it.
pub(crate) fn thread() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() as u32 }
}

/// Whether this process has a thread with this number.
pub(crate) fn thread_lives(thread: u32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::syscall(libc::SYS_tgkill, process(), thread, 0) == 0 }
}

/// The name of the calling thread.
pub(crate) fn thread_name() -> String {
    let mut name = [0u8; 16];
    // SAFETY: the call writes 16 bytes at most, the last of them a zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    String::from_utf8_lossy(name.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

/// Whether the calling thread may confine itself by a filter: it has promised never to gain rights, or has them.
pub(crate) fn may_filter_calls() -> bool {
    const VERSION_3: u32 = 0x2008_0522;
    const SYS_ADMIN: u32 = 1 << 21;
    let header = [VERSION_3, 0];
    // Effective, permitted and inheritable rights, twice.
    let mut rights = [0u32; 6];
    // SAFETY: plain numbers; as many words as this version of the call reads and writes.
    unsafe {
        libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
            || libc::syscall(libc::SYS_capget, header.as_ptr(), rights.as_mut_ptr()) == 0 && rights[0] & SYS_ADMIN != 0
    }
}

/// Waits while a word has this value: until it is changed and [`wake_all`] called, or a signal handler has run.
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    let how = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the call; no time.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), how, value, core::ptr::null::<timespec>()) };
}

/// Wakes all threads that wait for a word to change.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is only compared with others' addresses.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, c_int::MAX) };
}

/// Whether a process with this number exists and is not a zombie of someone's.
pub(crate) fn process_lives(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    if unsafe { libc::kill(pid as libc::pid_t, 0) } < 0 {
        return Errno::last() != Errno(libc::ESRCH);
    }
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // From the state on, which is the third field; the second, the name in parentheses, may hold anything.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return true };
    // Where only the first thread has ended, the process looks dead; but it has others (the twentieth field).
    let threads = rest.split(' ').nth(17).and_then(|n| n.parse::<u32>().ok());
    !rest.starts_with(['Z', 'X']) || threads.is_some_and(|n| n > 1)
}

/// Whether a filter of system calls lies on the calling thread, or it is confined in another way, which may make any call its death.
pub(crate) fn is_filtered() -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) != 0 }
}

/// Whether the children of the calling thread are of another process namespace than it (`unshare`, `setns`). Without `/proc` it is not known: no.
/// Without memory of the heap: `_Fork` may be called in a signal handler.
pub(crate) fn children_are_elsewhere() -> bool {
    let identity = |name: &CStr| {
        // SAFETY: all-zero is a valid `stat`.
        let mut found: libc::stat = unsafe { zeroed() };
        // SAFETY: a C string, and room for what is told of it.
        check(unsafe { libc::stat(name.as_ptr(), &raw mut found) }).map(|_| (found.st_dev, found.st_ino))
    };
    let Ok(own) = identity(c"/proc/thread-self/ns/pid") else { return false };
    match identity(c"/proc/thread-self/ns/pid_for_children") {
        Ok(of_children) => of_children != own,
        // It has no process yet.
        Err(error) => error == Errno(libc::ENOENT),
    }
}

/// Whether the process that forked this one is of another process namespace, where this one cannot see it.
pub(crate) fn parent_is_elsewhere() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::getppid() == 0 }
}

/// A new kernel socket.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    // SAFETY: plain numbers.
    check(unsafe { real::socket(domain, kind, protocol) })
}

/// Closes a descriptor for good.
pub(crate) fn close(fd: c_int) {
    // SAFETY: a plain number; callers close what they own.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// `fcntl` with a number as argument.
pub(crate) fn fcntl(fd: c_int, command: c_int, argument: c_int) -> Result<c_int> {
    // SAFETY: only commands that take a number.
    check(unsafe { real::fcntl(fd, command, argument as usize) })
}

/// Binds a kernel socket.
pub(crate) fn bind(fd: c_int, address: &[u8]) -> Result<()> {
    // SAFETY: the slice is as long as said.
    check(unsafe { real::bind(fd, address.as_ptr().cast(), address.len() as socklen_t) }).map(drop)
}

/// Connects a kernel socket.
pub(crate) fn connect(fd: c_int, address: &[u8]) -> Result<()> {
    // SAFETY: the slice is as long as said.
    called(unsafe { libc::syscall(libc::SYS_connect, fd, address.as_ptr(), address.len()) }).map(drop)
}

/// Makes a kernel socket listen.
pub(crate) fn listen(fd: c_int, backlog: c_int) -> Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { real::listen(fd, backlog) }).map(drop)
}

/// Shuts a kernel socket.
pub(crate) fn shutdown(fd: c_int, how: c_int) -> Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { real::shutdown(fd, how) }).map(drop)
}

/// Accepts from a kernel socket; the peer's name comes as bytes.
pub(crate) fn accept(fd: c_int, flags: c_int) -> Result<(c_int, [u8; name::MAX], usize)> {
    let mut bytes = [0u8; name::MAX];
    let mut len = name::MAX as socklen_t;
    // SAFETY: `len` says how long `bytes` is.
    let new =
        called(unsafe { libc::syscall(libc::SYS_accept4, fd, bytes.as_mut_ptr(), &raw mut len, flags) })? as c_int;
    Ok((new, bytes, (len as usize).min(name::MAX)))
}

/// The name of a kernel socket, if it is an IP one: its own, or its peer's.
pub(crate) fn socket_name(fd: c_int, peer: bool) -> Result<Endpoint> {
    let mut bytes = [0u8; name::MAX];
    let mut len = name::MAX as socklen_t;
    let (address, room) = (bytes.as_mut_ptr().cast(), &raw mut len);
    // SAFETY: `len` says how long `bytes` is.
    check(unsafe { if peer { real::getpeername(fd, address, room) } else { real::getsockname(fd, address, room) } })?;
    match name::Name::parse(&bytes[..(len as usize).min(name::MAX)]) {
        name::Name::Inet { endpoint, .. } => Ok(endpoint),
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Sets an option whose value is of type `T`, plain data.
pub(crate) fn set_option<T: Copy>(fd: c_int, level: c_int, option: c_int, value: &T) -> Result<()> {
    // SAFETY: the value is as long as said.
    check(unsafe {
        real::setsockopt(fd, level, option, core::ptr::from_ref(value).cast(), size_of::<T>() as socklen_t)
    })
    .map(drop)
}

/// Sets an option to a value of bytes.
#[cfg(any(test, fuzzing))]
pub(crate) fn set_option_bytes(fd: c_int, level: c_int, option: c_int, value: &[u8]) -> Result<()> {
    // SAFETY: the value is as long as said.
    check(unsafe { real::setsockopt(fd, level, option, value.as_ptr().cast(), value.len() as socklen_t) }).map(drop)
}

/// Takes the socket filter off; there need not be one.
pub(crate) fn detach_filter(fd: c_int) -> Result<()> {
    let ignored: c_int = 0;
    // SAFETY: the value is as long as said.
    check(unsafe {
        real::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DETACH_FILTER,
            (&raw const ignored).cast(),
            size_of::<c_int>() as socklen_t,
        )
    })
    .map(drop)
}

/// Reads an option that is a C int.
pub(crate) fn option(fd: c_int, level: c_int, option: c_int) -> Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: `len` says how long `value` is.
    check(unsafe { real::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// Reads the `linger` option: `None` if off, else seconds.
pub(crate) fn linger(fd: c_int) -> Option<u32> {
    let mut value = libc::linger { l_onoff: 0, l_linger: 0 };
    let mut len = size_of::<libc::linger>() as socklen_t;
    // SAFETY: `len` says how long `value` is.
    let got = unsafe { real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw mut value).cast(), &raw mut len) };
    (got == 0 && value.l_onoff != 0).then_some(value.l_linger.max(0) as u32)
}

/// The name of a TCP socket's congestion control.
pub(crate) fn congestion(fd: c_int) -> Option<String> {
    let mut name = [0u8; 16];
    let mut len = name.len() as socklen_t;
    // SAFETY: `len` says how long `name` is.
    let got = unsafe {
        real::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_mut_ptr().cast(), &raw mut len)
    };
    let text = name.split(|&b| b == 0).next()?;
    (got == 0).then(|| String::from_utf8_lossy(text).into_owned())
}

/// The inode of a socket, which names it in every process that has it; `None` if the descriptor is not a socket.
pub(crate) fn socket_inode(fd: c_int) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a valid place, read only if it was filled in.
    let stat = unsafe {
        if libc::fstat(fd, stat.as_mut_ptr()) < 0 {
            return None;
        }
        stat.assume_init()
    };
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

/// What a message call on a kernel socket may fill in or use beside the bytes.
#[derive(Default)]
pub(crate) struct Extras<'a> {
    /// The address: given to send, filled in on receive.
    pub(crate) name: [u8; name::MAX],
    /// How much of it counts.
    pub(crate) name_len: usize,
    /// Control data.
    pub(crate) control: Option<Control<'a>>,
    /// `msg_flags` of a received message.
    pub(crate) flags: c_int,
}

/// A place for control messages, in the program's memory.
pub(crate) struct Control<'a> {
    start: *mut u8,
    room: usize,
    len: usize,
    program: core::marker::PhantomData<&'a mut u8>,
}

impl Control<'_> {
    /// The place.
    ///
    /// # Safety
    /// `start` is null or points to `room` bytes, writable to receive, readable to send.
    pub(crate) unsafe fn new(start: *mut c_void, room: usize) -> Self {
        let room = if start.is_null() { 0 } else { room };
        Self { start: start.cast(), room, len: 0, program: core::marker::PhantomData }
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends one message; `false` if it did not fit (`MSG_CTRUNC`).
    pub(crate) fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) -> bool {
        // SAFETY: pure arithmetic.
        let (whole, padded) =
            unsafe { (libc::CMSG_LEN(data.len() as u32) as usize, libc::CMSG_SPACE(data.len() as u32) as usize) };
        if self.len + whole > self.room {
            return false;
        }
        // SAFETY: all parts are zero-valid integers.
        let mut header: libc::cmsghdr = unsafe { zeroed() };
        header.cmsg_len = whole as _;
        header.cmsg_level = level;
        header.cmsg_type = kind;
        let at = self.start.wrapping_add(self.len);
        // SAFETY: `whole` bytes fit behind `len` as checked; the place need not be aligned for these copies.
        unsafe {
            core::ptr::write_unaligned(at.cast(), header);
            core::ptr::copy_nonoverlapping(data.as_ptr(), at.add(libc::CMSG_LEN(0) as usize), data.len());
        }
        self.len = (self.len + padded).min(self.room);
        true
    }

    /// Every message that the program gave: `each(level, type, data)`. Data longer than 64 bytes is cut.
    pub(crate) fn each(&self, mut each: impl FnMut(c_int, c_int, &[u8])) {
        self.walk(|level, kind, start, len| {
            let mut data = [0u8; 64];
            let n = len.min(data.len());
            // SAFETY: as many bytes are there.
            unsafe { core::ptr::copy_nonoverlapping(start, data.as_mut_ptr(), n) };
            each(level, kind, &data[..n]);
        });
    }

    /// The descriptors that the program passes (`SCM_RIGHTS`).
    pub(crate) fn passed(&self) -> Vec<c_int> {
        let mut fds = Vec::new();
        self.walk(|level, kind, start, len| {
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let count = len / size_of::<c_int>();
                // SAFETY: as many bytes are there.
                fds.extend((0..count).map(|i| unsafe { start.cast::<c_int>().add(i).read_unaligned() }));
            }
        });
        fds
    }

    /// Every message: `each(level, type, start, length)`.
    fn walk(&self, mut each: impl FnMut(c_int, c_int, *const u8, usize)) {
        // SAFETY: pure arithmetic.
        let head = unsafe { libc::CMSG_LEN(0) } as usize;
        let mut at = 0;
        while at + head <= self.room {
            // SAFETY: a whole header lies before `room`.
            let header: libc::cmsghdr = unsafe { core::ptr::read_unaligned(self.start.wrapping_add(at).cast()) };
            let whole = header.cmsg_len as usize;
            if whole < head || whole > self.room - at {
                return;
            }
            each(header.cmsg_level, header.cmsg_type, self.start.wrapping_add(at + head), whole - head);
            at += whole.next_multiple_of(size_of::<usize>());
        }
    }
}

/// Receives from a kernel socket into the program's buffers.
pub(crate) fn receive(fd: c_int, buffers: &Buffers<'_>, flags: c_int, extras: &mut Extras<'_>) -> Result<usize> {
    let (iov, count) = buffers.raw();
    // SAFETY: all parts are zero-valid.
    let mut message: msghdr = unsafe { zeroed() };
    message.msg_name = extras.name.as_mut_ptr().cast();
    message.msg_namelen = name::MAX as socklen_t;
    message.msg_iov = iov.cast_mut();
    message.msg_iovlen = count as _;
    if let Some(control) = &extras.control {
        message.msg_control = control.start.cast();
        message.msg_controllen = control.room as _;
    }
    // SAFETY: the buffers are valid by the promise of their maker, the rest is ours.
    let len = called(unsafe { libc::syscall(libc::SYS_recvmsg, fd, &raw mut message, flags) })?;
    extras.name_len = (message.msg_namelen as usize).min(name::MAX);
    extras.flags = message.msg_flags;
    if let Some(control) = &mut extras.control {
        control.len = message.msg_controllen as usize;
    }
    Ok(len)
}

/// Sends from the program's buffers through a kernel socket.
pub(crate) fn send(fd: c_int, buffers: &Buffers<'_>, flags: c_int, extras: &mut Extras<'_>) -> Result<usize> {
    let (iov, count) = buffers.raw();
    // SAFETY: all parts are zero-valid.
    let mut message: msghdr = unsafe { zeroed() };
    if extras.name_len > 0 {
        message.msg_name = extras.name.as_mut_ptr().cast();
        message.msg_namelen = extras.name_len as socklen_t;
    }
    message.msg_iov = iov.cast_mut();
    message.msg_iovlen = count as _;
    if let Some(control) = &extras.control {
        message.msg_control = control.start.cast();
        message.msg_controllen = control.room as _;
    }
    // SAFETY: the buffers are valid by the promise of their maker, the rest is ours.
    called(unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, flags) })
}

/// `ppoll` on a list of our own; `None` waits without end.
pub(crate) fn ppoll(fds: &mut [pollfd], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    // The kernel writes the rest of the time back, which nobody here wants.
    let mut timeout = timeout.map(timespec);
    let (timeout, mask) = (
        timeout.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut),
        mask.map_or(core::ptr::null(), core::ptr::from_ref),
    );
    // SAFETY: the slice is as long as said, the others null or valid.
    called(unsafe { libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), timeout, mask, KERNEL_SIGNALS) })
}

/// A new epoll instance.
pub(crate) fn epoll_create(flags: c_int) -> Result<c_int> {
    // SAFETY: a plain number.
    check(unsafe { real::epoll_create1(flags) })
}

/// Changes a kernel epoll instance.
pub(crate) fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    let mut event = epoll_event { events, u64: data };
    // SAFETY: the event is ours.
    check(unsafe { real::epoll_ctl(epfd, op, fd, &raw mut event) }).map(drop)
}

/// What a kernel epoll instance has ready now.
pub(crate) fn epoll_take(epfd: c_int, events: &mut [epoll_event]) -> Result<usize> {
    if events.is_empty() {
        return Ok(0);
    }
    let no_mask = core::ptr::null::<sigset_t>();
    // SAFETY: the slice is as long as said.
    called(unsafe {
        libc::syscall(libc::SYS_epoll_pwait, epfd, events.as_mut_ptr(), events.len(), 0, no_mask, KERNEL_SIGNALS)
    })
}

/// Signals that a fault of the running code raises. Blocked, such a fault would end the program without running its handler.
pub(crate) const FAULTS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// Blocks every signal of this thread but those of faults, and gives back what was blocked before.
pub(crate) fn block_signals() -> sigset_t {
    // SAFETY: both sets are ours and filled in before use; blocking is always allowed.
    unsafe {
        let (mut all, mut before) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        for signal in FAULTS {
            libc::sigdelset(&raw mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    }
}

/// Puts back what [`block_signals`] gave.
pub(crate) fn restore_signals(before: &sigset_t) {
    // SAFETY: a set that the system gave.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, core::ptr::null_mut()) };
}

/// What the signals that wait to be let through will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signals {
    /// There are none.
    None,
    /// No handler runs: they are ignored, or end or stop the process. (Signals that are ignored wait, too, while they are blocked.)
    Silent,
    /// Handlers run; `restart` says whether all of them were installed with `SA_RESTART`.
    Handled { restart: bool },
}

/// What the signals will do that wait and that `mask` would let through.
pub(crate) fn waiting_signals(mask: &sigset_t) -> Signals {
    // SAFETY: all zero is a valid set; the system fills it in.
    let pending = unsafe {
        let mut pending: sigset_t = zeroed();
        libc::sigpending(&raw mut pending);
        pending
    };
    let mut found = Signals::None;
    for signal in 1..=64 {
        // SAFETY: the sets are valid.
        let waits =
            unsafe { libc::sigismember(&raw const pending, signal) == 1 && libc::sigismember(mask, signal) == 0 };
        if !waits {
            continue;
        }
        found = match (found, handler_restarts(signal)) {
            (Signals::Handled { restart }, Some(this)) => Signals::Handled { restart: restart && this },
            (_, Some(restart)) => Signals::Handled { restart },
            (Signals::None, None) => Signals::Silent,
            (found, None) => found,
        };
    }
    found
}

/// Whether the handler of a signal, if it has one, was installed with `SA_RESTART`.
fn handler_restarts(signal: c_int) -> Option<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only asks; read only if filled in.
    let action = unsafe {
        if libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) < 0 {
            return None;
        }
        action.assume_init()
    };
    (action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN)
        .then_some(action.sa_flags & libc::SA_RESTART != 0)
}

/// Whether a call that a signal has interrupted goes on by itself: so it is if every handler of the program was installed with
/// `SA_RESTART` (which of them ran cannot be seen from here).
pub(crate) fn handlers_restart() -> bool {
    // Handlers of faults do not interrupt waits.
    (1..=64).filter(|signal| !FAULTS.contains(signal)).all(|signal| handler_restarts(signal).unwrap_or(true))
}

/// Raises SIGPIPE in this thread.
pub(crate) fn raise_pipe() {
    // SAFETY: a plain number.
    unsafe { libc::raise(libc::SIGPIPE) };
}

/// Rings a doorbell (an eventfd).
pub(crate) fn ring(doorbell: c_int) {
    let one = 1u64;
    // SAFETY: eight bytes of our own.
    unsafe { libc::syscall(libc::SYS_write, doorbell, &raw const one, 8usize) };
}

/// A new eventfd that does not block.
pub(crate) fn eventfd() -> Result<c_int> {
    // SAFETY: plain numbers.
    check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Takes the count out of an eventfd.
pub(crate) fn drain(fd: c_int) {
    let mut count = 0u64;
    // SAFETY: eight bytes of our own.
    unsafe { libc::syscall(libc::SYS_read, fd, &raw mut count, 8usize) };
}

/// Random words of the kernel.
pub(crate) fn random() -> Result<[u64; 4]> {
    let mut words = [0u64; 4];
    // SAFETY: as many bytes as the array has.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), size_of_val(&words), 0) };
    if got == size_of_val(&words) as isize { Ok(words) } else { Err(Errno::last()) }
}

/// Takes a variable out of the environment; only while the program has one thread.
pub(crate) fn take_variable(name: &core::ffi::CStr) -> Option<String> {
    // SAFETY: a terminated name; the text is copied before the environment changes. The caller runs before the program does.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        if text.is_null() {
            return None;
        }
        let copy = core::ffi::CStr::from_ptr(text).to_str().ok().map(str::to_owned);
        libc::unsetenv(name.as_ptr());
        copy
    }
}

/// Says something on standard error in one write.
pub(crate) fn say(text: &str) {
    let line = format!("tickwire: {text}\n");
    // SAFETY: the bytes are ours.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}

fn limits() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: a valid place.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}

/// The descriptor limit of this process.
pub(crate) fn descriptor_limit() -> c_int {
    limits().rlim_cur.min(crate::table::fd::LIMIT as u64) as c_int
}

/// Whether a list of descriptors is longer than this process may have any, which the kernel refuses before it looks at it.
pub(crate) fn too_many_descriptors(count: libc::nfds_t) -> bool {
    // As many anybody may have, which costs no call.
    count > 1024 && count > limits().rlim_cur
}

/// Changes the soft descriptor limit of this process.
pub(crate) fn set_descriptor_limit(limit: c_int) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: limit as libc::rlim_t, ..limits() };
    // SAFETY: a valid structure.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// Duplicates a descriptor to a number above the soft limit, close-on-exec. The limit is higher for a moment.
///
/// # Errors
/// `EMFILE` if the hard limit, or our table, leaves no room.
pub(crate) fn duplicate_above_limit(fd: c_int) -> Result<c_int> {
    /// For all threads of a program.
    const ROOM: u64 = 4096;
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let Ok(_one) = ONE_AT_A_TIME.try_lock() else { return Err(Errno(libc::EMFILE)) };
    let libc::rlimit { rlim_cur: soft, rlim_max: hard } = limits();
    let most = hard.min(crate::table::fd::LIMIT as u64).min(soft.saturating_add(ROOM));
    if most <= soft {
        return Err(Errno(libc::EMFILE));
    }
    set_descriptor_limit(most as c_int)?;
    let new = fcntl(fd, libc::F_DUPFD_CLOEXEC, soft as c_int);
    set_descriptor_limit(soft as c_int)?;
    new
}
