//! Multicast groups that a claim's socket has joined.

use super::Claims;
use super::group_filter::filter;
use crate::ledger::Ledger;
use crate::paths::Nics;
use std::sync::Arc;
use tickwire_lane::control::{ClaimKind, Interfaces, Reason};
use tickwire_lane_linux::group_filter::has_joined;
use tickwire_lane_linux::sys_socket;
use tickwire_registry::{ClaimId, LaneId, Member};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{GroupKey, Protocol};

impl Claims {
    /// Makes the lane a member of a group where the claim's socket is one. Returns the accelerated
    /// interfaces on which that is.
    pub(crate) fn join(
        &mut self,
        lane: LaneId,
        claim: ClaimId,
        group: Address,
        nics: &Nics,
        ledger: &mut Ledger,
    ) -> Result<Vec<u32>, Reason> {
        let port = self.group_port(lane, claim, group)?;
        let interfaces = self.joined_by_kernel(claim, group, nics)?;
        let wanted: Vec<GroupKey> =
            interfaces.iter().map(|&nic| GroupKey { nic, group: Endpoint::new(group, port) }).collect();
        let changed = self.members_become(lane, claim, group, &wanted, ledger);
        // Without the filter the kernel would deliver each datagram a second time.
        changed.and_then(|()| self.filter_kernel_copies(claim, nics)).inspect_err(|_| {
            let _ = self.members_become(lane, claim, group, &[], ledger);
            let _ = self.filter_kernel_copies(claim, nics);
        })?;
        Ok(interfaces)
    }

    /// The accelerated interfaces on which the kernel has a claim's socket as a member of a group.
    fn joined_by_kernel(&self, claim: ClaimId, group: Address, nics: &Nics) -> Result<Vec<u32>, Reason> {
        let socket = self.held.get(&claim).map(|held| Arc::clone(&held.socket)).ok_or(Reason::BadRequest)?;
        let mut interfaces = nics.indices();
        // The answer has no room for more; the kernel delivers what arrives by the others.
        interfaces.truncate(Interfaces::MAX);
        let found = socket.queue().ask(move || {
            let fd = socket.get()?;
            interfaces.retain(|&interface| has_joined(fd, group, interface).unwrap_or(false));
            Some(interfaces)
        });
        found.flatten().ok_or(Reason::ServiceError)
    }

    /// Enters and removes memberships of a claim in a group until they are those that are wanted.
    fn members_become(
        &mut self,
        lane: LaneId,
        claim: ClaimId,
        group: Address,
        wanted: &[GroupKey],
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        let of_group = |(key, _): &&(GroupKey, Member)| key.group.address == group;
        let before: Vec<GroupKey> = self.groups.of_claim(claim).iter().filter(of_group).map(|(key, _)| *key).collect();
        for &key in before.iter().filter(|key| !wanted.contains(key)) {
            self.leave_group(key, claim, (lane, claim), ledger);
        }
        wanted
            .iter()
            .filter(|key| !before.contains(key))
            .try_for_each(|&key| self.join_group(key, claim, (lane, claim), ledger))
    }

    fn join_group(&mut self, key: GroupKey, claim: ClaimId, member: Member, ledger: &mut Ledger) -> Result<(), Reason> {
        let user = self.held.get(&claim).map(|held| held.user).ok_or(Reason::BadRequest)?;
        let lane = member.0;
        ledger.usage.take_membership(user, self.groups.of_lane(lane))?;
        let Some(change) = self.groups.join(key, member) else {
            ledger.usage.give_membership(user);
            return Err(Reason::ShareLimit);
        };
        let entered = ledger.programs.set_members(&change).map_err(|error| {
            tracing::error!(lane, %error, "a group could not be entered");
            if error.is_full() { Reason::MembershipLimit } else { Reason::ServiceError }
        });
        entered.inspect_err(|_| self.leave_group(key, claim, member, ledger))
    }

    fn leave_group(&mut self, key: GroupKey, claim: ClaimId, member: Member, ledger: &mut Ledger) {
        let Some(change) = self.groups.leave(key, member) else { return };
        if let Some(held) = self.held.get(&claim) {
            ledger.usage.give_membership(held.user);
        }
        if let Err(error) = ledger.programs.set_members(&change) {
            tracing::debug!(%error, "leaving a group");
        }
    }

    /// Leaves all groups of a claim.
    pub(super) fn leave_groups(&mut self, claim: ClaimId, ledger: &mut Ledger) {
        for (key, member) in self.groups.of_claim(claim).to_vec() {
            self.leave_group(key, claim, member, ledger);
        }
    }

    /// The claim's socket is no member of a group any more.
    pub(crate) fn leave(
        &mut self,
        lane: LaneId,
        claim: ClaimId,
        group: Address,
        nics: &Nics,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        self.group_port(lane, claim, group)?;
        let _ = self.members_become(lane, claim, group, &[], ledger);
        let _ = self.filter_kernel_copies(claim, nics);
        Ok(())
    }

    /// The port at which a claim of a lane may have groups.
    fn group_port(&self, lane: LaneId, claim: ClaimId, group: Address) -> Result<u16, Reason> {
        let held = self.held.get(&claim).filter(|held| held.lane == lane).ok_or(Reason::BadRequest)?;
        if held.bound.protocol != Protocol::Udp || held.kind != ClaimKind::Bound || !group.is_multicast() {
            return Err(Reason::Group);
        }
        Ok(held.bound.local.port)
    }

    /// Keeps the kernel from delivering what the lane receives already (see `group_filter`).
    fn filter_kernel_copies(&mut self, claim: ClaimId, nics: &Nics) -> Result<(), Reason> {
        let Some(held) = self.held.get_mut(&claim) else { return Err(Reason::BadRequest) };
        let on_lane = |(key, _): &(GroupKey, Member)| nics.contains(key.nic).then_some((key.group.address, key.nic));
        let joined: Vec<(Address, u32)> = self.groups.of_claim(claim).iter().filter_map(on_lane).collect();
        let program = if joined.is_empty() { None } else { Some(filter(&joined).ok_or(Reason::ShareLimit)?) };
        if program.is_none() && !held.filtered {
            return Ok(());
        }
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

    /// Makes the filters anew after interfaces were added or removed.
    pub(crate) fn refresh_filters(&mut self, nics: &Nics) {
        let claims: Vec<ClaimId> = self.held.keys().copied().collect();
        for claim in claims {
            if !self.groups.of_claim(claim).is_empty() {
                let _ = self.filter_kernel_copies(claim, nics);
            }
        }
    }
}
