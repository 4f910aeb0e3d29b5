//! The library that `tickwire run` loads into an unmodified program (`LD_PRELOAD`): it interposes
//! the socket calls and runs TCP and UDP over the program's lane.
//!
//! It may depend on `tickwire-stack`, `tickwire-linux-abi`, `tickwire-lane` and
//! `tickwire-lane-linux`. All unsafe code is in the C boundary, `exports` on top and `sys` at the
//! bottom; the safe modules between them decide what a call does.
//!
//! | module | purpose |
//! |---|---|
//! | `exports` | the functions that the dynamic linker sees, signal handlers, C's streams |
//! | `process` | fork, exec, spawned programs, the helper thread |
//! | `socket` | what calls on a socket do, from `socket` to the last acknowledgement |
//! | `wait` | waiting: in a call, `poll`, `select`, `epoll` |
//! | `lane` | getting a lane, entering it, sleeping on it, its communication with the service |
//! | `table` | which descriptors are ours and what they refer to |
//! | `base` | settings, locks, whether a thread is inside a lane, signals that are put off |
//! | `sys` | the C library behind us, system calls, the program's memory and a lane's |
//!
//! Each uses only those below it. What happens to a lane is reported upward by `lane::Observer`.
//!
//! # What is not covered
//! * The C library's own use of descriptors is not interposed. Its resolver's sockets are kernel
//!   sockets and work. Its streams (`fdopen`, and `stdin`, `stdout`, `stderr` where a socket
//!   becomes descriptor 0, 1 or 2) are built on our own functions. That excludes a stream over
//!   another file whose number `dup2` turns into a socket's. It also excludes code that holds the
//!   original standard stream by its address (C++'s `cout` from GCC 13 on, unless
//!   `sync_with_stdio(false)` was called). `aio_read` and related calls see the kernel socket.
//! * `system` and `popen` start their shell inside the C library, so it cannot use inherited
//!   sockets; those of the program stay as they are. The same holds for `pidfd_spawn`. `exec` in
//!   all forms and `posix_spawn` pass sockets on. They do not pass epoll instances on: an inherited
//!   one watches kernel descriptors only.
//! * A child made by `clone` into namespaces, or by a direct system call, has none of its parent's
//!   sockets: they fail there (`ENOBUFS`, or as an unconnected kernel socket). A `clone` that has
//!   the same effect as fork is treated as one.
//! * A connection that is passed over a Unix socket is handed over to the kernel before. If that is
//!   not possible (it is not open, another process has it, it has urgent data, or the service
//!   refuses), the call returns `EOPNOTSUPP`, as it does for an epoll instance with sockets of
//!   ours. Listeners and UDP sockets become kernel sockets when they are passed, and lose what is
//!   queued to be accepted or received at that moment.
//! * `splice` copies, for connections; with a UDP socket it returns `EINVAL`, as older kernels do.
//!   `O_ASYNC` signals see the kernel socket, and so do direct system calls. Of those that are made
//!   through the C library's `syscall`, `close` and `close_range` act as the functions do, and
//!   `io_uring` is not available.
//! * An option that only the kernel's stack has (see `socket::option_policy`) turns a socket into a
//!   kernel socket before it has had traffic, and is refused afterwards (`ENOPROTOOPT`). Control
//!   messages of this kind, `MSG_MORE` and `UDP_CORK` send single datagrams through the kernel.
//! * A forked child connects to the service at the moment of the fork, so it may give up rights and
//!   views afterwards. A child whose parent has given them up before has none of its parent's
//!   sockets: they are reset in it, and one line says so.
//! * A program that confines itself by `prctl(PR_SET_SECCOMP)` leaves its lane then: its sockets
//!   become kernel sockets. Connections that other processes share are reset in it instead.
//!   `tickwire stat` lists the program with that reason. It uses the connection that already
//!   exists, so no further system call is needed. A filter that is installed by a direct system
//!   call (as libseccomp does) must allow what the library calls.
//! * A bad pointer of a thread that has blocked `SIGSEGV`, or of a program that ignores it, is a
//!   fault, not `EFAULT`.
//! * Whether an interrupted call restarts depends on all handlers of the program together: it
//!   restarts if all of them were installed with `SA_RESTART`. The library cannot see which of them
//!   ran.
//! * `vfork` is `fork`. The lane's descriptors have numbers above the soft limit, which a program
//!   cannot name. Where soft and hard limit are the same, they are the highest below, and `dup2`
//!   onto one of them returns `EBUSY`. `close` and `close_range` spare them.
//! * Accelerated descriptors have numbers below 65,536; a socket above stays on the kernel.
//!
//! A signal handler that would interrupt a thread inside the lane, or with a lock of ours held,
//! runs when the thread has left it. So it may call socket functions, and leave by `longjmp`. Those
//! functions that POSIX allows in handlers allocate nothing, except for a thread's first sleep and
//! for `epoll`. Some handlers run at once all the same (those of a fault, or installed with
//! `SA_RESETHAND` or by a direct system call). If such a handler calls a socket function, that
//! returns `EAGAIN` or `EINTR`: it cannot wait for the thread it interrupted. The same holds for
//! one that interrupts the very last part of `exec` or `exit`.
#![cfg_attr(test, allow(dead_code, reason = "exports are exports outside tests only"))]
#![cfg_attr(fuzzing, no_main, allow(dead_code, unused_imports, reason = "a part of the tests, and no exports"))]

pub(crate) mod exports;

mod base;
mod lane;
mod process;
mod socket;
mod sys;
mod table;
#[cfg(any(test, fuzzing))]
mod testing;
mod wait;

// The fuzz target `calls` is this crate: in any other its exports would be the C library's
// functions.
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| testing::hostile::calls(data));
