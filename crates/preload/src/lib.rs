//! The library that `tickwire run` puts before an unmodified program (`LD_PRELOAD`): it stands in
//! for the socket calls and runs TCP and UDP over the program's lane.
//!
//! It may depend on `tickwire-stack` and `tickwire-link`. All unsafe code is in `c`, the C
//! boundary; what a call means is decided in the safe modules.
//!
//! | room | purpose |
//! |---|---|
//! | `c` | exported functions, the C library behind us, the program's memory |
//! | `process` | fork, exec, spawned programs, the helper thread |
//! | `socket` | what calls on a socket do, from `socket` to the last acknowledgement |
//! | `wait` | waiting: in a call, `poll`, `select`, `epoll` |
//! | `lane` | getting a lane, what it consists of, and how it talks with the service |
//! | `table` | which descriptors are ours and what they stand for |
//! | `base` | settings, errors, locks |
//!
//! Each room's first lines say what it may use.
//!
//! # What stays outside
//! * The C library's own use of descriptors does not pass here. Its resolver's sockets are kernel
//!   sockets and work. Its streams (`fdopen`, and `stdin`, `stdout`, `stderr` where a socket
//!   becomes descriptor 0, 1 or 2) are made of our own functions; not so a stream over another file
//!   whose number `dup2` turns into a socket's, nor what holds the original standard stream by its
//!   address (C++'s `cout` from GCC 13 on, unless `sync_with_stdio(false)` was called). `aio_read`
//!   and its kin see the kernel socket.
//! * `system` and `popen` start their shell inside the C library, so it cannot use inherited
//!   sockets; those of the program stay as they are. The same holds for `pidfd_spawn`. `exec` in
//!   all forms and `posix_spawn` hand sockets over, but for epoll instances: an inherited one
//!   watches kernel descriptors only.
//! * A child made by `clone` into namespaces, or by a direct system call, has none of its parent's
//!   sockets: they fail there (`ENOBUFS`, or as an unconnected kernel socket). A `clone` that fork
//!   could do is a fork.
//! * A connection, and an epoll instance with sockets of ours, cannot be passed over a Unix socket:
//!   `EOPNOTSUPP`. Listeners and UDP sockets become the kernel's when they are passed, and lose
//!   what waits to be accepted or received at that moment.
//! * `splice` copies, for connections; with a UDP socket it answers `EINVAL`, as older kernels do.
//!   `O_ASYNC` signals see the kernel socket, and so do direct system calls. Of those that go by
//!   the C library's `syscall`, `close` and `close_range` are as the functions, and `io_uring` is
//!   not there.
//! * An option that only the kernel's stack has (see `socket::treatment`) makes a socket the
//!   kernel's before it has had traffic, and is refused afterwards (`ENOPROTOOPT`). Control
//!   messages of this kind, `MSG_MORE` and `UDP_CORK` let single datagrams go by the kernel.
//! * A forked child connects to the service at the moment of the fork, so it may give up rights and
//!   views afterwards. One whose parent has given them up before has none of its sockets: they are
//!   reset in it, and one line says so.
//! * A program that confines itself by `prctl(PR_SET_SECCOMP)` leaves its lane then: everything
//!   becomes the kernel's, but for connections that other processes have, too, which are reset in
//!   it, and `tickwire stat` lists it with that reason (by the connection that it has, so no system
//!   call is needed any more for it). A filter that is installed by a direct system call (as
//!   libseccomp does) must allow what the library calls.
//! * A bad pointer of a thread that has blocked `SIGSEGV`, or of a program that ignores it, is a
//!   fault, not `EFAULT`.
//! * Whether an interrupted call restarts is decided by all handlers of the program together: it
//!   restarts if all of them were installed with `SA_RESTART`, since which of them ran cannot be
//!   seen.
//! * `vfork` is `fork`. The lane's descriptors have numbers above the soft limit, which a program
//!   cannot name; where soft and hard limit are the same, they are the highest below, and `dup2`
//!   onto one of them answers `EBUSY`. `close` and `close_range` spare them.
//! * Accelerated descriptors have numbers below 65,536; a socket above stays on the kernel.
//!
//! A signal handler that would interrupt a thread inside the lane, or with a lock of ours in hand,
//! runs when it is out, so it may call socket functions, and leave by `longjmp`; those that POSIX
//! allows in handlers allocate nothing, but for a thread's first sleep and for `epoll`. One that
//! runs at once all the same (of a fault, or installed with `SA_RESETHAND` or by a direct system
//! call) and calls a socket function there gets `EAGAIN` or `EINTR`: it cannot wait for the thread
//! it interrupted. The same holds for one that interrupts the very last of `exec` or `exit`.
#![cfg_attr(test, allow(dead_code, reason = "exports are exports outside tests only"))]
#![cfg_attr(fuzzing, no_main, allow(dead_code, unused_imports, reason = "a part of the tests, and no exports"))]

pub(crate) mod c;

mod base;
mod lane;
mod process;
mod socket;
mod table;
#[cfg(any(test, fuzzing))]
mod testing;
mod wait;

// The fuzz target `calls` is this crate: in any other its exports would be the C library's
// functions.
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| testing::hostile::calls(data));
