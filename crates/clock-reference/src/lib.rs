//! The truth bench: the true time is a known function of the counter, so the error of any clock on
//! this machine can be measured exactly.
//!
//! The truth is UTC = f(T), fixed when a run begins and written to a file. Every process that reads
//! the file computes the same f, bit for bit. A server serves f by NTP, and a probe reads a clock
//! together with the counter and compares it with f. So wander and steps come from the file, not
//! from the machine.
//!
//! | module | purpose |
//! |---|---|
//! | `function` | f, and its file |
//! | `walk` | the random walk of its rate |
//! | `path` | the emulated path to the server: delays, loss, outages |
//! | `socket` | the server's socket with the kernel's timestamps, as counter values |
//! | `server` | the NTP server whose clock is f, in basic and in interleaved mode |
//! | `stamp` | the BPF program that completes the replies at the server's device |
//! | `probe` | reads a clock together with the counter and compares it with f |
//! | `reading` | the cost of reading a clock, ours and others' |
//! | `system_clock` | saves the kernel's clock before another daemon steers it, and restores it |
//!
//! `probe`, `reading`, `system_clock` and the programs belong to the benchmark (feature
//! `other-clocks`).
//!
//! This crate may depend on clock, tickclock, ntp, stamping, timekeeper, the simulation's random
//! numbers and scenarios, and the operating system. Of the product, only the testbed depends on it.
#![forbid(unsafe_code)]

pub mod function;
pub mod path;
#[cfg(feature = "other-clocks")]
pub mod probe;
#[cfg(feature = "other-clocks")]
pub mod reading;
pub mod server;
mod socket;
pub mod stamp;
#[cfg(feature = "other-clocks")]
pub mod system_clock;
mod walk;

pub use function::Truth;
