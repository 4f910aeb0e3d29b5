//! The interface that a socket names for outgoing packets: `SO_BINDTODEVICE`, `IP_UNICAST_IF`,
//! `IP_MULTICAST_IF` and related options.
//!
//! The service is asked for the path by that interface. A socket that names an interface which is
//! not accelerated becomes a kernel socket, and `tickwire stat` shows the reason.

use crate::lane::Lane;
use crate::socket::kernel;
use crate::socket::multicast;
use crate::sys;
use crate::table::desc::{Via, flag};
use crate::wait::Same;
use core::ffi::c_int;
use tickwire_lane::control::{AttachMode, Reason, Reply, Request};
use tickwire_linux_abi::option::SO_BINDTOIFINDEX;
use tickwire_stack::addr::{Address, Family};

/// An interface that no path uses: the named one is unknown, so the kernel has to handle it.
const NO_INTERFACE: u32 = u32::MAX;

impl Via {
    /// The interface named for a destination.
    pub(crate) fn interface(&self, destination: Address) -> u32 {
        if destination.is_multicast() { self.groups } else { self.unicast }
    }

    /// The source address named for a destination, if the socket is bound to none.
    pub(crate) fn source(&self, destination: Address) -> Option<Address> {
        let named = self.source != 0 && destination.is_multicast() && destination.family() == Family::V4;
        named.then(|| Address::v4(self.source.to_ne_bytes()))
    }
}

/// The interface that an address names with its scope, which counts where the address alone does
/// not identify the link.
pub(crate) fn scope_of(address: Address, scope: u32) -> u32 {
    if address.is_link_local() || address.is_link_local_group() { scope } else { 0 }
}

/// The interface to which a socket is bound, 0 if to none.
pub(crate) fn bound_device(fd: c_int) -> u32 {
    sys::option(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX).map_or(0, |index| u32::try_from(index).unwrap_or(0))
}

/// Why a socket that is bound to an interface cannot have its port; `None` if it can, because the
/// service accelerates this interface and no other.
fn why_not_device(lane: &'static Lane, device: u32) -> Option<Reason> {
    let next = |after| {
        lane.ask(&Request::ListInterfaces { after }, None, |reply| match reply {
            Reply::Interface { info } => Ok((info.interface, info.mode)),
            _ => Err(Reason::BadRequest),
        })
    };
    let (mut after, mut others, mut found) = (0, false, false);
    while let Ok((interface, mode)) = next(after) {
        if mode != AttachMode::None {
            found |= interface == device;
            others |= interface != device;
        }
        // They are listed in order; a number out of order ends the list.
        if interface <= after {
            break;
        }
        after = interface;
    }
    match (found, others) {
        (true, false) => None,
        (true, true) => Some(Reason::OneOfSeveral),
        _ => Some(Reason::BoundDevice),
    }
}

fn word(value: &[u8], at: usize) -> Option<[u8; 4]> {
    value.get(at..at + 4)?.try_into().ok()
}

/// Reads `IP_MULTICAST_IF`: an address, a `struct ip_mreq` or a `struct ip_mreqn`. Returns the
/// interface's number and address.
fn multicast_interface(value: &[u8]) -> (u32, Address) {
    let (address, number) = match value.len() {
        12.. => (word(value, 4), word(value, 8)),
        8.. => (word(value, 4), None),
        _ => (word(value, 0), None),
    };
    (number.map_or(0, u32::from_ne_bytes), address.map_or(Address::ANY_V4, Address::v4))
}

/// After the kernel has taken the option: stores what it names. Returns whether it was one of
/// these.
pub(crate) fn set(lane: &'static Lane, fd: c_int, index: u32, level: c_int, name: c_int, value: &[u8]) -> bool {
    let number = || word(value, 0).unwrap_or_default();
    // Read only for the options that need it: every option passes here.
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
            // A claim for all interfaces would still receive from all. If this is the only one,
            // nothing changes.
            if let (Some(socket), true) = (claimed, device != 0 && !connection)
                && let Some(reason) = why_not_device(lane, device)
            {
                kernel::demote(lane, &socket, reason);
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
        // Another thread may have closed it since, and its description may be reused.
        Same::of(access, fd, index)?;
        access.descriptions().get(index).set_via(via);
        Ok(())
    });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_source_is_named_for_groups_of_ipv4_and_an_interface_for_each_kind() {
        let (group, host) = (Address::v4([239, 1, 1, 1]), Address::v4([10, 0, 0, 2]));
        let via = Via { unicast: 9, groups: 3, source: u32::from_ne_bytes([10, 0, 0, 1]) };
        assert_eq!((via.interface(group), via.interface(host)), (3, 9));
        assert_eq!((via.source(group), via.source(host)), (Some(Address::v4([10, 0, 0, 1])), None));
        assert_eq!(Via::default().source(group), None);
    }

    #[test]
    fn a_scope_counts_for_addresses_that_need_one() {
        let address = |first, second| {
            let mut octets = [0; 16];
            [octets[0], octets[1], octets[15]] = [first, second, 1];
            Address(octets)
        };
        for (first, second, counts) in [(0xfe, 0x80, 3), (0xff, 0x02, 3), (0xff, 0x05, 0), (0xfd, 0, 0)] {
            assert_eq!(scope_of(address(first, second), 3), counts, "{first:x}{second:02x}::1");
        }
    }
}
