//! IPv4 and IPv6: what comes in is checked and handed to its protocol, what goes out gets its headers.

pub(crate) mod output;
pub(crate) mod packet;
pub(crate) mod reassembly;

pub use output::IpSend;
pub use packet::{IcmpError, IcmpKind, Packet};
