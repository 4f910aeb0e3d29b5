//! Timestamps of packets, by the kernel and by network cards, as values of the machine's counter.
//! Each protocol that measures time (NTP, and others beside it) and each study of latencies uses
//! the same ones.
//!
//! | module | purpose |
//! |---|---|
//! | `connected_udp` | a UDP socket to one peer, whose packets are stamped |
//! | `timestamps` | the timestamps of a message |
//! | `socket_stamps` | Linux: the timestamps of a socket's packets (`SO_TIMESTAMPING`) |
//! | `winsock_stamps` | Windows: the same (`SIO_TIMESTAMPING`) |
//! | `packet_observer` | Windows: a driver that sees a socket's packets pass |
//! | `clocks` | the operating system's clocks |
//! | `cross_timestamp` | reads counter and kernel clock together, converts kernel timestamps |
//! | `card` | Linux: reads and sets which packets a network card timestamps |
//! | `phc` | Linux: reads a network card's clock together with the kernel's |
//! | `hardware` | the conversion of a card's timestamps to counts: arithmetic only |
//! | `nic` | a card with usable timestamps: its clock and its link speed; none on Windows |
//! | `quality` | the source of an exchange's timestamps |
//!
//! This crate may depend on tickclock and the operating system. It knows no protocol and contains
//! no policy. `unsafe` is the system calls in `phc::sys` and `card::sys`, and those of Windows in
//! `winsock_stamps`.

#[cfg(unix)]
pub mod card;
pub mod clocks;
pub mod connected_udp;
pub mod cross_timestamp;
pub mod hardware;
#[cfg_attr(windows, path = "nic_windows.rs")]
pub mod nic;
#[cfg(windows)]
pub mod packet_observer;
#[cfg(unix)]
pub mod phc;
mod quality;
#[cfg(unix)]
pub mod socket_stamps;
pub mod timestamps;
#[cfg(windows)]
mod winsock_stamps;

pub use quality::Quality;
