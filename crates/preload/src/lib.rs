//! The library that `tickwire run` puts before an unmodified program (`LD_PRELOAD`): it stands in for the socket calls and runs TCP and
//! UDP over the program's lane.
//!
//! It may depend on `tickwire-stack` and `tickwire-link`. All unsafe code is in `c`, the C boundary; what a call means is decided in the
//! safe modules.
//!
//! | module | purpose |
//! |---|---|
//! | `c` | exported functions, the C library behind us, the program's memory |
//! | `fd`, `desc` | descriptor table of the process; descriptions shared by the lane's processes |
//! | `start`, `lane`, `session`, `wire`, `protect` | getting a lane, and what it consists of |
//! | `open`, `pending`, `flush` | the life of a socket from `socket` to the last acknowledgement |
//! | `ops`, `udp`, `tcp`, `options`, `multicast`, `ancillary`, `descriptor` | what calls do |
//! | `wait`, `poll`, `epoll`, `readiness` | waiting |
//! | `helper`, `process`, `exec` | the helper thread; fork and death; sockets that outlive exec |
//!
//! # What stays outside
//! * The C library's own use of descriptors does not pass here: `stdio` streams over a socket (`fdopen`), `dprintf`, the resolver's own
//!   sockets. The latter are kernel sockets and work; a stream over an accelerated socket does not.
//! * `execl` and its kin (a variable number of arguments) and `posix_spawn` do not hand sockets over; `execv`, `execve` and their kin do. An
//!   epoll instance that is inherited by exec watches kernel descriptors only.
//! * `splice` with an accelerated socket answers `EINVAL`; `O_ASYNC` signals, `io_uring` and direct system calls see the kernel socket.
//! * A bad pointer of the program is a fault, not `EFAULT`.
//! * Whether an interrupted call restarts is decided by all handlers of the program together: it restarts if all of them were installed
//!   with `SA_RESTART`, since which of them ran cannot be seen.
//! * `vfork` is `fork`. `dup2` onto a number that the lane uses (the highest ones of the process) answers `EBUSY`.
//! * Accelerated descriptors have numbers below 65,536; a socket above stays on the kernel.
//!
//! A signal handler that interrupts a call inside the lane and itself calls a socket function gets `EAGAIN` or `EINTR`, as if it had come at a
//! bad moment: it cannot wait for the thread it interrupted.
#![cfg_attr(test, allow(dead_code, reason = "exports are exports outside tests only"))]

pub(crate) mod c;

mod ancillary;
mod config;
mod desc;
mod descriptor;
mod epoll;
mod errno;
mod exec;
mod fd;
mod flush;
mod helper;
mod lane;
mod multicast;
mod open;
mod ops;
mod options;
mod pending;
mod poll;
mod process;
mod protect;
mod readiness;
mod session;
mod start;
mod tcp;
#[cfg(test)]
mod testing;
mod udp;
mod wait;
mod wire;
