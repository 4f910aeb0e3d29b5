//! The multicast groups that a socket receives from the lane, and their sources. The host does the
//! joining (IGMP, MLD); this is the filter behind it (RFC 3376 section 3.1, RFC 3678).
//!
//! The lane does not deliver groups to a socket that it has not joined. The host's own socket
//! behind it receives groups that other sockets have joined (`IP_MULTICAST_ALL`).

use crate::addr::Address;
use crate::error::{Result, StackError};
use crate::ids::UdpId;
use crate::pool::{PoolLink, PoolSlot};
use crate::{Stack, UdpIndex};
use zerocopy::FromZeros;

/// The sources that a socket accepts for a group on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFilter<'a> {
    /// The group.
    pub group: Address,
    /// The interface on which it was joined, 0: any.
    pub interface: u32,
    /// True: all sources but `sources` are accepted; false: only these. False without any source
    /// ends the membership.
    pub exclude: bool,
    /// The listed sources.
    pub sources: &'a [Address],
}

impl GroupFilter<'_> {
    /// A group from all sources, by any interface.
    #[must_use]
    pub const fn all(group: Address) -> Self {
        Self { group, interface: 0, exclude: true, sources: &[] }
    }

    /// No membership in a group.
    #[must_use]
    pub const fn none(group: Address) -> Self {
        Self { group, interface: 0, exclude: false, sources: &[] }
    }
}

/// One line of a socket's filter.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Membership {
    pub(super) link: PoolLink,
    group: Address,
    /// The source, `::` for all.
    source: Address,
    interface: u32,
    /// The source is excluded (of a group joined for all sources).
    exclude: u8,
}

shared_layout! { Membership { link, group, source, interface, exclude } }

impl PoolSlot for Membership {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

impl Stack<'_> {
    /// Replaces a socket's filter for a group on an interface (`IPMulticastListen` of RFC 3376).
    /// Interface 0 replaces those for all interfaces.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if it is no group; [`StackError::NoBuffers`]:
    /// then the filter does not change.
    pub fn udp_set_filter(&mut self, id: UdpId, filter: &GroupFilter<'_>) -> Result<()> {
        let index = self.check(id)?;
        let &GroupFilter { group, interface, exclude, sources } = filter;
        if !group.is_multicast() {
            return Err(StackError::Invalid);
        }
        let replaced = |m: &Membership| m.group == group && (interface == 0 || m.interface == interface);
        let before = self.memberships(index).filter(|m| replaced(m)).count();
        let free = self.mem.groups.len() - self.mem.core.free_groups.used();
        if usize::from(exclude) + sources.len() > free + before {
            return Err(StackError::NoBuffers);
        }
        self.remove_memberships(index, replaced);
        let all = exclude.then_some((Address::ANY, false));
        for (source, exclude) in all.into_iter().chain(sources.iter().map(|&source| (source, exclude))) {
            let slot = self.mem.core.free_groups.take(self.mem.groups).ok_or(StackError::NoBuffers)?;
            let link = core::mem::replace(&mut self.mem.udp[index].groups, PoolLink::to(slot));
            self.mem.groups[slot as usize] = Membership { link, group, source, interface, exclude: exclude.into() };
        }
        Ok(())
    }

    fn remove_memberships(&mut self, index: UdpIndex, gone: impl Fn(&Membership) -> bool) {
        let mut kept = PoolLink::NONE;
        let mut at = core::mem::take(&mut self.mem.udp[index].groups);
        while let Some(slot) = at.get() {
            let line = &mut self.mem.groups[slot as usize];
            at = line.link;
            if gone(line) {
                self.mem.core.free_groups.give(self.mem.groups, slot);
            } else {
                line.link = core::mem::replace(&mut kept, PoolLink::to(slot));
            }
        }
        self.mem.udp[index].groups = kept;
    }

    /// Removes all memberships of a socket that is closed.
    pub(super) fn drop_memberships(&mut self, index: UdpIndex) {
        self.remove_memberships(index, |_| true);
    }

    fn memberships(&self, index: UdpIndex) -> impl Iterator<Item = &Membership> {
        let mut at = self.mem.udp[index].groups;
        core::iter::from_fn(move || {
            let line = &self.mem.groups[at.get()? as usize];
            at = line.link;
            Some(line)
        })
    }

    /// Whether a socket has joined `group` on the packet's interface, and accepts `source`.
    pub(super) fn wants_group(&self, index: UdpIndex, group: Address, source: Address) -> bool {
        if !group.is_multicast() {
            return true;
        }
        let came_by = self.mem.core.came_by;
        let here = |m: &&Membership| m.group == group && (m.interface == came_by || m.interface == 0 || came_by == 0);
        let mut wanted = false;
        for line in self.memberships(index).filter(here) {
            match (line.source == source, line.exclude != 0) {
                (true, true) => return false,
                (true, false) => wanted = true,
                _ => wanted |= line.source == Address::ANY,
            }
        }
        wanted
    }
}
