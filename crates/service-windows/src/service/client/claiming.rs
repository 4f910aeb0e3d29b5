//! Claims: the socket that a program has passed is examined, and the kernel's tables and the
//! firewall are asked.

use super::Client;
use crate::inbound::{self, InboundAnswers};
use crate::kernel_sockets::{self, Asked};
use crate::service::handle_thread::{HandleThread, PulledSocket};
use crate::socket_proof;
use crate::users::Resource;
use std::os::windows::io::OwnedHandle;
use tickwire_host_windows::{EndpointRow, endpoint_rows};
use tickwire_lane::control::{Claim, ClaimKind, ClaimPart, EphemeralPort, EphemeralPorts, Parts, Reason, Reply};
use tickwire_registry::{LaneId, ProvenSocket, justifies};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::Query;
use tickwire_steer::tables::Protocol;

impl Client<'_> {
    /// Answers `Request::Claim`.
    pub(super) fn claim(
        &mut self,
        lane: LaneId,
        wanted: (ClaimKind, Endpoint),
        socket: OwnedHandle,
    ) -> Result<Reply, Reason> {
        self.shared.core().packets_come()?;
        let share = self.shared.users.take(&self.client.user.id, Resource::Claim)?;
        // Before the core is locked: Windows may take its time.
        let (mut socket, mut proven) = self.examine(socket)?;
        socket.share = Some(share);
        let turn = self.shared.users.turn(&self.client.user.id);
        let _turn = turn.take();
        let firewall = &*self.shared.firewall;
        if wanted.0 == ClaimKind::Flow {
            self.choose_source(&mut proven, wanted.1)?;
        }
        if wanted.0 == ClaimKind::Bound {
            // What a socket does not justify is refused with that reason first.
            let own = self.shared.core().own_addresses();
            let bound = &proven.bound;
            justifies(&proven, wanted.0, wanted.1, own.contains(&bound.local.address))?;
            InboundAnswers::default().allow(firewall, self.image.as_deref(), bound, &own)?;
        }
        // (What a listener's connections send answers what was let in.)
        let peers_port = (wanted.0 == ClaimKind::Flow).then_some(wanted.1.port);
        if peers_port.is_some() || proven.bound.protocol == Protocol::Udp {
            inbound::lets_out(firewall, self.image.as_deref(), &proven.bound, peers_port)?;
        }
        let process = self.channel.process_id();
        let protocol = inbound::protocol(&proven.bound);
        let is_allowed = || {
            let rows = endpoint_rows(protocol).map_err(|_| Reason::NoDiagnostics)?;
            kernel_sockets::allow(&Asked { socket: &proven, kind: wanted.0, remote: wanted.1, process }, &rows)?;
            Ok(rows)
        };
        drop(is_allowed()?);
        let (claim, local) = self.shared.core().claim(lane, wanted, (socket, proven))?;
        // And again: the kernel may have got a connection in the meantime. From now on it gets
        // none.
        if let Err(reason) = is_allowed().and_then(|rows| self.leave_to_kernel(lane, claim, &proven, &rows)) {
            let parts = Parts::new(&[ClaimPart { claim, remote: Endpoint::default() }]);
            let _ = self.shared.core().release(lane, &parts);
            return Err(reason);
        }
        Ok(Reply::Claimed { claim, local })
    }

    /// Old connections of the kernel stay with it.
    fn leave_to_kernel(
        &self,
        lane: LaneId,
        claim: Claim,
        listener: &ProvenSocket,
        rows: &[EndpointRow],
    ) -> Result<(), Reason> {
        let old = kernel_sockets::left_behind(listener, rows);
        if old.is_empty() { Ok(()) } else { self.shared.core().except(lane, claim, &old) }
    }

    /// Asks Windows what a handle of the program is.
    fn examine(&mut self, handle: OwnedHandle) -> Result<(PulledSocket, ProvenSocket), Reason> {
        if self.handles.is_none() {
            let share = self.shared.users.take(&self.client.user.id, Resource::HandleThread)?;
            self.handles = Some(HandleThread::start(socket_proof::examine, share)?);
        }
        let examined = self.handles.as_ref().ok_or(Reason::ServiceError)?.examine(handle);
        if examined.as_ref().is_err_and(|reason| *reason == Reason::HandleBusy) {
            // Its thread waits on. The next handle gets another one.
            tracing::warn!(process = self.channel.process_id(), "Windows does not say what a handle is");
            self.handles = None;
        }
        examined
    }

    /// Answers `Request::Ports`. The program binds a socket of its own to one of the ports, and
    /// claims it.
    pub(super) fn offer_ports(&self, source: Address, count: u32) -> Result<Reply, Reason> {
        let count = (count as usize).min(EphemeralPorts::MAX);
        let offered = self.shared.core().offer_ports(count).ok_or(Reason::Disabled)?;
        let ports: Vec<_> = offered.into_iter().map(|port| EphemeralPort { claim: Claim(0), port }).collect();
        if ports.is_empty() {
            return Err(Reason::FlowLimit);
        }
        Ok(Reply::Ports { namespace: 0, source, ports: EphemeralPorts::new(&ports) })
    }

    /// A socket at any address has its port at each. Its connection goes out from the one by which
    /// the host reaches the peer, as the kernel chooses it: the flow is claimed there.
    fn choose_source(&self, proven: &mut ProvenSocket, remote: Endpoint) -> Result<(), Reason> {
        let bound = &mut proven.bound;
        let reaches = bound.local.address.family() == remote.address.family() || bound.dual;
        if bound.local.address.is_unspecified() && reaches {
            let found = self.shared.core().resolve(&Query::to(remote.address));
            if found.reason != Reason::None {
                return Err(found.reason);
            }
            bound.local.address = found.path.source;
        }
        Ok(())
    }
}
