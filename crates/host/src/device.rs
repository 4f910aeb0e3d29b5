//! Creating and removing the devices of lanes: veth pairs that carry no address and send nothing by
//! themselves.

use crate::RouteNetlink;
use crate::error::Result;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage,
};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A veth pair to create.
#[derive(Clone, Copy, Debug)]
pub struct VethPair<'a> {
    /// Name of the end that stays in this namespace.
    pub here: &'a str,
    /// Name of the other end.
    pub there: &'a str,
    /// The namespace in which the other end is created.
    pub namespace: BorrowedFd<'a>,
    /// Interface index of both ends, each in its namespace; 0: the kernel chooses.
    pub index: u32,
    /// MTU of both ends, in bytes.
    pub mtu: u32,
}

/// One end: no ARP, one queue each way, not up yet.
fn end(name: &str, index: u32, mtu: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Noarp;
    message.header.change_mask = LinkFlags::Noarp;
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::NumTxQueues(1),
        LinkAttribute::NumRxQueues(1),
    ];
    message
}

impl RouteNetlink {
    /// Creates a veth pair, both ends down. `IFF_NOARP` and [`RouteNetlink::raise_quietly`] keep
    /// both ends silent.
    ///
    /// # Errors
    /// If the kernel refuses: a name or index is taken ([`crate::HostError::is_taken`]), the
    /// namespace is gone, or there is no privilege.
    pub fn create_veth(&mut self, pair: &VethPair<'_>) -> Result<()> {
        let mut there = end(pair.there, pair.index, pair.mtu);
        there.attributes.push(LinkAttribute::NetNsFd(pair.namespace.as_raw_fd()));
        let mut here = end(pair.here, pair.index, pair.mtu);
        here.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(there))),
        ]));
        self.netlink.order("make a veth pair", RouteNetlinkMessage::NewLink(here), NLM_F_CREATE | NLM_F_EXCL)
    }

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
        self.set_up(index, true)
    }

    /// Brings a link up or down.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_up(&mut self, index: u32, up: bool) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = if up { LinkFlags::Up | LinkFlags::Noarp } else { LinkFlags::Noarp };
        message.header.change_mask = LinkFlags::Up | LinkFlags::Noarp;
        self.netlink.order("bring a link up or down", RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets a link's MTU, in bytes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Mtu(mtu));
        self.netlink.order("set a link's MTU", RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Removes a link and with it its peer; one that is gone already is no error.
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
