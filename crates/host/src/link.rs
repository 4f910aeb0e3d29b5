//! Links: the host's network interfaces.

use crate::RouteNetlink;
use crate::error::Result;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use tickwire_stack::addr::Mac;

/// A network interface, as the kernel last described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Its index in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address; `None` if it is no Ethernet device.
    pub mac: Option<Mac>,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Largest MTU the device can be given; 0 if the kernel does not report it.
    pub max_mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Its medium is connected as well.
    pub running: bool,
    /// It is the loopback interface.
    pub loopback: bool,
    /// The kind that rtnetlink names: `veth`, `bridge`, `bond`, `vlan`, ...; empty for a hardware
    /// device.
    pub kind: String,
    /// The bridge, bond or VRF it is a port of; 0 if none.
    pub master: u32,
    /// The kind of the device it is a port of, as rtnetlink names it: `bridge`, `bond`, `vrf`, ...;
    /// empty if it is no port.
    pub port_of: String,
    /// The bus and the name on it of the hardware behind it; `None` for a software device.
    pub parent: Option<(String, String)>,
}

impl NetworkInterface {
    /// Whether it looks like an Ethernet interface that connects a host: it has an Ethernet
    /// address, and is no loopback and no port of a bridge or bond. It is no software device on top
    /// of another one, and not one of our own lanes.
    ///
    /// Virtual NICs (`veth`) count: in a container they take the role of the Ethernet port.
    #[must_use]
    pub fn looks_physical(&self) -> bool {
        self.mac.is_some()
            && !self.loopback
            && self.master == 0
            && matches!(self.kind.as_str(), "" | "veth" | "netdevsim")
            && !is_lane_device(&self.name)
    }

    /// Whether another interface gets its received packets: it is a port of a bridge, a bond or the
    /// like. A port of a VRF keeps its own.
    #[must_use]
    pub fn is_port(&self) -> bool {
        !matches!(self.port_of.as_str(), "" | "vrf")
    }

    /// Reads a link message; `None` if it lacks an index or name, or does not describe the whole
    /// link. A bridge sends such messages about the settings of a port, and when a port is removed.
    pub(crate) fn parse(message: &LinkMessage) -> Option<Self> {
        if message.header.interface_family != AddressFamily::Unspec {
            return None;
        }
        let flags = message.header.flags;
        let loopback = flags.contains(LinkFlags::Loopback);
        let ethernet = message.header.link_layer_type == LinkLayerType::Ether;
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            mac: None,
            mtu: 0,
            max_mtu: 0,
            up: flags.contains(LinkFlags::Up),
            running: flags.contains(LinkFlags::Running),
            loopback,
            kind: String::new(),
            master: 0,
            port_of: String::new(),
            parent: None,
        };
        let (mut bus, mut device) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::MaxMtu(mtu) => link.max_mtu = *mtu,
                LinkAttribute::Controller(index) => link.master = *index,
                LinkAttribute::ParentDevBusName(name) => bus = Some(name.clone()),
                LinkAttribute::ParentDevName(name) => device = Some(name.clone()),
                LinkAttribute::Address(bytes) if ethernet && !loopback => {
                    link.mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(Mac);
                }
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        match info {
                            LinkInfo::Kind(kind) => link.kind = kind.to_string(),
                            LinkInfo::PortKind(kind) => link.port_of = kind.to_string(),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        link.parent = bus.zip(device).filter(|(bus, device)| !bus.contains('/') && !device.contains('/'));
        (link.index != 0 && !link.name.is_empty()).then_some(link)
    }
}

/// Whether a device name is one that a Tickwire service gives to the ends of its lanes: `tw`,
/// digits, `h`, `b` or `p`.
#[must_use]
pub fn is_lane_device(name: &str) -> bool {
    let middle = name.strip_prefix("tw").and_then(|rest| rest.strip_suffix(['h', 'b', 'p']));
    middle.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

impl RouteNetlink {
    /// All links of the namespace.
    ///
    /// # Errors
    /// If the kernel refuses or its answer cannot be read.
    pub fn links(&mut self) -> Result<Vec<NetworkInterface>> {
        let what = "list links";
        let answers = self.netlink.dump(what, &RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        Ok(answers.iter().filter_map(of_message).collect())
    }

    /// The link of that name, or `None`.
    ///
    /// # Errors
    /// If the kernel refuses for another reason than that there is none.
    pub fn link_by_name(&mut self, name: &str) -> Result<Option<NetworkInterface>> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.one_link(message)
    }

    /// The link of that index, or `None`.
    ///
    /// # Errors
    /// If the kernel refuses for another reason than that there is none.
    pub fn link_by_index(&mut self, index: u32) -> Result<Option<NetworkInterface>> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.one_link(message)
    }

    fn one_link(&mut self, message: LinkMessage) -> Result<Option<NetworkInterface>> {
        match self.netlink.ask("look up a link", RouteNetlinkMessage::GetLink(message)) {
            Ok(answers) => Ok(answers.iter().find_map(of_message)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn of_message(message: &RouteNetlinkMessage) -> Option<NetworkInterface> {
    match message {
        RouteNetlinkMessage::NewLink(link) => NetworkInterface::parse(link),
        _ => None,
    }
}

/// The links that a datagram of events announces or withdraws (`true`: gone).
pub(crate) fn changed(message: &RouteNetlinkMessage) -> Option<(NetworkInterface, bool)> {
    match message {
        RouteNetlinkMessage::NewLink(link) => NetworkInterface::parse(link).map(|l| (l, false)),
        RouteNetlinkMessage::DelLink(link) => NetworkInterface::parse(link).map(|l| (l, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_devices_are_told_by_name() {
        assert!(["tw0h", "tw7b", "tw123p"].into_iter().all(is_lane_device));
        for name in ["tw", "twh", "tw1", "tw1x", "twoh", "eth0", "tw-1h", "two0h"] {
            assert!(!is_lane_device(name), "{name}");
        }
    }

    #[test]
    fn the_loopback_interface_is_found_and_is_not_physical() {
        let mut host = RouteNetlink::open().unwrap();
        let lo = host.link_by_name("lo").unwrap().expect("every namespace has lo");
        assert!(lo.loopback && lo.mac.is_none() && !lo.looks_physical());
        assert_eq!(host.link_by_index(lo.index).unwrap().as_ref(), Some(&lo));
        assert!(host.links().unwrap().iter().any(|l| l.name == "lo"));
        assert_eq!(host.link_by_name("no-such-link0").unwrap(), None);
        let port = |of: &str| NetworkInterface { port_of: of.into(), ..lo.clone() }.is_port();
        assert!(port("bridge") && port("bond") && !port("") && !port("vrf"));
    }
}
