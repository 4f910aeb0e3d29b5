//! Routes.

use crate::prefix::IpPrefix;
use tickwire_stack::addr::Address;

/// A route of the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteEntry {
    /// The destinations.
    pub destination: IpPrefix,
    /// The index of the outgoing interface.
    pub interface: u32,
    /// The router; `None` if the destinations are on the interface's own link.
    pub gateway: Option<Address>,
    /// Its own metric, to which that of the interface is added.
    pub metric: u32,
}
