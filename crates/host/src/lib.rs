//! What the host knows: its links, addresses, routes and neighbours, asked of the kernel by
//! netlink.
//!
//! The host stays the host (rule 1 of the design): nothing here copies a table of the kernel. A
//! route is asked for one destination at a time, a neighbour is resolved by the kernel, and changes
//! arrive as [`Event`]s. Beside asking, [`device`] makes the quiet veth pairs of which lanes
//! consist.
//!
//! May know: the operating system, and the plain address types of `tickwire-stack`. No unsafe code.
#![forbid(unsafe_code)]

pub mod address;
mod connections;
pub mod device;
mod error;
mod ethtool;
mod event;
mod generic;
pub mod link;
pub mod neighbour;
mod netlink;
pub mod resolve;
pub mod route;
mod xdp;

pub use address::InterfaceAddress;
pub use connections::{Connections, Ends};
pub use error::{Error, Result};
pub use ethtool::{Ethtool, TagStripping};
pub use event::{Event, Monitor};
pub use link::Link;
pub use neighbour::{Neighbour, Reachability};
pub use resolve::{Answer, Nic, Why};
pub use route::{Route, RouteKind, RouteQuery};
pub use tickwire_stack::path::Query;
pub use xdp::{XdpFeatures, XdpInfo};

use netlink::Netlink;

/// A connection to the kernel's routing netlink in the namespace of the thread that opened it.
///
/// Every call is one question and its answer; the kernel answers at once, so nothing here waits for
/// the network.
#[derive(Debug)]
pub struct Host {
    netlink: Netlink,
}

impl Host {
    /// Opens the connection.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn open() -> Result<Self> {
        Ok(Self { netlink: Netlink::open()? })
    }
}
