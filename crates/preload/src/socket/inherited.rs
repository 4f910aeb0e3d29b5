//! The options that a connection inherits from its listener and that the kernel socket holds. On
//! Linux a connection begins as a copy of its listener, but the kernel socket behind an accepted
//! one is new.

use crate::sys;
use crate::table::desc::flag;
use core::ffi::c_int;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};
use tickwire_linux_abi::option;
use tickwire_stack::addr::{Address, Family};

/// All of them except those of [`flag_of`]. The stack's own options are inherited in the stack.
const ALL: &[(c_int, c_int)] = &[
    (SOL_SOCKET, libc::SO_RCVTIMEO),
    (SOL_SOCKET, libc::SO_SNDTIMEO),
    (SOL_SOCKET, libc::SO_BROADCAST),
    (SOL_SOCKET, libc::SO_TIMESTAMP),
    (SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (SOL_SOCKET, libc::SO_RXQ_OVFL),
    (SOL_SOCKET, libc::SO_BINDTODEVICE),
    (SOL_SOCKET, libc::SO_BUSY_POLL),
    (SOL_SOCKET, option::SO_PREFER_BUSY_POLL),
    (SOL_SOCKET, option::SO_BUSY_POLL_BUDGET),
    (SOL_SOCKET, libc::SO_NO_CHECK),
    (SOL_SOCKET, option::SO_SELECT_ERR_QUEUE),
    (SOL_SOCKET, option::SO_BUF_LOCK),
    (SOL_SOCKET, option::SO_TXREHASH),
    (SOL_SOCKET, libc::SO_DEBUG),
    (IPPROTO_IP, libc::IP_TTL),
    (IPPROTO_IP, libc::IP_TOS),
    (IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (IPPROTO_IP, libc::IP_PKTINFO),
    (IPPROTO_IP, libc::IP_RECVTTL),
    (IPPROTO_IP, libc::IP_RECVTOS),
    (IPPROTO_IP, libc::IP_UNICAST_IF),
    (IPPROTO_IP, libc::IP_MULTICAST_LOOP),
    (IPPROTO_IP, libc::IP_MULTICAST_ALL),
    (IPPROTO_IP, libc::IP_FREEBIND),
    (IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (IPPROTO_IP, option::IP_LOCAL_PORT_RANGE),
    (IPPROTO_IP, libc::IP_PASSSEC),
    (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (IPPROTO_IPV6, libc::IPV6_TCLASS),
    (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    (IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    (IPPROTO_IPV6, libc::IPV6_UNICAST_IF),
    (IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP),
    (IPPROTO_IPV6, option::IPV6_MULTICAST_ALL),
    (IPPROTO_IPV6, libc::IPV6_FREEBIND),
    (IPPROTO_IPV6, libc::IPV6_AUTOFLOWLABEL),
    (IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS),
    (IPPROTO_TCP, libc::TCP_FASTOPEN_NO_COOKIE),
];

/// Whether a listener that has set this option needs [`copy`]. The kernel records that a buffer's
/// size was set (`SO_BUF_LOCK`).
pub(super) fn concerns(level: c_int, name: c_int) -> bool {
    const OTHERS: [c_int; 5] =
        [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE, option::SO_BINDTOIFINDEX];
    ALL.contains(&(level, name)) || level == SOL_SOCKET && OTHERS.contains(&name)
}

/// The flag that holds an option of an accepted socket with these `flags`: nearly every listener
/// has set it, or the kernel has.
pub(super) fn flag_of(level: c_int, name: c_int, flags: u64) -> Option<u64> {
    let bit = match (level, name) {
        (SOL_SOCKET, libc::SO_REUSEADDR) => flag::REUSE_ADDRESS,
        (SOL_SOCKET, libc::SO_REUSEPORT) => flag::REUSE_PORT,
        (IPPROTO_IPV6, libc::IPV6_V6ONLY) if flags & flag::V6 != 0 => flag::V6ONLY,
        _ => return None,
    };
    Some(bit).filter(|_| flags & flag::ACCEPTED != 0)
}

/// The flags that a connection inherits from its listener, which has `flags` and is bound to
/// `address`.
pub(super) fn flags(flags: u64, address: Address) -> u64 {
    const SAME: u64 =
        flag::TIMESTAMP | flag::TIMESTAMPNS | flag::REUSE_ADDRESS | flag::REUSE_PORT | flag::V6ONLY | flag::INHERITED;
    // The kernel sets it where no other family can arrive (inet6_bind).
    let is_only = flags & flag::V6 != 0 && address.family() == Family::V6 && !address.is_unspecified();
    flags & SAME | if is_only { flag::V6ONLY } else { 0 }
}

/// Copies the options of `from`, the kernel socket of a listener, to the kernel socket `to`; `v6`:
/// they are of IPv6.
pub(super) fn copy(from: c_int, to: c_int, v6: bool) {
    for &(level, name) in ALL.iter().filter(|&&(level, _)| v6 || level != IPPROTO_IPV6) {
        let (mut theirs, mut own) = ([0; 16], [0; 16]);
        let Ok(len) = sys::option_bytes(from, level, name, &mut theirs) else { continue };
        if sys::option_bytes(to, level, name, &mut own) != Ok(len) || theirs != own {
            // The connection may have whatever its listener may have.
            let _ = sys::set_option_bytes(to, level, name, &theirs[..len]);
        }
    }
    // A connection does not inherit it (sk_clone), but setting IP_TOS sets it, too.
    let _ = sys::set_option(to, SOL_SOCKET, libc::SO_PRIORITY, &0_i32);
}
