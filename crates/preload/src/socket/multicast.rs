//! Multicast memberships: the kernel joins through the kernel socket; the lane is told, so that it gets the group's datagrams too.

use crate::base::errno::{Errno, Result};
use crate::base::locked::{Lock, Locked};
use crate::lane::Lane;
use crate::table::desc::flag;
use core::ffi::c_int;
use tickwire_link::control::{Claim, Membership, Reason, Reply, Request};
use tickwire_stack::UdpId;
use tickwire_stack::addr::{Address, Endpoint};

/// Memberships of sockets of this process, by description: to be told again when the port is claimed later than the group was joined.
static JOINED: Lock<Joined> = Lock::new(Vec::new());

/// Memberships, by description.
pub(crate) type Joined = Vec<(u32, Membership)>;

/// The memberships, locked; also held across fork.
pub(crate) fn joined() -> Locked<'static, Joined> {
    JOINED.lock()
}

/// Forgets everything, in a child before whose birth the list may have been locked for ever, which is told.
pub(crate) fn abandon() -> bool {
    JOINED.try_lock().map(|mut joined| joined.clear()).is_some()
}

/// What an option does to the memberships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Join(Membership),
    Leave(Membership),
    Block(Membership, bool),
}

fn v4(bytes: &[u8], at: usize) -> Option<Address> {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(Address::v4)
}

fn v6(bytes: &[u8], at: usize) -> Option<Address> {
    bytes.get(at..at + 16).and_then(|b| b.try_into().ok()).map(Address)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes)
}

/// The address in a `sockaddr_storage`.
fn storage(bytes: &[u8], at: usize) -> Option<Address> {
    match crate::c::name::Name::parse(bytes.get(at..at + 28)?) {
        crate::c::name::Name::Inet { endpoint: Endpoint { address, .. }, .. } => Some(address),
        _ => None,
    }
}

/// Reads the options of RFC 3678 and their older kin.
fn change(level: c_int, name: c_int, value: &[u8]) -> Option<Change> {
    let of = |group, source, interface| Membership { group, source, interface };
    let change = match (level, name) {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP) => {
            // `struct ip_mreqn` has an interface number behind `struct ip_mreq`.
            let membership = of(v4(value, 0)?, Address::ANY, number(value, 8).unwrap_or(0));
            if name == libc::IP_ADD_MEMBERSHIP { Change::Join(membership) } else { Change::Leave(membership) }
        }
        (
            libc::IPPROTO_IP,
            libc::IP_ADD_SOURCE_MEMBERSHIP
            | libc::IP_DROP_SOURCE_MEMBERSHIP
            | libc::IP_BLOCK_SOURCE
            | libc::IP_UNBLOCK_SOURCE,
        ) => {
            let membership = of(v4(value, 0)?, v4(value, 8)?, 0);
            match name {
                libc::IP_ADD_SOURCE_MEMBERSHIP => Change::Join(membership),
                libc::IP_DROP_SOURCE_MEMBERSHIP => Change::Leave(membership),
                _ => Change::Block(membership, name == libc::IP_BLOCK_SOURCE),
            }
        }
        (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP) => {
            Change::Join(of(v6(value, 0)?, Address::ANY, number(value, 16)?))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP) => {
            Change::Leave(of(v6(value, 0)?, Address::ANY, number(value, 16)?))
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP) => {
            let membership = of(storage(value, 8)?, Address::ANY, number(value, 0)?);
            if name == MCAST_JOIN_GROUP { Change::Join(membership) } else { Change::Leave(membership) }
        }
        (
            libc::IPPROTO_IP | libc::IPPROTO_IPV6,
            MCAST_BLOCK_SOURCE | MCAST_UNBLOCK_SOURCE | MCAST_JOIN_SOURCE_GROUP | MCAST_LEAVE_SOURCE_GROUP,
        ) => {
            let membership = of(storage(value, 8)?, storage(value, 136)?, number(value, 0)?);
            match name {
                MCAST_JOIN_SOURCE_GROUP => Change::Join(membership),
                MCAST_LEAVE_SOURCE_GROUP => Change::Leave(membership),
                _ => Change::Block(membership, name == MCAST_BLOCK_SOURCE),
            }
        }
        _ => return None,
    };
    Some(change)
}

const MCAST_JOIN_GROUP: c_int = 42;
const MCAST_BLOCK_SOURCE: c_int = 43;
const MCAST_UNBLOCK_SOURCE: c_int = 44;
const MCAST_LEAVE_GROUP: c_int = 45;
const MCAST_JOIN_SOURCE_GROUP: c_int = 46;
const MCAST_LEAVE_SOURCE_GROUP: c_int = 47;

/// The address by which the older IPv4 options name the interface; `None` if there is none, or the interface's number beside it.
fn interface_address(level: c_int, name: c_int, value: &[u8]) -> Option<Address> {
    let old = level == libc::IPPROTO_IP
        && matches!(
            name,
            libc::IP_ADD_MEMBERSHIP
                | libc::IP_DROP_MEMBERSHIP
                | libc::IP_ADD_SOURCE_MEMBERSHIP
                | libc::IP_DROP_SOURCE_MEMBERSHIP
        );
    v4(value, 4).filter(|address| old && !address.is_unspecified())
}

/// The interface that has an address. The kernel's own rule: a group is reached by the interface of the source address, without a route.
pub(crate) fn interface_with(lane: &'static Lane, group: Address, source: Address) -> u32 {
    let request = Request::Resolve { destination: group, source, interface: 0 };
    let told = lane.ask(&request, None, |reply| match reply {
        Reply::Path { path, .. } => Ok(path.interface),
        _ => Err(Reason::BadRequest),
    });
    told.unwrap_or(0)
}

/// Before the kernel does it: refuses a membership for which the lane has no room. The socket would have joined, and hear nothing.
pub(crate) fn check_room(lane: &'static Lane, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
    match change(level, name, value) {
        // As the kernel when its own limit is reached (`net.ipv4.igmp_max_memberships`).
        Some(Change::Join(_) | Change::Block(_, true)) => match lane.with(|access| Ok(access.stack.udp_may_join())) {
            Ok(false) => Err(Errno(libc::ENOBUFS)),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// After the kernel has done it: tells stack and service. Says whether the option was about memberships.
pub(crate) fn set(lane: &'static Lane, _fd: c_int, index: u32, level: c_int, name: c_int, value: &[u8]) -> bool {
    let Some(mut change) = change(level, name, value) else { return false };
    if let Change::Join(m) | Change::Leave(m) = &mut change
        && m.interface == 0
        && let Some(address) = interface_address(level, name, value)
    {
        m.interface = interface_with(lane, m.group, address);
    }
    let source = |m: &Membership| Some(m.source).filter(|s| !s.is_unspecified());
    let _ = lane.with(|access| {
        let id: UdpId = access.descriptions().get(index).socket().try_into()?;
        match change {
            Change::Join(m) => access.stack.udp_join(id, m.group, source(&m))?,
            Change::Leave(m) => access.stack.udp_leave(id, m.group, source(&m))?,
            Change::Block(m, block) => access.stack.udp_block_source(id, m.group, m.source, block)?,
        }
        Ok(())
    });
    let claim = claim_of(lane, index);
    match change {
        Change::Join(membership) => {
            joined().push((index, membership));
            if claim != 0 {
                let _ = lane.ask(&Request::Join { claim: Claim(claim), membership }, None, |_| Ok(()));
            }
        }
        Change::Leave(membership) => {
            joined().retain(|(i, m)| *i != index || *m != membership);
            if claim != 0 {
                let _ = lane.ask(&Request::Leave { claim: Claim(claim), membership }, None, |_| Ok(()));
            }
        }
        Change::Block(..) => {}
    }
    true
}

/// The interface on which a socket of this process has joined a group, 0 if it is not known.
pub(crate) fn interface_of(index: u32, group: Address) -> u32 {
    joined().iter().find(|(i, m)| *i == index && m.group == group).map_or(0, |(_, m)| m.interface)
}

fn claim_of(lane: &'static Lane, index: u32) -> u64 {
    let claim = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        Ok(if description.has(flag::CLAIMED) { *description.claim() } else { 0 })
    });
    claim.unwrap_or(0)
}

/// The port of a socket has been claimed: what it joined before is told.
pub(crate) fn claimed(lane: &'static Lane, index: u32, claim: u64) {
    let memberships: Vec<Membership> = joined().iter().filter(|(i, _)| *i == index).map(|(_, m)| *m).collect();
    for membership in memberships {
        let _ = lane.ask(&Request::Join { claim: Claim(claim), membership }, None, |_| Ok(()));
    }
}

/// A socket of this process has closed.
pub(crate) fn closed(index: u32) {
    joined().retain(|(i, _)| *i != index);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships_of_all_forms_are_read() {
        let group = Address::v4([239, 1, 2, 3]);
        let mreq = [239, 1, 2, 3, 10, 0, 0, 1];
        let want = Membership { group, source: Address::ANY, interface: 0 };
        assert_eq!(change(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &mreq), Some(Change::Join(want)));
        let mreqn = [&mreq[..], &7u32.to_ne_bytes()].concat();
        let want = Membership { interface: 7, ..want };
        assert_eq!(change(libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, &mreqn), Some(Change::Leave(want)));
        let source = [239, 1, 2, 3, 0, 0, 0, 0, 10, 0, 0, 9];
        let want = Membership { group, source: Address::v4([10, 0, 0, 9]), interface: 0 };
        assert_eq!(change(libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, &source), Some(Change::Join(want)));
        assert_eq!(change(libc::IPPROTO_IP, libc::IP_BLOCK_SOURCE, &source), Some(Change::Block(want, true)));
        assert_eq!(change(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &[1, 2]), None);
        assert_eq!(change(libc::IPPROTO_IP, libc::IP_TTL, &mreq), None);
    }
    #[test]
    fn the_older_options_name_the_interface_by_its_address() {
        let mreq = [239, 1, 2, 3, 10, 0, 0, 1];
        let named = interface_address(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &mreq);
        assert_eq!(named, Some(Address::v4([10, 0, 0, 1])));
        assert_eq!(interface_address(libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, &[239, 1, 2, 3, 0, 0, 0, 0]), None);
        assert_eq!(interface_address(libc::IPPROTO_IP, libc::IP_TTL, &mreq), None);
    }
}
