//! Ephemeral ports that the service binds for a lane, several at a time, so that the program
//! opens connections without asking for each.
//!
//! The socket is the service's own and is bound without `SO_REUSEADDR`: the kernel gives the port
//! to no other socket at this address, neither by `bind` nor for a connection, and chooses no port
//! that has a connection. So, unlike a single flow, such a port belongs to its lane as a whole.

use super::port_proof::local_name;
use super::{Claims, HeldClaim};
use crate::clients::{Foreign, Queue};
use crate::ledger::Ledger;
use crate::paths::Nics;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, socket};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use tickwire_lane::control::{Claim, ClaimKind, EphemeralPort, EphemeralPorts, Reason};
use tickwire_registry::{Bound, LaneId};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::Protocol;

/// Ports that are bound for a lane.
pub(crate) struct BoundPorts {
    /// The service's network namespace.
    pub(crate) namespace: u64,
    /// At least one.
    pub(crate) ports: EphemeralPorts,
}

impl Claims {
    /// Binds so many ports at an address of the host for a lane, or as many as there is room for.
    /// `queue` is for work on descriptors of the lane's user.
    pub(crate) fn bind_ports(
        &mut self,
        (lane, user): (LaneId, u32),
        source: Address,
        count: u32,
        queue: &Arc<Queue>,
        nics: &Nics,
        ledger: &mut Ledger,
    ) -> Result<BoundPorts, Reason> {
        if !nics.any() {
            return Err(nics.why_none());
        }
        // A link-local address without its link is no complete address to bind to.
        if !nics.has_address(source) || source.is_link_local() {
            return Err(Reason::Address);
        }
        let mut ports = Vec::new();
        for _ in 0..count.clamp(1, EphemeralPorts::MAX as u32) {
            match self.bind_port((lane, user), source, queue, ledger) {
                Ok(port) => ports.push(port),
                Err(reason) if ports.is_empty() => return Err(reason),
                Err(_) => break,
            }
        }
        tracing::debug!(lane, %source, ports = ports.len(), "bound ephemeral ports");
        Ok(BoundPorts { namespace: self.judge.namespace(), ports: EphemeralPorts::new(&ports) })
    }

    fn bind_port(
        &mut self,
        (lane, user): (LaneId, u32),
        source: Address,
        queue: &Arc<Queue>,
        ledger: &mut Ledger,
    ) -> Result<EphemeralPort, Reason> {
        ledger.usage.take_flow(user)?;
        let bound = bound_socket(source).and_then(|socket| {
            let local = local_name(socket.as_fd()).filter(|name| name.address == source)?;
            Some((socket, local))
        });
        let Some((socket, local)) = bound else {
            ledger.usage.give_flow(user);
            return Err(Reason::PortTaken);
        };
        let bound = Bound { protocol: Protocol::Tcp, local, dual: false, shares: false, reuses: false };
        let entered = self.registry.claim_bound(lane, bound);
        let (claim, changes) = entered.map_err(Reason::from).inspect_err(|_| ledger.usage.give_flow(user))?;
        let socket = Foreign::new(socket, Arc::clone(queue));
        let held = HeldClaim::new(lane, user, ClaimKind::Ephemeral, bound, Endpoint::default(), socket);
        self.held.insert(claim, held);
        self.apply(lane, claim, changes, ledger).inspect_err(|_| self.remove(lane, vec![claim], ledger))?;
        Ok(EphemeralPort { claim: Claim(claim), port: local.port })
    }
}

/// A TCP socket with an exclusive ephemeral port at this address.
fn bound_socket(source: Address) -> Option<OwnedFd> {
    let (family, name) = match source.to_v4() {
        Some(v4) => (AddressFamily::Inet, SocketAddr::from((v4, 0))),
        None => (AddressFamily::Inet6, SocketAddr::from((source.0, 0))),
    };
    let bound = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .and_then(|socket| bind(socket.as_raw_fd(), &SockaddrStorage::from(name)).map(|()| socket));
    bound.inspect_err(|error| tracing::warn!(%source, %error, "no ephemeral port can be bound")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{setsockopt, sockopt};

    /// The exclusive right to the port rests on this.
    #[test]
    fn no_other_socket_can_have_a_port_that_is_bound() {
        let here = Address::v4([127, 0, 0, 1]);
        let ours = bound_socket(here).unwrap();
        let local = local_name(ours.as_fd()).unwrap();
        assert!(local.address == here && local.port != 0);
        let other = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&other, sockopt::ReuseAddr, &true).unwrap();
        setsockopt(&other, sockopt::ReusePort, &true).unwrap();
        for address in [[127, 0, 0, 1], [0, 0, 0, 0]] {
            let name = SockaddrStorage::from(SocketAddr::from((address, local.port)));
            assert_eq!(bind(other.as_raw_fd(), &name), Err(nix::errno::Errno::EADDRINUSE), "{address:?}");
        }
        assert!(bound_socket(Address::v4([192, 0, 2, 1])).is_none(), "no address of this host");
    }
}
