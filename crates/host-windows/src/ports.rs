//! The queries about owners of ports. Each reads the whole table of its protocol.

use crate::error::Result;
use crate::port_owner::{EndpointRow, PortOwner, PortProof, PortProtocol, match_connection, match_owners};
use crate::sys;
use std::os::windows::io::BorrowedHandle;
use tickwire_stack::addr::Endpoint;

/// Whether a process has a socket at a local endpoint.
///
/// # Errors
/// If the table cannot be read.
pub fn prove_port(protocol: PortProtocol, local: Endpoint, process: u32) -> Result<PortProof> {
    Ok(PortProof::of(rows(protocol)?, local, process))
}

/// The processes that have a local endpoint: see [`match_owners`] for the order.
///
/// # Errors
/// If the table cannot be read.
pub fn port_owners(protocol: PortProtocol, local: Endpoint) -> Result<Vec<PortOwner>> {
    Ok(match_owners(rows(protocol)?, local))
}

/// The process of a TCP connection, if it is listed and known.
///
/// # Errors
/// If the table cannot be read.
pub fn connection_owner(local: Endpoint, remote: Endpoint) -> Result<Option<u32>> {
    Ok(match_connection(rows(PortProtocol::Tcp)?, local, remote))
}

/// All sockets of a protocol.
///
/// # Errors
/// If the table cannot be read.
pub fn endpoint_rows(protocol: PortProtocol) -> Result<Vec<EndpointRow>> {
    rows(protocol)
}

/// The full path of the program that a process runs.
///
/// # Errors
/// If Windows does not say.
pub fn process_image(process: BorrowedHandle<'_>) -> Result<String> {
    sys::process_image(process)
}

fn rows(protocol: PortProtocol) -> Result<Vec<EndpointRow>> {
    match protocol {
        PortProtocol::Tcp => sys::tcp_rows(),
        PortProtocol::Udp => sys::udp_rows(),
    }
}
