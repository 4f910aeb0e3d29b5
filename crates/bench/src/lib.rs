//! What `cargo xtask bench` measures with.
//!
//! The programs under `src/bin` are deliberately ordinary: `pingpong`, `messages` and `connections`
//! are written against the standard library's sockets and know nothing of Tickwire, so the same
//! binary runs on the kernel and under `tickwire run`. `latency`, `rate`, `transfer` and `many` are
//! what all of them print, so that one reader compares them; `error` and `reading` are what the
//! truth bench prints of a clock.
#![forbid(unsafe_code)]

pub mod error;
pub mod latency;
pub mod many;
pub mod rate;
pub mod reading;
pub mod transfer;
