//! The library that `tickwire run` puts before an unmodified program (`LD_PRELOAD`): it stands in for the socket calls and runs TCP and
//! UDP over the program's lane.
//!
//! It may depend on `tickwire-stack` and `tickwire-link`. All unsafe code is in [`c`], the C boundary; what a call means is decided in the
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
//! A signal handler that interrupts a call inside the lane and itself calls a socket function gets `EAGAIN` or `EINTR`, as if it had come at a
//! bad moment: it cannot wait for the thread it interrupted.
#![allow(dead_code, reason = "exports have no callers in Rust; in tests they are not even exported")]

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
