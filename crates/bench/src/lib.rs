//! What `cargo xtask bench` measures with.
//!
//! The programs under `src/bin` are deliberately ordinary: `pingpong` is written against the standard library's sockets and knows nothing
//! of Tickwire, so the same binary runs on the kernel and under `tickwire run`. `latency` and `rate` are what all of them print, so that one
//! reader compares them; `error` and `reading` are what the truth bench prints of a clock.
#![forbid(unsafe_code)]

pub mod error;
pub mod latency;
pub mod rate;
pub mod reading;
