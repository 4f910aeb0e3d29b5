//! A lane on Linux, as both of its sides see it: the receive ring and the TAP device, the shared
//! region and its lock, the connection between program and service, and the BPF programs that put
//! packets into lanes and let them out.
//!
//! What is the same on every operating system is in `tickwire-lane`: messages, layout, and the
//! discipline of ring, port and lock. Here are the system calls and the mapped memory under it.
//!
//! | module | purpose |
//! |---|---|
//! | [`control`] | the connection between program and service |
//! | [`region`], [`pthread_mutex`] | the shared region; its lock, and `futex(2)` |
//! | [`mapped_ring`], [`standby_ring`] | the receive ring; the ring that wakes the standby thread |
//! | [`port`], [`tx_batch`], [`bulk`] | frames between stack and devices; batches; trains |
//! | `bpf` (feature `bpf`) | the BPF programs, and the keys and values of their maps |
//! | [`sys_bpf`], [`mapped_array`] | `bpf(2)` for rings and guards; a BPF array in memory |
//! | [`sys_tap`], [`sys_packet`] | TAP devices; frames that the service sends |
//! | [`sys_socket`], [`group_filter`] | what kind of socket a program's is; its memberships |
//! | [`sys_repair`] | a connection of another stack as a socket of the kernel's |
//! | [`sys_ethtool`], [`sys_limits`] | settings of devices; limits of processes |
//!
//! May depend on `tickwire-lane`, on `tickwire-stack` (whose memory lies in the region), on
//! `tickwire-steer` (what its rules and the BPF programs have in common), on `tickwire-linux-abi`
//! and on the operating system (Linux). It makes no policy: the service
//! decides which programs may have a lane, and which flows; the preload library decides what a
//! program does with them.
//!
//! `unsafe` is allowed here, for system calls, mapped rings, the mapped region and its lock; every
//! block says why it is sound. Nothing that another process can write (rings, region, messages) is
//! trusted.

#[cfg(feature = "bpf")]
pub mod bpf;
pub mod bulk;
pub mod control;
pub mod group_filter;
pub mod mapped_array;
pub mod mapped_ring;
mod mapping;
pub mod port;
pub mod pthread_mutex;
pub mod region;
pub mod standby_ring;
mod sys;
pub mod sys_bpf;
pub mod sys_ethtool;
pub mod sys_limits;
pub mod sys_packet;
pub mod sys_repair;
pub mod sys_socket;
pub mod sys_tap;
pub mod tx_batch;
