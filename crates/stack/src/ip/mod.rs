//! IPv4 and IPv6: validates received packets and passes them to their protocol, and adds headers to
//! sent ones.

pub(crate) mod fragment;
mod icmp;
mod input;
pub(crate) mod output;
pub(crate) mod packet;
pub(crate) mod reassembly;
mod receive;
mod v4;
mod v6;

pub use output::IpSend;
pub use packet::{IcmpError, IcmpKind, Packet};
pub use receive::{Checksum, ReceiveMetadata};

/// IP protocol number of ICMP.
pub(crate) const ICMP: u8 = 1;
/// IP protocol number (next header) of ICMPv6.
pub(crate) const ICMPV6: u8 = 58;
