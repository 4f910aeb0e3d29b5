//! The BPF program that completes the transmit stamps of answers at the server's device
//! (`bpf/stamp.c`): for [`crate::server::Leaving::Completed`].

/// The object file, for `tc filter add dev INTERFACE egress bpf da obj FILE sec classifier`; its
/// interface needs `tc qdisc add dev INTERFACE clsact` before.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stamp.o"));
