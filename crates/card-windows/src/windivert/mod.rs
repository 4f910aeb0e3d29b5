//! The driver WinDivert 2.2: it takes IP packets from the kernel's network layer by a filter, and
//! injects packets there. Its library is loaded at run time, from beside the program.
//!
//! Packets have no Ethernet header. One is put on for divert and the stack, and taken off what
//! lanes send; the kernel finds the neighbour.
//!
//! | module | purpose |
//! |---|---|
//! | [`diverted_card`] | the card: claims, receiving, giving back, sending |
//! | [`driver`] | what it needs of the driver |
//! | [`filter`] | which packets a handle takes |
//! | [`record`] | what the driver says about a packet |
//! | [`batch`] | packets of one call |
//! | [`ip_packet`] | lengths, and the Ethernet header |
//! | [`error`] | why WinDivert cannot be used, and what to do |
//! | `library` | the driver's library and its functions (Windows) |
//! | `handle` | a handle of the driver, and waiting for several (Windows) |
//! | `receives` | receive calls that are under way (Windows) |
//! | `port_block` | the block of ports for connections |
//! | [`passing_datagrams`] | when datagrams of NTP have passed the driver |
//!
//! Unsafe code is in `library`, `handle` and `receives` only.

pub mod batch;
pub mod diverted_card;
pub mod driver;
pub mod error;
pub mod filter;
#[cfg(windows)]
pub mod handle;
pub mod ip_packet;
#[cfg(windows)]
pub mod library;
pub mod passing_datagrams;
mod port_block;
#[cfg(windows)]
mod receives;
pub mod record;
