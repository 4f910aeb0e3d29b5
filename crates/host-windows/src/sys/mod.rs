//! The calls of Windows. Each file has one group of functions, and a safe face.
#![expect(unsafe_code, reason = "calls of Windows, and its tables in memory")]

mod addresses;
mod best_route;
mod environment;
mod event;
mod firewall;
mod firewall_policy;
mod interfaces;
mod library;
mod neighbours;
mod notify;
mod port_table;
mod process_image;
mod resolve;
mod routes;
mod service_state;
mod table;

pub(crate) use addresses::addresses;
pub(crate) use best_route::{BestRoute, best_route};
pub use environment::expanded;
pub(crate) use event::Event;
pub(crate) use firewall::FirewallManager;
pub(crate) use firewall_policy::outbound_rules;
pub(crate) use interfaces::interfaces;
pub(crate) use library::is_wine;
pub(crate) use neighbours::{NeighbourTable, neighbour};
pub(crate) use notify::{Announced, Registrations, Signal};
pub(crate) use port_table::{tcp_rows, udp_rows};
pub(crate) use process_image::process_image;
pub(crate) use resolve::{can_resolve, resolve};
pub(crate) use routes::routes;
pub(crate) use service_state::runs_firewall;

use crate::error::{IpHelperError, Result};
use std::io;
use windows_sys::Win32::Networking::WinSock::{ADDRESS_FAMILY, AF_INET, AF_INET6};

/// Both families: a table is read for each, because Wine answers for some of them only.
const FAMILIES: [ADDRESS_FAMILY; 2] = [AF_INET, AF_INET6];

/// An error number that a function returned.
fn refused(what: &'static str, code: u32) -> IpHelperError {
    IpHelperError::Refused { what, source: io::Error::from_raw_os_error(code.cast_signed()) }
}

/// A function's result, where 0 is success.
fn check(what: &'static str, code: u32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(refused(what, code)) }
}
