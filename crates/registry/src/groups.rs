//! Multicast groups: which lanes receive copies of their datagrams.
//!
//! Only the first fragment of a datagram names the port. Fragments that arrive before it go to the
//! lanes that joined the group at any port, so these lanes are entered, too, as port 0.

use super::{ClaimId, LaneId};
use std::collections::{BTreeMap, HashMap};
use tickwire_stack::addr::Endpoint;
use tickwire_steer::tables::{GroupKey, MAX_MEMBERS};

/// One membership: of a lane, by the socket of a claim. Sources are filtered by the stack.
pub type Member = (LaneId, ClaimId);

/// All memberships.
#[derive(Debug, Default)]
pub struct Groups {
    members: HashMap<GroupKey, Vec<Member>>,
    /// How many memberships each lane has in a group of an interface, at all ports together (the
    /// key's is 0).
    any_port: HashMap<GroupKey, BTreeMap<LaneId, u32>>,
    of_claims: HashMap<ClaimId, Vec<(GroupKey, Member)>>,
    of_lanes: HashMap<LaneId, u32>,
}

/// The lanes that receive copies, before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The group.
    pub key: GroupKey,
    /// The lanes before.
    pub before: Vec<LaneId>,
    /// The lanes after.
    pub after: Vec<LaneId>,
}

/// What entering or removing a membership changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupChange {
    /// At the port of the membership.
    pub port: Members,
    /// At port 0, which stands for any.
    pub any_port: Members,
}

/// The key of the group at any port.
fn any_port(key: GroupKey) -> GroupKey {
    GroupKey { group: Endpoint::new(key.group.address, 0), ..key }
}

impl Groups {
    /// Enters a membership; `None` if there are too many members. A second entry of the same
    /// membership changes nothing.
    pub fn join(&mut self, key: GroupKey, member: Member) -> Option<GroupChange> {
        let members = self.members.entry(key).or_default();
        let before = lanes(members);
        let any = self.any_port.entry(any_port(key)).or_default();
        let any_before: Vec<_> = any.keys().copied().collect();
        if !members.contains(&member) {
            if !before.contains(&member.0) && before.len() >= MAX_MEMBERS || members.len() >= MAX_ENTRIES {
                return None;
            }
            members.push(member);
            *any.entry(member.0).or_default() += 1;
            self.of_claims.entry(member.1).or_default().push((key, member));
            *self.of_lanes.entry(member.0).or_default() += 1;
        }
        let port = Members { key, before, after: lanes(members) };
        let any_after = any.keys().copied().collect();
        Some(GroupChange { port, any_port: Members { key: any_port(key), before: any_before, after: any_after } })
    }

    /// Removes a membership; `None` if there is none.
    pub fn leave(&mut self, key: GroupKey, member: Member) -> Option<GroupChange> {
        let members = self.members.get_mut(&key)?;
        let at = members.iter().position(|m| *m == member)?;
        let before = lanes(members);
        members.swap_remove(at);
        let after = lanes(members);
        if after.is_empty() {
            self.members.remove(&key);
        }
        if let Some(of_claim) = self.of_claims.get_mut(&member.1) {
            of_claim.retain(|m| *m != (key, member));
            if of_claim.is_empty() {
                self.of_claims.remove(&member.1);
            }
        }
        if let Some(number) = self.of_lanes.get_mut(&member.0) {
            *number -= 1;
            if *number == 0 {
                self.of_lanes.remove(&member.0);
            }
        }
        Some(GroupChange { port: Members { key, before, after }, any_port: self.leave_any_port(key, member.0) })
    }

    /// Removes a lane's membership at one of the ports.
    fn leave_any_port(&mut self, key: GroupKey, lane: LaneId) -> Members {
        let key = any_port(key);
        let lanes = self.any_port.entry(key).or_default();
        let before = lanes.keys().copied().collect();
        if let Some(number) = lanes.get_mut(&lane) {
            *number -= 1;
            if *number == 0 {
                lanes.remove(&lane);
            }
        }
        let after: Vec<_> = lanes.keys().copied().collect();
        if after.is_empty() {
            self.any_port.remove(&key);
        }
        Members { key, before, after }
    }

    /// The memberships of a claim.
    #[must_use]
    pub fn of_claim(&self, claim: ClaimId) -> &[(GroupKey, Member)] {
        self.of_claims.get(&claim).map_or(&[], Vec::as_slice)
    }

    /// How many memberships a lane has.
    #[must_use]
    pub fn of_lane(&self, lane: LaneId) -> u32 {
        self.of_lanes.get(&lane).copied().unwrap_or(0)
    }
}

/// At most so many memberships of one group on one port, all sockets together.
const MAX_ENTRIES: usize = 1024;

fn lanes(members: &[Member]) -> Vec<LaneId> {
    let mut lanes: Vec<_> = members.iter().map(|m| m.0).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Address;

    const GROUP: Address = Address::v4([239, 1, 1, 1]);
    const KEY: GroupKey = GroupKey { group: Endpoint::new(GROUP, 5000), nic: 3 };

    #[test]
    fn each_lane_counts_once_however_many_sockets_joined() {
        let mut groups = Groups::default();
        assert_eq!(groups.join(KEY, (1, 10)).unwrap().port.after, [1]);
        let again = groups.join(KEY, (1, 11)).unwrap().port;
        assert_eq!(again.before, again.after);
        assert_eq!(groups.join(KEY, (2, 12)).unwrap().port.after, [1, 2]);
        assert_eq!(groups.of_claim(11), [(KEY, (1, 11))]);
        assert_eq!((groups.of_lane(1), groups.of_lane(2)), (2, 1));
        assert_eq!(groups.leave(KEY, (1, 10)).unwrap().port.after, [1, 2]);
        assert_eq!(groups.leave(KEY, (1, 10)), None, "left already");
        assert_eq!(groups.leave(KEY, (1, 11)).unwrap().port.after, [2]);
        assert!(groups.leave(KEY, (2, 12)).unwrap().port.after.is_empty());
        assert!(groups.members.is_empty() && groups.of_claims.is_empty() && groups.of_lanes.is_empty());
    }

    #[test]
    fn a_lane_has_a_group_at_any_port_as_long_as_at_one() {
        let mut groups = Groups::default();
        let other = GroupKey { group: Endpoint::new(GROUP, 5001), ..KEY };
        let elsewhere = GroupKey { nic: 4, ..KEY };
        assert_eq!(groups.join(KEY, (1, 10)).unwrap().any_port.after, [1]);
        let second = groups.join(other, (1, 11)).unwrap().any_port;
        assert_eq!((second.key.group.port, second.before, second.after), (0, vec![1], vec![1]));
        assert_eq!(groups.join(other, (2, 12)).unwrap().any_port.after, [1, 2]);
        assert_eq!(groups.join(other, (2, 12)).unwrap().any_port.after, [1, 2], "the same one again");
        assert_eq!(groups.join(elsewhere, (3, 13)).unwrap().any_port.after, [3]);
        assert_eq!(groups.leave(KEY, (1, 10)).unwrap().any_port.after, [1, 2]);
        assert_eq!(groups.leave(other, (2, 12)).unwrap().any_port.after, [1]);
        assert!(groups.leave(other, (1, 11)).unwrap().any_port.after.is_empty());
        assert!(groups.leave(elsewhere, (3, 13)).unwrap().any_port.after.is_empty());
        assert!(groups.any_port.is_empty());
    }

    #[test]
    fn members_are_bounded() {
        let mut groups = Groups::default();
        for lane in 0..MAX_MEMBERS as u32 {
            groups.join(KEY, (lane, u64::from(lane))).unwrap();
        }
        assert_eq!(groups.join(KEY, (99, 99)), None);
    }
}
