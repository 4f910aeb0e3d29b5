//! The operating system's own clocks, as a clock daemon meets them: where it hands the time on to
//! programs that do not read its page (the kernel's clock, NTP's shared memory), and the clocks and
//! stamps of network cards.
//!
//! | module | purpose |
//! |---|---|
//! | `adjtime` | how the kernel runs its clock, and how it is told to run it otherwise |
//! | `refclock` | the segment from which ntpd and chronyd read a reference clock |
//! | `phc` | a network card's clock, read beside the kernel's |
//! | `card` | what a network card stamps, and how it is told to |
//!
//! May know the operating system; decides nothing. `unsafe` is one system call in `adjtime`, the
//! attached segment in `refclock`, and the calls in `phc::sys` and `card::sys`.

pub mod adjtime;
pub mod card;
pub mod phc;
pub mod refclock;
