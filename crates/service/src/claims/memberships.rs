//! Multicast groups that a claim's socket has joined.

use crate::connection::{Answer, ConnectionId};
use crate::groups::{GroupKey, Member, filter};
use crate::registry::{ClaimId, LaneId, Protocol};
use crate::requests::refused;
use crate::service::Service;
use std::sync::Arc;
use tickwire_host::RouteQuery;
use tickwire_link::control::{ClaimKind, Membership, Reason, Reply};
use tickwire_link::sys_socket;
use tickwire_stack::addr::{Address, Endpoint};

impl Service {
    /// Answers [`tickwire_link::control::Request::Join`].
    pub(crate) fn join(&mut self, id: ConnectionId, claim: ClaimId, membership: &Membership) -> Answer {
        match self.try_join(id, claim, membership) {
            Ok(()) => Reply::Done.into(),
            Err(reason) => refused(reason),
        }
    }

    fn try_join(&mut self, id: ConnectionId, claim: ClaimId, membership: &Membership) -> Result<(), Reason> {
        let (lane, key) = self.group_of(id, claim, membership)?;
        let user = self.claims.get(&claim).map(|held| held.user).ok_or(Reason::BadRequest)?;
        let member = (lane, claim, membership.source);
        if self.groups.of_claim(claim).contains(&(key, member)) {
            return Ok(());
        }
        self.usage.take_membership(user, self.groups.of_lane(lane))?;
        let Some(change) = self.groups.join(key, member) else {
            self.usage.give_membership(user);
            return Err(Reason::ShareLimit);
        };
        let entered = self.programs.set_members(&change).map_err(|error| {
            tracing::error!(lane, %error, "a group could not be entered");
            if error.is_full() { Reason::MembershipLimit } else { Reason::ServiceError }
        });
        // Without the filter the kernel would deliver each datagram a second time.
        entered.and_then(|()| self.filter_kernel_copies(claim)).inspect_err(|_| self.leave_group(key, claim, member))
    }

    fn leave_group(&mut self, key: GroupKey, claim: ClaimId, member: Member) {
        let Some(change) = self.groups.leave(key, member) else { return };
        if let Some(held) = self.claims.get(&claim) {
            self.usage.give_membership(held.user);
        }
        if let Err(error) = self.programs.set_members(&change) {
            tracing::debug!(%error, "leaving a group");
        }
    }

    /// Leaves all groups of a claim.
    pub(crate) fn leave_groups(&mut self, claim: ClaimId) {
        for (key, member) in self.groups.of_claim(claim).to_vec() {
            self.leave_group(key, claim, member);
        }
    }

    /// Answers [`tickwire_link::control::Request::Leave`].
    pub(crate) fn leave(&mut self, id: ConnectionId, claim: ClaimId, membership: &Membership) -> Answer {
        match self.group_of(id, claim, membership) {
            Ok((lane, key)) => {
                self.leave_group(key, claim, (lane, claim, membership.source));
                let _ = self.filter_kernel_copies(claim);
                Reply::Done.into()
            }
            Err(reason) => refused(reason),
        }
    }

    /// Which group on which interface a membership of a claim means.
    fn group_of(
        &mut self,
        id: ConnectionId,
        claim: ClaimId,
        membership: &Membership,
    ) -> Result<(LaneId, GroupKey), Reason> {
        let lane = self.connections.get(&id).and_then(|c| c.lane).ok_or(Reason::BadRequest)?;
        let held = self.claims.get(&claim).filter(|held| held.lane == lane).ok_or(Reason::BadRequest)?;
        if held.bound.protocol != Protocol::Udp || held.kind != ClaimKind::Bound || !membership.group.is_multicast() {
            return Err(Reason::Group);
        }
        let port = held.bound.local.port;
        let mut interface = membership.interface;
        if interface == 0 {
            let query = RouteQuery { destination: membership.group, source: None, interface: 0, mark: 0 };
            interface = self.host.route(&query).map_err(|_| Reason::ServiceError)?.interface;
        }
        if !self.nics.contains(interface) {
            return Err(Reason::Interface);
        }
        Ok((lane, GroupKey { group: Endpoint::new(membership.group, port), interface }))
    }

    /// Keeps the kernel from delivering what the lane gets already (see [`crate::groups`]).
    fn filter_kernel_copies(&mut self, claim: ClaimId) -> Result<(), Reason> {
        let Some(held) = self.claims.get_mut(&claim) else { return Err(Reason::BadRequest) };
        let mut joined: Vec<Address> = self.groups.of_claim(claim).iter().map(|(key, _)| key.group.address).collect();
        joined.sort_unstable();
        joined.dedup();
        let program = if joined.is_empty() {
            None
        } else {
            Some(filter(&joined, &self.nics.indices()).ok_or(Reason::ShareLimit)?)
        };
        held.filtered = program.is_some();
        let socket = Arc::clone(&held.socket);
        let done = socket.queue().ask(move || {
            let Some(fd) = socket.get() else { return Ok(()) };
            match program {
                Some(program) => sys_socket::attach_filter(fd, &program),
                None => sys_socket::detach_filter(fd),
            }
        });
        done.ok_or(Reason::ServiceError)?.map_err(|error| {
            tracing::warn!(lane = held.lane, %error, "cannot filter a socket that joined a group");
            Reason::Group
        })
    }

    /// Makes the filters anew after interfaces came or went.
    pub(crate) fn refresh_filters(&mut self) {
        let claims: Vec<ClaimId> = self.claims.keys().copied().collect();
        for claim in claims {
            if !self.groups.of_claim(claim).is_empty() {
                let _ = self.filter_kernel_copies(claim);
            }
        }
    }
}
