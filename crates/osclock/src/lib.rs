//! The operating system's own clock, and NTP's shared memory: the two places where a clock daemon hands the time on to programs that do not read its page.
//!
//! | module | purpose |
//! |---|---|
//! | `adjtime` | how the kernel runs its clock, and how it is told to run it otherwise |
//! | `refclock` | the segment from which ntpd and chronyd read a reference clock |
//!
//! May know the operating system; decides nothing. `unsafe` is one system call in `adjtime`, and the attached segment in `refclock`.

pub mod adjtime;
pub mod refclock;
