//! The devices of lanes: brings them up so that they send nothing by themselves, and removes them.
//! They are TAP devices; `tickwire-lane-linux` makes them.

use crate::RouteNetlink;
use crate::error::Result;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage};

impl RouteNetlink {
    /// Brings a link up, without IPv6 and without ARP.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn raise_quietly(&mut self, index: u32) -> Result<()> {
        if let Some(link) = self.link_by_index(index)? {
            // With IPv6, the link would get a route to all groups, equal to that of the host's
            // network cards. Packets that programs send to a group without naming an interface, and
            // their joins without one, would also use it. Without IPv6 there is no such file. Where
            // it cannot be written (in a container), the netlink request below has to suffice.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", link.name), "1");
        }
        let mut quiet = LinkMessage::default();
        quiet.header.index = index;
        quiet.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(
            In6AddrGenMode::None,
        )])]));
        // A kernel without IPv6 refuses the attribute; then there is nothing to silence.
        let _ = self.netlink.order("quieten a link", RouteNetlinkMessage::SetLink(quiet), 0);
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up | LinkFlags::Noarp;
        message.header.change_mask = message.header.flags;
        self.netlink.order("bring a link up", RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Removes a link; one that is gone already is no error.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn delete_link(&mut self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        match self.netlink.order("remove a link", RouteNetlinkMessage::DelLink(message), 0) {
            Err(error) if error.is_absent() => Ok(()),
            other => other,
        }
    }
}
