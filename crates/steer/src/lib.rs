//! Which frame belongs to which lane: the rules of divert and guard as plain data and functions.
//!
//! [`divert()`] judges a frame that a network card has received. The frame belongs to the kernel,
//! or to a lane, or to the kernel with copies to the lanes that joined a multicast group.
//! [`guard()`] judges a frame that a lane sends: it leaves by a network card, or is refused for a
//! reason that is counted. What they know is in [`Tables`]: what the service enters, and what
//! packets teach.
//!
//! On Linux, BPF programs apply these rules in the kernel (`crates/lane-linux/bpf`). A test there
//! runs the programs and this crate on the same frames and compares verdicts, counters and tables
//! (`crates/lane-linux/tests/steer`). So this is their specification, and the code for an operating
//! system without BPF. Each module is one rule, with its reason:
//!
//! | module | rule |
//! |---|---|
//! | [`tables`], [`counters`] | what is known, and what is counted |
//! | [`bounds`] | how much of what packets teach is remembered |
//! | `header`, `parse`, `extensions` | where a frame's addresses, ports and end are |
//! | `vlan` | which tagged frames are looked at |
//! | `merged` | as how many packets a frame counts that the receiver has merged |
//! | `segment` | the role of a TCP segment in its connection |
//! | `sharing` | which of the lanes that share a port gets a packet |
//! | `handshake` | when a connection that a peer opens ends a lane's flow between the same ends |
//! | `flows` | which lane claimed a packet: flow, then port |
//! | `icmp` | which flow an ICMP error is about |
//! | `fragments` | where later fragments go |
//! | `groups` | which lanes get a copy of a multicast datagram |
//! | [`divert`](mod@divert) | the order in which these are applied |
//! | `ownership` | which ports a lane may send from |
//! | [`guard`](mod@guard), [`train`] | which frames a lane may send |
//!
//! It may depend on `core`, `alloc` and the addresses of `tickwire-stack`. It does no I/O and reads
//! no clock; the caller says what time it is and answers for the kernel's sockets ([`Kernel`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bounds;
pub mod counters;
pub mod divert;
mod extensions;
mod flows;
mod fragments;
mod groups;
pub mod guard;
mod handshake;
mod header;
mod icmp;
mod merged;
mod ownership;
mod parse;
mod segment;
mod sharing;
pub mod tables;
#[cfg(test)]
mod testing;
pub mod train;
mod vlan;

pub use divert::{DivertVerdict, FrameArrival, divert, divert_groups, divert_unicast};
pub use guard::{FrameDeparture, GuardVerdict, guard};
pub use handshake::{Kernel, KernelSocket};
pub use merged::Merged;
pub use sharing::chosen;
pub use tables::Tables;
pub use train::{TrainDeparture, guard_train};
