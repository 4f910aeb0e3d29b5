//! Multicast memberships. They belong to the kernel socket behind a descriptor: an option about
//! them goes there first. Then the service reads the resulting membership from there (on which
//! interfaces), and so does this module (from which sources). The lane takes what the socket has
//! joined on accelerated interfaces. The kernel delivers everything else: other interfaces, groups
//! that only other sockets have joined (`IP_MULTICAST_ALL`), and what the lane has no room for.

use crate::base::locked::{Lock, Locked};
use crate::lane::Lane;
use crate::sys;
use crate::sys::errno::Result;
use crate::table::desc::flag;
use core::ffi::c_int;
use tickwire_lane::control::{Claim, Interfaces, Reason, Reply, Request};
use tickwire_linux_abi::membership::{self, MOST_SOURCES, SourceFilter};
use tickwire_stack::UdpId;
use tickwire_stack::addr::Address;
use tickwire_stack::path::Query;
use tickwire_stack::udp::GroupFilter;

/// Groups that sockets of this process have joined, by description: to be sent to the service when
/// the port is claimed later than the group was joined.
static JOINED: Lock<Joined> = Lock::new(Vec::new());

/// Groups, by description.
pub(crate) type Joined = Vec<(u32, Address)>;

/// The groups, locked; also held across fork.
pub(crate) fn joined() -> Locked<'static, Joined> {
    JOINED.lock()
}

/// Forgets everything in a child. The list may have been locked when the child was forked, and then
/// stays so: returns false.
pub(crate) fn abandon() -> bool {
    JOINED.try_lock().map(|mut joined| joined.clear()).is_some()
}

/// The interface that has an address. The kernel's own rule: a group is reached by the interface of
/// the source address, without a route.
pub(crate) fn interface_with(lane: &'static Lane, group: Address, source: Address) -> u32 {
    let request = Request::Resolve { query: Query::to(group).from(source), choose: false };
    let told = lane.ask(&request, None, |reply| match reply {
        Reply::Path { path, .. } => Ok(path.interface),
        _ => Err(Reason::BadRequest),
    });
    told.unwrap_or(0)
}

/// After the kernel has taken an option: updates the lane. Returns whether the option was about
/// memberships.
pub(crate) fn set(lane: &'static Lane, fd: c_int, index: u32, level: c_int, name: c_int, value: &[u8]) -> bool {
    let Some((group, may_be_member)) = membership::group(level, name, value) else { return false };
    let claim = claim_of(lane, index);
    let mut list = joined();
    let known = list.contains(&(index, group));
    if may_be_member && !known {
        list.push((index, group));
    } else if !may_be_member && claim == 0 {
        list.retain(|known| *known != (index, group));
    }
    drop(list);
    if claim != 0 {
        follow(lane, fd, index, claim, group, may_be_member);
    }
    true
}

/// Makes the lane's membership of a group match the kernel socket. `joins`: there should be one.
fn follow(lane: &'static Lane, fd: c_int, index: u32, claim: u64, group: Address, joins: bool) {
    let none = Interfaces::new(&[]);
    let joined_at = lane.ask(&Request::Join { claim: Claim(claim), group }, None, |reply| match reply {
        Reply::Joined { interfaces } => Ok(*interfaces),
        _ => Err(Reason::BadRequest),
    });
    let (interfaces, mut reason) = match joined_at {
        Ok(interfaces) if interfaces.as_slice().is_empty() => (none, Reason::Interface),
        Ok(interfaces) => (interfaces, Reason::None),
        Err(reason) => (none, reason),
    };
    if let Err(why) = take_filters(lane, fd, index, group, interfaces.as_slice()) {
        let _ = lane.ask(&Request::Leave { claim: Claim(claim), group }, None, |_| Ok(()));
        let _ = take_filters(lane, fd, index, group, &[]);
        reason = why;
    }
    if interfaces.as_slice().is_empty() && !joins {
        joined().retain(|known| *known != (index, group));
    }
    if joins && reason != Reason::None {
        let _ = lane.with(|access| {
            let id: UdpId = access.descriptions().get(index).socket().try_into()?;
            access.stack.socket_row(id.into())?.reason.set(reason.code().into());
            Ok(())
        });
    }
}

/// Gives the stack the filters of a kernel socket for a group, on these interfaces and no others.
fn take_filters(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    group: Address,
    interfaces: &[u32],
) -> core::result::Result<(), Reason> {
    let mut filters: Vec<(u32, SourceFilter)> = Vec::with_capacity(interfaces.len());
    for &interface in interfaces {
        filters.push((interface, filter_of(fd, group, interface).ok_or(Reason::Group)?));
    }
    let taken: Result<()> = lane.with(|access| {
        let id: UdpId = access.descriptions().get(index).socket().try_into()?;
        access.stack.udp_set_filter(id, &GroupFilter::none(group))?;
        for (interface, SourceFilter { exclude, sources }) in &filters {
            let (interface, exclude) = (*interface, *exclude);
            access.stack.udp_set_filter(id, &GroupFilter { group, interface, exclude, sources })?;
        }
        Ok(())
    });
    taken.map_err(|_| Reason::LaneFull)
}

/// The source filter of a kernel socket for a group on an interface; `None` if it is too large for
/// the lane.
fn filter_of(fd: c_int, group: Address, interface: u32) -> Option<SourceFilter> {
    let mut value = membership::filter_query(group, interface, MOST_SOURCES);
    match sys::option_bytes(fd, membership::level(group), libc::MCAST_MSFILTER, &mut value) {
        Ok(_) => membership::filter_answer(&value),
        // Another thread has left the group since.
        Err(_) => Some(SourceFilter { exclude: false, sources: Vec::new() }),
    }
}

fn claim_of(lane: &'static Lane, index: u32) -> u64 {
    let claim = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        Ok(if description.has(flag::CLAIMED) { *description.claim() } else { 0 })
    });
    claim.unwrap_or(0)
}

/// The port of a socket has been claimed: its earlier memberships are sent to the service.
pub(crate) fn claimed(lane: &'static Lane, fd: c_int, index: u32, claim: u64) {
    let groups: Vec<Address> = joined().iter().filter(|(i, _)| *i == index).map(|(_, group)| *group).collect();
    for group in groups {
        follow(lane, fd, index, claim, group, true);
    }
}

/// A socket of this process has closed.
pub(crate) fn closed(index: u32) {
    joined().retain(|(i, _)| *i != index);
}
