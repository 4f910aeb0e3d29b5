//! The programs and figures of `cargo xtask bench`.
//!
//! The programs under `src/bin` are deliberately ordinary: `pingpong`, `messages` and `connections`
//! use the standard library's sockets and do not know of Tickwire. So the same binary runs on the
//! kernel and under `tickwire run`. Their output is defined in `latency`, `rate`, `transfer` and
//! `many`, so that one reader compares them. The truth bench prints a clock's `error` and
//! `reading`.
#![forbid(unsafe_code)]

pub mod error;
pub mod latency;
pub mod many;
pub mod rate;
pub mod reading;
pub mod transfer;
