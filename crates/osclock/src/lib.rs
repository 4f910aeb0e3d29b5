//! The operating system's own clocks, for a clock daemon. It passes the time to programs that do
//! not read its page through the kernel's clock and NTP's shared memory, and it reads the clocks
//! and timestamps of network cards.
//!
//! | module | purpose |
//! |---|---|
//! | `adjtime` | reads and sets the state of the kernel's clock |
//! | `refclock` | the segment from which ntpd and chronyd read a reference clock |
//! | `phc` | reads a network card's clock together with the kernel's |
//! | `card` | reads and sets which packets a network card timestamps |
//!
//! This crate may depend on the operating system and contains no policy. `unsafe` is one system
//! call in `adjtime`, the attached segment in `refclock`, and the calls in `phc::sys` and
//! `card::sys`.

pub mod adjtime;
pub mod card;
pub mod phc;
pub mod refclock;
