//! Lookup of a server: the resolution of a name, and why a lookup fails. For a server with NTS, a
//! lookup also establishes keys (see `nts`).

use std::net::{SocketAddr, ToSocketAddrs};
use thiserror::Error;

/// Why a server cannot be polled: its name cannot be resolved, or there are no keys.
#[derive(Debug, Error)]
#[error("{why}{}{detail}", if detail.is_empty() { "" } else { ": " })]
pub(crate) struct Failure {
    /// One of a few texts of this program, so that each can be counted.
    pub(crate) why: String,
    /// Details from the system or a library.
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(why: &str, detail: impl ToString) -> Self {
        Self { why: why.into(), detail: detail.to_string() }
    }
}

/// Resolves a name to at least one address; blocks in the system's resolver.
pub(crate) fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let unknown = |detail: String| Failure::new("the server's name is not known", detail);
    let all: Vec<_> = (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
    if all.is_empty() { Err(unknown("it has no address".into())) } else { Ok(all) }
}
