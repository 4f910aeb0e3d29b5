//! The truth bench: what time it is, is a known function of the counter, so the error of any clock on this machine can be read off exactly.
//!
//! Truth is UTC = f(T), fixed when a run begins and written to a file; every process that reads the file computes the same f, bit for bit. A server tells f
//! by NTP; a probe reads a clock beside the counter and compares it with f. So wander, steps and the like are those of the file, not of the machine.
//!
//! | module | purpose |
//! |---|---|
//! | `function` | f, and its file |
//! | `walk` | the random walk of its rate |
//! | `path` | what the way to the server is made to be: delays, loss, outages |
//! | `socket` | a server's socket with the kernel's stamps, as values of the counter |
//! | `server` | answers requests by f, in basic and in interleaved mode |
//! | `probe` | reads a clock beside the counter, compares it with f |
//! | `reading` | what a reading of a clock costs, ours and others' |
//! | `system_clock` | remembers the kernel's clock before a rival steers it, and sets it back |
//!
//! May know clock, ntp, the operating system. Nothing of the product knows it.
#![forbid(unsafe_code)]

pub mod function;
pub mod path;
pub mod probe;
pub mod reading;
pub mod server;
mod socket;
pub mod system_clock;
mod walk;

pub use function::Truth;
