//! The BPF program that completes the transmit timestamps of replies at the server's device
//! (`bpf/stamp.c`): for [`crate::server::TransmitStamping::Completed`].

/// The object file, for `tc filter add dev INTERFACE egress bpf da obj FILE sec classifier`; the
/// interface first needs `tc qdisc add dev INTERFACE clsact`.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stamp.o"));
