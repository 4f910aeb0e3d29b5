//! Timestamps of packets, by the kernel and by network cards, as values of the machine's counter.
//! Each protocol that measures time (NTP, and others beside it) and each study of latencies uses
//! the same ones.
//!
//! | module | purpose |
//! |---|---|
//! | `socket_stamps` | enables and reads the timestamps of a socket's packets (`SO_TIMESTAMPING`) |
//! | `cross_timestamp` | reads counter and kernel clock together, converts kernel timestamps |
//! | `card` | reads and sets which packets a network card timestamps |
//! | `phc` | reads a network card's clock together with the kernel's |
//! | `hardware` | the conversion of a card's timestamps to counts: arithmetic only |
//! | `nic` | a card with usable timestamps: its clock and its link speed |
//! | `quality` | the source of an exchange's timestamps |
//!
//! This crate may depend on tickclock and the operating system. It knows no protocol and contains
//! no policy. `unsafe` is the system calls in `phc::sys` and `card::sys`.

pub mod card;
pub mod cross_timestamp;
pub mod hardware;
pub mod nic;
pub mod phc;
mod quality;
pub mod socket_stamps;

pub use quality::Quality;
