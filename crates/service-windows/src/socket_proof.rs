//! The proof of a claim: what Windows says about the socket that the service has pulled out of a
//! program's process.

use std::os::windows::io::{AsSocket, BorrowedHandle};
use tickwire_lane::control::Reason;
use tickwire_lane_windows::pulled_socket;
use tickwire_registry::{Bound, ProvenSocket};
use tickwire_stack::addr::Address;
use tickwire_steer::tables::Protocol;

/// Asks Windows what a socket is and where it is bound.
///
/// # Errors
/// Why it proves nothing.
pub(crate) fn examine(handle: BorrowedHandle<'_>) -> Result<ProvenSocket, Reason> {
    let adopted = pulled_socket::adopt(handle).map_err(|error| {
        tracing::debug!(%error, "what a program passed is no socket");
        Reason::BadRequest
    })?;
    let socket = adopted.as_socket();
    // What Windows does not say is no proof.
    let unproven = |_| Reason::BadRequest;
    let is_stream = pulled_socket::is_stream(socket).map_err(unproven)?.ok_or(Reason::Type)?;
    let local = pulled_socket::local_name(socket).map_err(unproven)?.ok_or(Reason::Type)?;
    if local.port == 0 {
        return Err(Reason::NotBound);
    }
    let protocol = if is_stream { Protocol::Tcp } else { Protocol::Udp };
    let dual = local.address == Address::ANY && pulled_socket::is_dual(socket).map_err(unproven)?;
    let listens = is_stream && pulled_socket::listens(socket).map_err(unproven)?;
    let idle = is_stream && !listens && !pulled_socket::is_connected(socket).map_err(unproven)?;
    Ok(ProvenSocket { bound: Bound { protocol, local, dual, shares: false, reuses: false }, listens, idle })
}
