//! The truth bench: what time it is, is a known function of the counter, so the error of any clock
//! on this machine can be read off exactly.
//!
//! Truth is UTC = f(T), fixed when a run begins and written to a file; every process that reads the
//! file computes the same f, bit for bit. A server tells f by NTP; a probe reads a clock beside the
//! counter and compares it with f. So wander, steps and the like are those of the file, not of the
//! machine.
//!
//! | module | purpose |
//! |---|---|
//! | `function` | f, and its file |
//! | `walk` | the random walk of its rate |
//! | `path` | what the way to the server is made to be: delays, loss, outages |
//! | `socket` | a server's socket with the kernel's stamps, as values of the counter |
//! | `server` | answers requests by f, in basic and in interleaved mode |
//! | `stamp` | the BPF program that completes the answers at the server's device |
//! | `probe` | reads a clock beside the counter, compares it with f |
//! | `reading` | what a reading of a clock costs, ours and others' |
//! | `system_clock` | remembers the kernel's clock before a rival steers it, and sets it back |
//!
//! `probe`, `reading`, `system_clock` and the programs are the benchmark's (feature `rivals`).
//!
//! May know clock, ntp, the operating system. Of the product, only the testbed knows it.
#![forbid(unsafe_code)]

pub mod function;
pub mod path;
#[cfg(feature = "rivals")]
pub mod probe;
#[cfg(feature = "rivals")]
pub mod reading;
pub mod server;
mod socket;
pub mod stamp;
#[cfg(feature = "rivals")]
pub mod system_clock;
mod walk;

pub use function::Truth;
