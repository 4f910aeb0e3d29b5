//! The host's links, addresses, routes and neighbours, read from the kernel through netlink.
//!
//! The kernel remains the authority (rule 1 of the design): nothing here copies one of its tables.
//! A route is requested for one destination at a time, the kernel resolves neighbours, and changes
//! arrive as [`NetworkEvent`]s. In addition, [`device`] sets the devices of lanes up, keeps them
//! quiet, and removes them.
//!
//! It may depend on the operating system, and on the address and path types of `tickwire-stack`.
//! No unsafe code.
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
pub use error::{HostError, Result};
pub use ethtool::{Ethtool, TagStripping};
pub use event::{NetworkEvent, Monitor};
pub use link::NetworkInterface;
pub use neighbour::{Neighbour, Reachability};
pub use resolve::{Answer, Nic, PathRefusal};
pub use route::{Route, RouteKind, RouteQuery};
pub use tickwire_stack::path::Query;
pub use xdp::{XdpFeatures, XdpInfo};

use netlink::Netlink;

/// A connection to the kernel's routing netlink in the namespace of the thread that opened it.
///
/// Every call is one request and its answer; the kernel answers at once, so nothing here waits for
/// the network.
#[derive(Debug)]
pub struct RouteNetlink {
    netlink: Netlink,
}

impl RouteNetlink {
    /// Opens the connection.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn open() -> Result<Self> {
        Ok(Self { netlink: Netlink::open()? })
    }
}
