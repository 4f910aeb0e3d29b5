//! The options by which a socket joins and leaves multicast groups, and filters their sources (RFC
//! 3678, and the older ones of IPv4); and a socket's source filter as the kernel reports it
//! (`MCAST_MSFILTER`, RFC 3678 section 5.2).

use crate::sockaddr::{self, STORAGE, SocketName};
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::c_int;
use libc::{IPPROTO_IP, IPPROTO_IPV6};
use tickwire_stack::addr::{Address, Endpoint, Family};

/// As many sources as the kernel allows in one filter by default, of either family.
pub const MOST_SOURCES: usize = 64;

// Offsets in `struct group_filter`. In `struct group_req` and `struct group_source_req` the group
// is at the same place.
const INTERFACE: usize = 0;
const GROUP: usize = 8;
const MODE: usize = GROUP + STORAGE;
const COUNT: usize = MODE + 4;
const SOURCES: usize = COUNT + 4;

/// `MCAST_EXCLUDE`, as `fmode` holds it.
const MODE_EXCLUDE: u32 = libc::MCAST_EXCLUDE as u32;

/// How an option's value names the group.
enum Form {
    /// A `struct in_addr`, which comes first.
    V4,
    /// A `struct in6_addr`, which comes first.
    V6,
    /// A socket address, after the interface's number.
    SocketAddress,
}

/// How an option names the group; `None` if it is not about memberships.
fn form(level: c_int, name: c_int) -> Option<Form> {
    Some(match (level, name) {
        (
            IPPROTO_IP,
            libc::IP_ADD_MEMBERSHIP
            | libc::IP_DROP_MEMBERSHIP
            | libc::IP_ADD_SOURCE_MEMBERSHIP
            | libc::IP_DROP_SOURCE_MEMBERSHIP
            | libc::IP_BLOCK_SOURCE
            | libc::IP_UNBLOCK_SOURCE
            | libc::IP_MSFILTER,
        ) => Form::V4,
        (IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP) => Form::V6,
        (
            IPPROTO_IP | IPPROTO_IPV6,
            libc::MCAST_JOIN_GROUP
            | libc::MCAST_LEAVE_GROUP
            | libc::MCAST_JOIN_SOURCE_GROUP
            | libc::MCAST_LEAVE_SOURCE_GROUP
            | libc::MCAST_BLOCK_SOURCE
            | libc::MCAST_UNBLOCK_SOURCE
            | libc::MCAST_MSFILTER,
        ) => Form::SocketAddress,
        _ => return None,
    })
}

/// Whether an option is about memberships.
#[must_use]
pub fn concerns(level: c_int, name: c_int) -> bool {
    form(level, name).is_some()
}

/// The group that an option is about, and whether the socket can be a member afterwards; `None` if
/// it is not about memberships.
#[must_use]
pub fn group(level: c_int, name: c_int, value: &[u8]) -> Option<(Address, bool)> {
    let group = match form(level, name)? {
        Form::V4 => Address::v4(*value.first_chunk()?),
        Form::V6 => Address(*value.first_chunk()?),
        Form::SocketAddress => address(value.get(GROUP..)?)?,
    };
    let left = match level {
        IPPROTO_IP => matches!(name, libc::IP_DROP_MEMBERSHIP | libc::MCAST_LEAVE_GROUP),
        _ => matches!(name, libc::IPV6_DROP_MEMBERSHIP | libc::MCAST_LEAVE_GROUP),
    };
    Some((group, !left))
}

/// A socket's filter for a group on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFilter {
    /// All datagrams but those from these sources; otherwise only those.
    pub exclude: bool,
    /// The sources.
    pub sources: Vec<Address>,
}

/// The level of `MCAST_MSFILTER` for a group.
#[must_use]
pub fn level(group: Address) -> c_int {
    match group.family() {
        Family::V4 => IPPROTO_IP,
        Family::V6 => IPPROTO_IPV6,
    }
}

/// The buffer of a query to the kernel, which answers in the same buffer, with room for so many
/// sources. Not on the stack, of which a program may have little.
#[must_use]
pub fn filter_query(group: Address, interface: u32, room: usize) -> Vec<u8> {
    let mut value = vec![0; SOURCES + room * STORAGE];
    value[INTERFACE..][..4].copy_from_slice(&interface.to_ne_bytes());
    put_address(&mut value[GROUP..], group);
    value[COUNT..][..4].copy_from_slice(&(room as u32).to_ne_bytes());
    value
}

/// The kernel's answer; `None` if it names more sources than there is room for.
#[must_use]
pub fn filter_answer(value: &[u8]) -> Option<SourceFilter> {
    let number = |at: usize| value.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let exclude = number(MODE)? == MODE_EXCLUDE;
    let count = usize::try_from(number(COUNT)?).ok().filter(|&count| count <= MOST_SOURCES)?;
    let source = |n: usize| address(value.get(SOURCES + n * STORAGE..)?);
    let sources = (0..count).map(source).collect::<Option<_>>()?;
    Some(SourceFilter { exclude, sources })
}

/// Writes an address as a socket address without a port.
fn put_address(place: &mut [u8], address: Address) {
    let (bytes, len) = sockaddr::emit(Endpoint::new(address, 0), address.family() == Family::V6, 0);
    place[..len].copy_from_slice(&bytes[..len]);
}

fn address(place: &[u8]) -> Option<Address> {
    match SocketName::parse(place) {
        SocketName::Inet { endpoint, .. } => Some(endpoint.address),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP_V4: Address = Address::v4([239, 1, 2, 3]);
    const GROUP_V6: Address = Address([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    #[test]
    fn the_group_of_all_forms_is_read() {
        let mreq = [239, 1, 2, 3, 10, 0, 0, 1];
        for (name, may_be_member) in [
            (35, true),  // IP_ADD_MEMBERSHIP
            (36, false), // IP_DROP_MEMBERSHIP
            (37, true),  // IP_UNBLOCK_SOURCE
            (38, true),  // IP_BLOCK_SOURCE
            (39, true),  // IP_ADD_SOURCE_MEMBERSHIP
            (40, true),  // IP_DROP_SOURCE_MEMBERSHIP: others may be left
            (41, true),  // IP_MSFILTER
        ] {
            assert_eq!(group(0, name, &mreq), Some((GROUP_V4, may_be_member)), "{name}");
            assert_eq!(group(0, name, &mreq[..3]), None, "{name}, too short");
            assert!(!concerns(41, name) && !concerns(6, name), "{name} of another level");
        }
        let mreq = [[0xff_u8; 16].as_slice(), &7_u32.to_ne_bytes()].concat();
        for (name, may_be_member) in [(20, true), (21, false)] {
            assert_eq!(group(41, name, &mreq), Some((Address([0xff; 16]), may_be_member)), "{name}");
            assert_eq!(group(41, name, &mreq[..15]), None, "{name}, too short");
        }
        for name in 42..=48 {
            for (level, of) in [(0, GROUP_V4), (41, GROUP_V6)] {
                // All but MCAST_LEAVE_GROUP.
                let expected = Some((of, name != 45));
                assert_eq!(group(level, name, &filter_query(of, 7, 1)), expected, "{level} {name}");
            }
        }
    }

    #[test]
    fn other_options_are_not_about_groups() {
        for (level, name) in [(0, 2), (0, 32), (0, 33), (0, 49), (41, 16), (41, 17), (41, 29), (1, 35), (6, 20)] {
            assert_eq!((concerns(level, name), group(level, name, &[0; 264])), (false, None), "{level} {name}");
        }
    }

    #[test]
    fn the_query_has_the_layout_of_linux() {
        let query = filter_query(GROUP_V4, 7, 2);
        assert_eq!((query.len(), level(GROUP_V4)), (144 + 2 * 128, 0));
        assert_eq!((&query[..4], &query[8..16]), ([7, 0, 0, 0].as_slice(), [2, 0, 0, 0, 239, 1, 2, 3].as_slice()));
        assert_eq!(query[136..144], [0, 0, 0, 0, 2, 0, 0, 0]);
        let query = filter_query(GROUP_V6, 7, 0);
        assert_eq!((query.len(), level(GROUP_V6)), (144, 41));
        assert_eq!((&query[8..16], &query[16..32]), ([10, 0, 0, 0, 0, 0, 0, 0].as_slice(), GROUP_V6.0.as_slice()));
    }

    #[test]
    fn what_the_kernel_answers_is_read() {
        let source = Address::v4([10, 0, 0, 9]);
        let mut value = filter_query(GROUP_V4, 7, MOST_SOURCES);
        let all_but = |sources| Some(SourceFilter { exclude: true, sources });
        value[COUNT..][..4].copy_from_slice(&1_u32.to_ne_bytes());
        put_address(&mut value[SOURCES..], source);
        assert_eq!(filter_answer(&value), all_but(vec![source]), "MCAST_EXCLUDE is 0");
        value[MODE] = 1;
        assert_eq!(filter_answer(&value), Some(SourceFilter { exclude: false, sources: vec![source] }));
        for len in 0..SOURCES + 16 {
            assert_eq!(filter_answer(&value[..len]), None, "{len}");
        }
        value[SOURCES] = 1;
        assert_eq!(filter_answer(&value), None, "a source of another family");
        value[COUNT..][..4].copy_from_slice(&65_u32.to_ne_bytes());
        assert_eq!(filter_answer(&value), None, "more than there is room for");
        value[COUNT..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(filter_answer(&value), None);
    }
}
