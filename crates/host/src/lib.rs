//! The host's links, addresses, routes and neighbours, read from the kernel through netlink.
//!
//! The kernel remains the authority (rule 1 of the design): nothing here copies one of its tables.
//! A route is requested for one destination at a time, the kernel resolves neighbours, and changes
//! arrive as [`NetworkEvent`]s. In addition, it brings up the devices of lanes, keeps them quiet,
//! and removes them.
//!
//! | module | purpose |
//! |---|---|
//! | [`link`] | the network interfaces: their names, addresses, MTUs and states |
//! | [`address`] | the addresses of the interfaces |
//! | [`route`] | the route to one destination |
//! | [`neighbour`] | the link-layer address behind an address on a link |
//! | [`resolve`] | route and neighbour together, and why a lane cannot use a path |
//! | `event` | the kernel's announcements of changes |
//! | `connections` | TCP connections of the kernel's own stack (`sock_diag`) |
//! | `device` | brings up and removes the devices of lanes |
//! | `netlink`, `generic` | one request and its answer, over routing and over generic netlink |
//! | `ethtool`, `xdp` | a device's settings and its XDP features, by generic netlink |
//! | `error` | why a request failed |
//!
//! It may depend on the operating system, and on the address and path types of `tickwire-stack`.
//! No unsafe code.
#![forbid(unsafe_code)]

pub mod address;
mod connections;
mod device;
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
pub use event::{Monitor, NetworkEvent};
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
