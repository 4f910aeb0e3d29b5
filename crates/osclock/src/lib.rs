//! The operating system's own clocks, for a clock daemon. It passes the time to programs that do
//! not read its page through the kernel's clock and NTP's shared memory.
//!
//! | module | purpose |
//! |---|---|
//! | `adjtime` | reads and sets the state of the kernel's clock |
//! | `refclock` | the segment from which ntpd and chronyd read a reference clock |
//!
//! This crate may depend on the operating system and contains no policy. `unsafe` is one system
//! call in `adjtime`, and the attached segment in `refclock`.

pub mod adjtime;
pub mod refclock;
