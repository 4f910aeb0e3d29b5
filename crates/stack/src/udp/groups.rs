//! Which multicast groups and sources a socket wants. Joining itself (IGMP, MLD) is the host's business; this is the filter
//! behind it (RFC 3376 §3.1, RFC 3678).

use crate::Stack;
use crate::addr::Address;
use crate::error::{Error, Result};
use crate::ids::UdpId;
use crate::pool::{Link, Slot};
use zerocopy::FromZeros;

/// One line of a socket's filter.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Membership {
    pub(super) link: Link,
    group: Address,
    /// The source, `::` for all.
    source: Address,
    /// The source is not wanted (of a group joined for all sources).
    exclude: u8,
}

impl Slot for Membership {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Stack<'_> {
    /// A socket wants a group, from all sources or from one more.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Invalid`] if it is no group; [`Error::AddressInUse`] if it has that membership already;
    /// [`Error::NoBuffers`].
    pub fn udp_join(&mut self, id: UdpId, group: Address, source: Option<Address>) -> Result<()> {
        self.add_membership(id, Membership { group, source: source.unwrap_or_default(), ..Membership::default() })
    }

    /// Whether there is room for one more membership, of whatever socket.
    #[must_use]
    pub fn udp_may_join(&self) -> bool {
        self.mem.core.free_groups.used() < self.mem.groups.len()
    }

    /// A socket no longer wants a group: at all, or from one source.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Invalid`] if it has no such membership.
    pub fn udp_leave(&mut self, id: UdpId, group: Address, source: Option<Address>) -> Result<()> {
        let index = self.check(id.into())?;
        let gone = |m: &Membership| m.group == group && source.is_none_or(|s| m.source == s && m.exclude == 0);
        if self.remove_memberships(index, gone) { Ok(()) } else { Err(Error::Invalid) }
    }

    /// A socket that wants a group from all sources does not want it from this one (`IP_BLOCK_SOURCE`), or does again.
    ///
    /// # Errors
    /// As for [`Stack::udp_join`] and [`Stack::udp_leave`].
    pub fn udp_block_source(&mut self, id: UdpId, group: Address, source: Address, block: bool) -> Result<()> {
        if block {
            return self.add_membership(id, Membership { group, source, exclude: 1, ..Membership::default() });
        }
        let index = self.check(id.into())?;
        let gone = |m: &Membership| m.group == group && m.source == source && m.exclude == 1;
        if self.remove_memberships(index, gone) { Ok(()) } else { Err(Error::Invalid) }
    }

    fn add_membership(&mut self, id: UdpId, new: Membership) -> Result<()> {
        let index = self.check(id.into())?;
        if !new.group.is_multicast() {
            return Err(Error::Invalid);
        }
        let mut lines = self.memberships(id.index);
        if lines.any(|m| (m.group, m.source, m.exclude) == (new.group, new.source, new.exclude)) {
            return Err(Error::AddressInUse);
        }
        drop(lines);
        let slot = self.mem.core.free_groups.take(self.mem.groups).ok_or(Error::NoBuffers)?;
        let link = core::mem::replace(&mut self.mem.udp[index].groups, Link::to(slot));
        self.mem.groups[slot as usize] = Membership { link, ..new };
        Ok(())
    }

    fn remove_memberships(&mut self, index: usize, gone: impl Fn(&Membership) -> bool) -> bool {
        let mut kept = Link::NONE;
        let mut found = false;
        let mut at = core::mem::take(&mut self.mem.udp[index].groups);
        while let Some(slot) = at.get() {
            let line = &mut self.mem.groups[slot as usize];
            at = line.link;
            if gone(line) {
                found = true;
                self.mem.core.free_groups.give(self.mem.groups, slot);
            } else {
                line.link = core::mem::replace(&mut kept, Link::to(slot));
            }
        }
        self.mem.udp[index].groups = kept;
        found
    }

    /// Forgets all memberships of a socket that is closed.
    pub(super) fn drop_memberships(&mut self, index: u32) {
        self.remove_memberships(index as usize, |_| true);
    }

    fn memberships(&self, index: u32) -> impl Iterator<Item = &Membership> {
        let mut at = self.mem.udp[index as usize].groups;
        core::iter::from_fn(move || {
            let line = &self.mem.groups[at.get()? as usize];
            at = line.link;
            Some(line)
        })
    }

    /// Whether a socket wants what `source` sent to `group`.
    pub(super) fn wants_group(&self, index: u32, group: Address, source: Address) -> bool {
        if !group.is_multicast() {
            return true;
        }
        let (mut joined, mut wanted) = (false, false);
        for line in self.memberships(index).filter(|m| m.group == group) {
            joined = true;
            match (line.source == source, line.exclude != 0) {
                (true, true) => return false,
                (true, false) => wanted = true,
                _ => wanted |= line.source == Address::ANY,
            }
        }
        // A group that only others have joined is taken unless the program said no (Linux: IP_MULTICAST_ALL).
        let socket = &self.mem.udp[index as usize];
        let mapped = group.to_v4().is_some() && socket.local.address == Address::ANY;
        let all = if mapped { socket.options.mapped_multicast_all } else { socket.options.multicast_all };
        if joined { wanted } else { all }
    }
}
