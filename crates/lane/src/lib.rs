//! What both sides of a lane agree on, whatever the operating system: the control messages between
//! program and service, the layout of the region, and the discipline of ring, port and lock.
//!
//! | module | what it is about |
//! |---|---|
//! | [`build_mark`] | which build a file is of |
//! | [`capture_record`] | what goes before a captured packet |
//! | [`control`] | control messages, their codec, and the reasons why a socket is on the kernel |
//! | [`duty`] | which thread of a lane polls for all |
//! | [`layout`] | where everything lies in a region; the shared state of waiting threads |
//! | [`lock`], [`stream_turn`] | the lock of a lane, and the turn to send packets of streams |
//! | [`mutex`] | what the operating system gives for both |
//! | [`packet_sink`] | where packets are copied to that leave a stack |
//! | [`port`] | a stack between ring and devices: what is taken in and out, and in which order |
//! | [`record_ring`] | the receive ring: records, positions, which thread a record wakes |
//! | [`spin`] | how long a thread polls before it sleeps |
//! | [`train`] | which segments go as one packet, and its header |
//! | [`tx_batch`] | packets that a thread sends after it has released the lock |
//!
//! May depend on `tickwire-stack` and on crates that know no operating system either. The memory
//! that is shared, system calls and descriptors are those of `tickwire-lane-linux` on Linux. It
//! makes no policy, and trusts nothing that another process can write (rings, region, messages).
#![forbid(unsafe_code)]

pub mod build_mark;
pub mod capture_record;
pub mod control;
pub mod duty;
pub mod layout;
pub mod lock;
pub mod mutex;
pub mod packet_sink;
pub mod port;
pub mod record_ring;
pub mod spin;
pub mod stream_turn;
#[cfg(test)]
mod testing;
pub mod train;
pub mod tx_batch;
