//! The interface that a socket names for what it sends: `SO_BINDTODEVICE`, `IP_UNICAST_IF`, `IP_MULTICAST_IF` and their kin.
//!
//! A lane knows one way to each destination, the route's own. A socket that names the interface of that way uses it; one that names
//! another is the kernel's, and `tickwire stat` says why.

use crate::c::sys;
use crate::lane::{Access, Lane};
use crate::socket::kernel;
use crate::socket::multicast;
use crate::table::desc::{Via, flag};
use crate::wait::Same;
use core::ffi::c_int;
use tickwire_link::control::Reason;
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::path::{Path, PathState};

/// An interface that no path leaves by: what is named is not known, so the kernel has to see to it.
const NO_INTERFACE: u32 = u32::MAX;
/// As `linux/in6.h` has it; the C library does not.
pub(crate) const SO_BINDTOIFINDEX: c_int = 62;

impl Via {
    /// The interface named for a destination.
    pub(crate) fn interface(&self, destination: Address) -> u32 {
        if destination.is_multicast() { self.groups } else { self.unicast }
    }

    /// Whether a path goes the way that was named.
    fn agrees(&self, path: &Path, local: Address) -> bool {
        let destination = path.info.destination;
        let interface = self.interface(destination);
        let source = Address::v4(self.source.to_ne_bytes());
        let other_source = self.source != 0
            && destination.is_multicast()
            && destination.family() == Family::V4
            && local.is_unspecified()
            && path.info.source != source;
        (interface == 0 || path.info.interface == interface) && !other_source
    }
}

/// What the socket's named interface means for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is named, or the known path goes there.
    Fits,
    /// The path is to be asked for.
    Unknown,
    /// The lane's path goes elsewhere.
    Elsewhere,
}

/// Compares what a socket names with the path that the lane knows.
pub(crate) fn verdict(access: &mut Access<'_>, index: u32, peer: &Endpoint, local: Address) -> Verdict {
    let via = access.descriptions().get(index).via();
    if via.interface(peer.address) == 0 {
        return Verdict::Fits;
    }
    match known(access, peer) {
        Some(path) if via.agrees(path, local) => Verdict::Fits,
        Some(_) => Verdict::Elsewhere,
        None => Verdict::Unknown,
    }
}

/// The interface by which the lane's path to a peer leaves; `None` if the path is to be asked for.
pub(crate) fn leaves_by(access: &Access<'_>, peer: &Endpoint) -> Option<u32> {
    known(access, peer).map(|path| path.info.interface)
}

/// The lane's path to a peer, if the host has spoken and it can be used.
fn known<'a>(access: &'a Access<'_>, peer: &Endpoint) -> Option<&'a Path> {
    let usable = |path: &&Path| matches!(path.info.state, PathState::Ready | PathState::Resolving);
    access.stack.path_get(&peer.address).filter(|path| path.inferred == 0).filter(usable)
}

/// The interface to which a socket is bound, 0 if to none.
pub(crate) fn bound_device(fd: c_int) -> u32 {
    sys::option(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX).map_or(0, |index| u32::try_from(index).unwrap_or(0))
}

fn word(value: &[u8], at: usize) -> Option<[u8; 4]> {
    value.get(at..at + 4)?.try_into().ok()
}

/// Reads `IP_MULTICAST_IF`: an address, a `struct ip_mreq` or a `struct ip_mreqn`; the interface's number and address.
fn multicast_interface(value: &[u8]) -> (u32, Address) {
    let (address, number) = match value.len() {
        12.. => (word(value, 4), word(value, 8)),
        8.. => (word(value, 4), None),
        _ => (word(value, 0), None),
    };
    (number.map_or(0, u32::from_ne_bytes), address.map_or(Address::ANY_V4, Address::v4))
}

/// After the kernel has taken the option: remembers what it names. Says whether it was one of these.
pub(crate) fn set(lane: &'static Lane, fd: c_int, index: u32, level: c_int, name: c_int, value: &[u8]) -> bool {
    let number = || word(value, 0).unwrap_or_default();
    // Asked only for the options that need it: every option comes by here.
    let description = || {
        let known = lane.with(|access| {
            let socket = Same::of(access, fd, index)?;
            let mut descriptions = access.descriptions();
            let description = descriptions.get(index);
            Ok((description.via(), description.flags(), Some(socket)))
        });
        known.unwrap_or_default()
    };
    let known = || description().0;
    let named = |interface: u32| match bound_device(fd) {
        0 => interface,
        device => device,
    };
    let via = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX) => {
            let (device, (_, flags, socket)) = (bound_device(fd), description());
            let connection = flags & (flag::TCP | flag::LISTENING) == flag::TCP;
            let claimed = socket.filter(|_| flags & flag::CLAIMED != 0);
            if let (Some(socket), true) = (claimed, device != 0 && !connection) {
                // What was claimed for all interfaces would go on coming from all.
                kernel::demote(lane, &socket, Reason::BoundDevice);
                return true;
            }
            Via { unicast: device, groups: device, source: 0 }
        }
        // In network order, both of them.
        (libc::IPPROTO_IP, libc::IP_UNICAST_IF) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF) => {
            Via { unicast: named(u32::from_be_bytes(number())), ..known() }
        }
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => Via { groups: named(u32::from_ne_bytes(number())), ..known() },
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF) => {
            let (interface, address) = multicast_interface(value);
            let found = match (interface, address.is_unspecified()) {
                (0, true) => 0,
                (0, false) => match multicast::interface_with(lane, Address::v4([224, 0, 0, 1]), address) {
                    0 => NO_INTERFACE,
                    found => found,
                },
                (interface, _) => interface,
            };
            let source = address.to_v4().map_or(0, u32::from_ne_bytes);
            Via { groups: named(found), source, ..known() }
        }
        _ => return false,
    };
    let _ = lane.with(|access| {
        // Another thread may have closed it since, and its description be another's.
        Same::of(access, fd, index)?;
        access.descriptions().get(index).set_via(via);
        Ok(())
    });
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::path::PathInfo;

    #[test]
    fn all_forms_of_the_multicast_interface_are_read() {
        let address = Address::v4([10, 0, 0, 1]);
        let mreqn = [0, 0, 0, 0, 10, 0, 0, 1, 7, 0, 0, 0];
        assert_eq!(multicast_interface(&mreqn), (7, address));
        assert_eq!(multicast_interface(&mreqn[..8]), (0, address));
        assert_eq!(multicast_interface(&mreqn[4..8]), (0, address));
        assert_eq!(multicast_interface(&[1]), (0, Address::ANY_V4));
    }

    #[test]
    fn a_path_by_another_interface_or_address_is_not_what_was_named() {
        let group = Address::v4([239, 1, 1, 1]);
        let source = Address::v4([10, 0, 0, 1]);
        let path = Path {
            info: PathInfo { destination: group, source, interface: 3, ..PathInfo::default() },
            ..Path::default()
        };
        let via = |groups, source| Via { unicast: 9, groups, source };
        let named = u32::from_ne_bytes([10, 0, 0, 1]);
        assert!(via(0, 0).agrees(&path, Address::ANY_V4) && via(3, named).agrees(&path, Address::ANY_V4));
        assert!(!via(4, 0).agrees(&path, Address::ANY_V4));
        assert!(!via(3, named + 1).agrees(&path, Address::ANY_V4));
        assert!(via(3, named + 1).agrees(&path, source), "a bound socket has its own source");
    }
}
