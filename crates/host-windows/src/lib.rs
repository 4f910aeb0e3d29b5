//! The interfaces, addresses, routes and neighbours of a Windows host, read by the IP Helper API.
//!
//! The kernel remains the authority (rule 1 of the design): it resolves neighbours, and where it
//! offers a function that selects a route, that is asked. [`HostTables`] is what is known at one
//! moment. It is read again after a change, or once a second where changes are not announced
//! (Wine), and the comparison with the last one yields [`HostChange`]s.
//!
//! | module | purpose |
//! |---|---|
//! | `prefix` | ranges of addresses |
//! | `interface`, `address`, `route`, `neighbour` | one row of a table each, and its rules |
//! | `tables` | all interfaces, addresses and routes, and what differs between two moments |
//! | `best_route` | selection of a route in the tables |
//! | `source` | selection of the source address (RFC 6724 §5) |
//! | `path` | how to reach a destination, and why a lane cannot use a path |
//! | `resolution` | how often a neighbour may be resolved, and when that has failed |
//! | `port_owner` | which process has a port |
//! | `firewall` | the questions to the firewall |
//! | `outbound_rules` | its rules about packets that leave |
//! | `error` | why a call failed |
//! | `host`, `ports`, `resolver`, `changes` | Windows only: the queries, resolution, notification |
//! | `windows_firewall` | Windows only: its firewall |
//! | `sys` | Windows only: the calls |
//!
//! The modules without calls make the decisions. They are the same on every operating system, and
//! their tests run everywhere. It may depend on the operating system (Windows), on the reasons of
//! `tickwire-lane`, and on the address and path types of `tickwire-stack`. `unsafe` is allowed in
//! `sys` only.
#![deny(unsafe_code)]

mod address;
mod best_route;
mod error;
mod firewall;
mod interface;
mod neighbour;
#[cfg_attr(not(windows), allow(dead_code, reason = "its caller needs Windows"))]
mod outbound_rules;
mod path;
mod port_owner;
mod prefix;
mod resolution;
mod route;
mod source;
mod tables;

#[cfg(windows)]
mod changes;
#[cfg(windows)]
mod host;
#[cfg(windows)]
mod ports;
#[cfg(windows)]
mod resolver;
#[cfg(windows)]
mod sys;
#[cfg(windows)]
mod windows_firewall;

pub use address::UnicastAddress;
pub use error::{IpHelperError, Result};
pub use firewall::{Firewall, FirewallError, InboundPort, InboundVerdict, NoFirewall};
pub use interface::{FamilySettings, HostInterface, InterfaceKind};
pub use neighbour::{NeighbourEntry, NeighbourState, apply_neighbour};
pub use path::{PathDecision, ResolvedPath, RouteChoice};
pub use port_owner::{EndpointRow, MAX_OWNERS, PortOwner, PortProof, PortProtocol, match_connection, match_owners};
pub use prefix::IpPrefix;
pub use resolution::{ResolutionHistory, ResolutionLimits, apply_resolution};
pub use route::RouteEntry;
pub use source::choose_source;
pub use tables::{HostChange, HostTables, MAX_ADDRESSES, MAX_INTERFACES, MAX_ROUTES};
pub use tickwire_stack::path::Query;

#[cfg(windows)]
pub use changes::{ChangedTables, Changes};
#[cfg(windows)]
pub use host::{WindowsHost, is_wine, read_neighbour, read_tables};
#[cfg(windows)]
pub use ports::{connection_owner, endpoint_rows, port_owners, process_image, prove_port};
#[cfg(windows)]
pub use resolver::{NeighbourResolver, ResolutionStart};
#[cfg(windows)]
pub use sys::expanded;
#[cfg(windows)]
pub use windows_firewall::WindowsFirewall;
