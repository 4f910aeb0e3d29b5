//! Resource usage: the limits per user and in total.

use crate::config::ServiceLimits;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use tickwire_lane::control::Reason;

const MIB: u64 = 1 << 20;

/// What one user, or all together, use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    lanes: u32,
    flows: u32,
    memberships: u32,
    memory: u64,
    connections: u32,
}

/// The accounts of all users.
#[derive(Debug)]
pub(crate) struct Usage {
    limits: ServiceLimits,
    /// The limits at the start.
    made_for: ServiceLimits,
    total: Used,
    users: HashMap<u32, Used>,
    /// Returns from threads that close something.
    returned: Receiver<Return>,
    returns: Sender<Return>,
}

/// What a user gives back.
#[derive(Debug)]
struct Return {
    user: u32,
    flows: usize,
    connections: u32,
}

/// Returns, from another thread, what is really closed.
#[derive(Clone, Debug)]
pub(crate) struct Returns(Sender<Return>);

impl Returns {
    /// Gives so many flows back.
    pub(crate) fn flows(&self, user: u32, flows: usize) {
        let _ = self.0.send(Return { user, flows, connections: 0 });
    }

    /// Gives a connection back.
    pub(crate) fn connection(&self, user: u32) {
        let _ = self.0.send(Return { user, flows: 0, connections: 1 });
    }
}

impl Usage {
    pub(crate) fn new(limits: ServiceLimits) -> Self {
        let (returns, returned) = channel();
        Self { limits, made_for: limits, total: Used::default(), users: HashMap::new(), returned, returns }
    }

    /// For a thread that closes something.
    pub(crate) fn returns(&self) -> Returns {
        Returns(self.returns.clone())
    }

    /// Applies the returns of what has been closed.
    fn collect(&mut self) {
        while let Ok(Return { user, flows, connections }) = self.returned.try_recv() {
            self.give_flows(user, flows);
            self.each(user, |used| used.connections = used.connections.saturating_sub(connections));
        }
    }

    /// Changes the limits; what is used beyond them stays until it is given back. What the BPF maps
    /// were made for is not exceeded.
    pub(crate) fn set_limits(&mut self, limits: ServiceLimits) {
        let made_for = &self.made_for;
        let clamp = |name, wanted: u32, most: u32| {
            if wanted > most {
                tracing::warn!(
                    wanted,
                    "limits.{name} stays at {most}: it is raised further when the service is started again"
                );
            }
            wanted.min(most)
        };
        self.limits = ServiceLimits {
            lanes: clamp("lanes", limits.lanes, made_for.lanes),
            flows: clamp("flows", limits.flows, made_for.flows),
            memberships: clamp("memberships", limits.memberships, made_for.memberships),
            ..limits
        };
    }

    pub(crate) fn limits(&self) -> &ServiceLimits {
        &self.limits
    }

    /// Books a lane of so many bytes.
    pub(crate) fn take_lane(&mut self, user: u32, bytes: u64) -> Result<(), Reason> {
        let (limits, total) = (&self.limits, &mut self.total);
        let own = self.users.entry(user).or_default();
        let checks = [
            (total.lanes >= limits.lanes, Reason::LaneLimit),
            (own.lanes >= limits.lanes_per_user, Reason::UserLaneLimit),
            (total.memory + bytes > u64::from(limits.memory_mib) * MIB, Reason::MemoryLimit),
            (own.memory + bytes > u64::from(limits.memory_per_user_mib) * MIB, Reason::MemoryLimit),
        ];
        if let Some((_, reason)) = checks.into_iter().find(|(over, _)| *over) {
            self.forget(user);
            return Err(reason);
        }
        for used in [own, total] {
            used.lanes += 1;
            used.memory += bytes;
        }
        Ok(())
    }

    /// Gives a lane back.
    pub(crate) fn give_lane(&mut self, user: u32, bytes: u64) {
        self.each(user, |used| {
            used.lanes = used.lanes.saturating_sub(1);
            used.memory = used.memory.saturating_sub(bytes);
        });
    }

    /// Books a claim.
    pub(crate) fn take_flow(&mut self, user: u32) -> Result<(), Reason> {
        self.collect();
        let (limits, total) = (&self.limits, &mut self.total);
        let own = self.users.entry(user).or_default();
        let refused = if total.flows >= limits.flows {
            Some(Reason::FlowLimit)
        } else if own.flows >= limits.flows_per_user {
            Some(Reason::UserFlowLimit)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.forget(user);
            return Err(reason);
        }
        own.flows += 1;
        total.flows += 1;
        Ok(())
    }

    /// Gives a claim back.
    pub(crate) fn give_flow(&mut self, user: u32) {
        self.give_flows(user, 1);
    }

    /// How many more flows a user may book.
    pub(crate) fn room_for_flows(&self, user: u32) -> usize {
        let own = self.users.get(&user).map_or(0, |used| used.flows);
        self.room_for_flows_of_all().min(self.limits.flows_per_user.saturating_sub(own) as usize)
    }

    /// How many flows there is room for in the maps.
    pub(crate) fn room_for_flows_of_all(&self) -> usize {
        self.limits.flows.saturating_sub(self.total.flows) as usize
    }

    /// Books so many flows: entries of one claim beyond its first.
    pub(crate) fn take_flows(&mut self, user: u32, number: usize) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let own = self.users.entry(user).or_default();
        own.flows = own.flows.saturating_add(number);
        self.total.flows = self.total.flows.saturating_add(number);
        self.forget(user);
    }

    /// Gives so many flows back.
    pub(crate) fn give_flows(&mut self, user: u32, number: usize) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.each(user, |used| used.flows = used.flows.saturating_sub(number));
    }

    /// Books a membership of a group, for a lane that has so many already.
    pub(crate) fn take_membership(&mut self, user: u32, of_lane: u32) -> Result<(), Reason> {
        let (limits, total) = (&self.limits, &mut self.total);
        let own = self.users.entry(user).or_default();
        let checks = [
            (total.memberships >= limits.memberships, Reason::MembershipLimit),
            (own.memberships >= limits.memberships_per_user, Reason::UserMembershipLimit),
            (of_lane >= limits.memberships_per_lane, Reason::LaneMembershipLimit),
        ];
        if let Some((_, reason)) = checks.into_iter().find(|(over, _)| *over) {
            self.forget(user);
            return Err(reason);
        }
        own.memberships += 1;
        total.memberships += 1;
        Ok(())
    }

    /// Gives a membership back.
    pub(crate) fn give_membership(&mut self, user: u32) {
        self.each(user, |used| used.memberships = used.memberships.saturating_sub(1));
    }

    /// Books a connection to the service; `false` if there are too many.
    pub(crate) fn take_connection(&mut self, user: u32) -> bool {
        self.collect();
        let (limits, total) = (&self.limits, &mut self.total);
        let own = self.users.entry(user).or_default();
        // Root is let in beyond the total, so that `tickwire stat` works when it is needed most.
        let over =
            total.connections >= limits.connections && user != 0 || own.connections >= limits.connections_per_user;
        if over {
            self.forget(user);
            return false;
        }
        own.connections += 1;
        total.connections += 1;
        true
    }

    /// Whether one more program that has no lane may keep its connection to be listed, beside those
    /// of these users: a quarter of the connections at most, since programs that have lanes, fork,
    /// or observe need theirs.
    pub(crate) fn room_to_list(&self, user: u32, listed: impl Iterator<Item = u32>) -> bool {
        let (own, total) = listed.fold((0, 0), |(own, total), by| (own + u32::from(by == user), total + 1));
        own < self.limits.connections_per_user / 4 && total < self.limits.connections / 4
    }

    fn each(&mut self, user: u32, change: impl Fn(&mut Used)) {
        change(&mut self.total);
        if let Some(own) = self.users.get_mut(&user) {
            change(own);
        }
        self.forget(user);
    }

    /// Drops the account of a user that uses nothing.
    fn forget(&mut self, user: u32) {
        if self.users.get(&user) == Some(&Used::default()) {
            self.users.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage() -> Usage {
        Usage::new(ServiceLimits {
            lanes: 3,
            lanes_per_user: 2,
            flows: 3,
            flows_per_user: 2,
            memberships: 4,
            memberships_per_user: 3,
            memberships_per_lane: 2,
            memory_mib: 100,
            memory_per_user_mib: 60,
            connections: 3,
            connections_per_user: 2,
            requests_per_second: 10,
        })
    }

    #[test]
    fn lanes_are_limited_by_user_in_total_and_by_memory() {
        let mut usage = usage();
        usage.take_lane(1, 10 * MIB).unwrap();
        usage.take_lane(1, 10 * MIB).unwrap();
        assert_eq!(usage.take_lane(1, MIB), Err(Reason::UserLaneLimit));
        assert_eq!(usage.take_lane(2, 61 * MIB), Err(Reason::MemoryLimit));
        usage.take_lane(2, 60 * MIB).unwrap();
        assert_eq!(usage.take_lane(3, MIB), Err(Reason::LaneLimit));
        usage.give_lane(1, 10 * MIB);
        assert_eq!(usage.take_lane(3, 31 * MIB), Err(Reason::MemoryLimit));
        usage.take_lane(3, 30 * MIB).unwrap();
    }

    #[test]
    fn what_is_given_back_leaves_no_trace() {
        let mut usage = usage();
        usage.take_lane(1, MIB).unwrap();
        usage.take_flow(1).unwrap();
        usage.take_membership(1, 0).unwrap();
        assert!(usage.take_connection(1));
        usage.give_membership(1);
        usage.give_lane(1, MIB);
        usage.give_flow(1);
        let returns = usage.returns();
        returns.connection(1);
        assert!(!usage.users.is_empty(), "not before it is noticed");
        usage.collect();
        assert!(usage.users.is_empty());
        assert_eq!(usage.total, Used::default());
    }

    #[test]
    fn memberships_are_limited_by_lane_by_user_and_in_total() {
        let mut usage = usage();
        assert!(usage.take_membership(1, 0).is_ok() && usage.take_membership(1, 1).is_ok());
        assert_eq!(usage.take_membership(1, 2), Err(Reason::LaneMembershipLimit));
        usage.take_membership(1, 0).unwrap();
        assert_eq!(usage.take_membership(1, 0), Err(Reason::UserMembershipLimit));
        usage.take_membership(2, 0).unwrap();
        assert_eq!(usage.take_membership(3, 0), Err(Reason::MembershipLimit));
        usage.give_membership(1);
        usage.take_membership(3, 0).unwrap();
    }

    #[test]
    fn flows_and_connections_are_limited() {
        let mut usage = usage();
        assert!(usage.take_flow(1).is_ok() && usage.take_flow(1).is_ok());
        assert_eq!(usage.take_flow(1), Err(Reason::UserFlowLimit));
        usage.take_flow(2).unwrap();
        assert_eq!(usage.take_flow(3), Err(Reason::FlowLimit));
        assert!(usage.take_connection(1) && usage.take_connection(1) && !usage.take_connection(1));
        assert!(usage.take_connection(2) && !usage.take_connection(3));
        assert!(usage.take_connection(0), "root still gets in");
    }

    #[test]
    fn limits_that_are_read_anew_are_not_raised_beyond_what_the_maps_hold() {
        let mut usage = usage();
        usage.set_limits(ServiceLimits { lanes: 9, flows: 9, memberships: 9, connections: 9, ..*usage.limits() });
        let limits = usage.limits();
        assert_eq!((limits.lanes, limits.flows, limits.memberships, limits.connections), (3, 3, 4, 9));
        usage.set_limits(ServiceLimits { lanes: 1, flows: 1, ..*usage.limits() });
        usage.set_limits(ServiceLimits { lanes: 2, flows: 3, ..*usage.limits() });
        assert_eq!((usage.limits().lanes, usage.limits().flows), (2, 3));
    }

    #[test]
    fn programs_without_a_lane_are_listed_by_a_quarter_of_the_connections() {
        let usage = Usage::new(ServiceLimits { connections: 12, connections_per_user: 8, ..usage().limits });
        assert!(usage.room_to_list(1, [1].into_iter()) && !usage.room_to_list(1, [1, 1].into_iter()));
        assert!(usage.room_to_list(2, [1, 1].into_iter()) && !usage.room_to_list(2, [1, 1, 3].into_iter()));
    }
}
