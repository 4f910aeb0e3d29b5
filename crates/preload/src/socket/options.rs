//! Socket options. The kernel socket takes all options that a socket on the lane may have, and
//! returns the errors of wrong ones. Options that concern the stack are set there as well, and read
//! from there. [`option_policy`] has the table of both.

use crate::base::locked::Lock;
use crate::lane::{self, Access, Lane};
use crate::socket::inherited;
use crate::socket::kernel;
use crate::socket::leaving;
use crate::socket::multicast;
use crate::socket::ops;
use crate::socket::option_policy::{self, OptionPolicy};
use crate::socket::tcp::{self, Stage};
use crate::sys;
use crate::sys::errno::{ANEW, Errno, Result};
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE};
use crate::wait::Same;
use core::ffi::c_int;
use tickwire_lane::control::Reason;
use tickwire_linux_abi::option;
use tickwire_linux_abi::sockaddr;
use tickwire_stack::addr::Family;
use tickwire_stack::tcp::{Algorithm, TcpOptions, TcpSetting};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::udp::UdpOptions;
use tickwire_stack::{TcpId, UdpId};

/// `setsockopt`; `kernel` is the kernel's own call.
pub(crate) fn program_sets(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: &[u8],
    kernel: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let entry = TABLE.open(fd)?;
    let (Some(lane), Some(index)) = (lane::current(), entry.description()) else { return kernel() };
    match option_policy::of(matches!(entry, Entry::Tcp(_)), level, name) {
        OptionPolicy::Refused(error) => return Err(Errno(error)),
        OptionPolicy::Kernel(reason) if !option_policy::is_neutral(level, name, value) => {
            let socket = match lane.with(|access| Ok((Same::of(access, fd, index)?, has_traffic(access, index)?))) {
                Ok((socket, false)) => socket,
                Ok((_, true)) => return Err(too_late(level, name, value)),
                Err(ANEW) => return program_sets(fd, level, name, value, kernel),
                // Another process has turned it into a kernel socket.
                Err(_) => return kernel(),
            };
            if option_policy::is_filter(level, name) {
                kernel::give_to_kernel(lane, &socket, reason);
                return kernel();
            }
            kernel()?;
            kernel::give_to_kernel(lane, &socket, reason);
            return Ok(());
        }
        _ => {}
    }
    kernel()?;
    set(fd, level, name, value);
    Ok(())
}

/// The error of an option that came too late. A congestion control or upper layer protocol that the
/// kernel lacks, or denies to this program, is refused with the kernel's error.
fn too_late(level: c_int, name: c_int, value: &[u8]) -> Errno {
    let refused = match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => sys::refused_by_kernel(level, name, value),
        // The kernel would accept on this connection an option that needs a connection there.
        (libc::IPPROTO_TCP, libc::TCP_ULP) => {
            sys::refused_by_kernel(level, name, value).filter(|&error| error != Errno(libc::ENOTCONN))
        }
        _ => None,
    };
    refused.unwrap_or(Errno(option_policy::TOO_LATE))
}

/// Whether a socket has had traffic over the lane, so that the kernel socket cannot replace it.
fn has_traffic(access: &mut Access<'_>, index: u32) -> Result<bool> {
    let (stage, flags) = tcp::stage(access, index)?;
    Ok(matches!(stage, Stage::Connection(_)) || flags & flag::TRAFFIC != 0)
}

/// `setsockopt` after the kernel's own has succeeded.
pub(crate) fn set(fd: c_int, level: c_int, name: c_int, value: &[u8]) {
    let (Some(lane), entry) = (lane::current(), TABLE.get(fd)) else { return };
    let Some(index) = entry.description() else { return };
    if matches!(entry, Entry::Tcp(_)) && inherited::concerns(level, name) {
        let _ = lane.with(|access| {
            access.descriptions().get(index).set(flag::INHERITED, true);
            Ok(())
        });
    }
    if crate::socket::egress_interface::set(lane, fd, index, level, name, value) {
        return;
    }
    let Some(number) = option::number(value) else { return };
    let number = match (level, name) {
        // The size that the kernel granted: half of it is for overhead.
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => granted(fd, libc::SO_SNDBUF).unwrap_or(number),
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => granted(fd, libc::SO_RCVBUF).unwrap_or(number),
        _ => number,
    };
    let common = lane.with(|access| Ok(set_common(access, index, level, name, number, value)));
    if common != Ok(false) {
        return;
    }
    match entry {
        Entry::Udp(index) if !multicast::set(lane, fd, index, level, name, value) => {
            let _ = lane.with(|access| set_udp(access, index, level, name, number));
        }
        Entry::Tcp(index) => set_tcp(lane, fd, index, level, name, number),
        _ => {}
    }
}

/// The size of a buffer that the kernel has granted, as a program would request it.
fn granted(fd: c_int, name: c_int) -> Option<c_int> {
    sys::option(fd, libc::SOL_SOCKET, name).ok().map(|size| size / 2)
}

/// Options that both kinds of sockets have and that the library implements. Returns whether it was
/// one.
fn set_common(access: &mut Access<'_>, index: u32, level: c_int, name: c_int, number: c_int, value: &[u8]) -> bool {
    let on = number != 0;
    let mut descriptions = access.descriptions();
    let mut description = descriptions.get(index);
    let bit = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => {
            if let Some(timeout) = option::timeval(value) {
                description.set_timeout(name == libc::SO_RCVTIMEO, timeout);
            }
            return true;
        }
        (libc::SOL_SOCKET, libc::SO_TIMESTAMP) => {
            description.set(flag::TIMESTAMPNS, false);
            flag::TIMESTAMP
        }
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
            description.set(flag::TIMESTAMP, false);
            flag::TIMESTAMPNS
        }
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) if description.has(flag::TCP) => flag::REUSE_ADDRESS,
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) if description.has(flag::TCP) => flag::REUSE_PORT,
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => flag::PKTINFO,
        (libc::IPPROTO_IP, libc::IP_RECVTTL) => flag::RECVTTL,
        (libc::IPPROTO_IP, libc::IP_RECVTOS) => flag::RECVTOS,
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => flag::PKTINFO6,
        (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => flag::HOPLIMIT,
        (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => flag::TCLASS,
        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => flag::RXQ_OVFL,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => flag::V6ONLY,
        (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP) => {
            description.set(flag::LOOP_OFF, !on);
            return true;
        }
        (libc::IPPROTO_IP, option::IP_LOCAL_PORT_RANGE) => flag::PORT_RANGE,
        (libc::IPPROTO_UDP, libc::UDP_CORK) => {
            // The data held in the kernel has been sent, too.
            description.set(flag::MORE, false);
            flag::CORK
        }
        _ => return false,
    };
    description.set(bit, on);
    true
}

/// Sets one option of UDP; an unknown one is only the kernel's.
fn set_udp(access: &mut Access<'_>, index: u32, level: c_int, name: c_int, number: c_int) -> Result<()> {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    let id: UdpId = description.socket().try_into()?;
    let mut options: UdpOptions = access.stack.udp_options(id)?;
    if option::udp::set(&mut options, level, name, number) {
        access.stack.udp_set_options(id, options)?;
    }
    Ok(())
}

/// Before a connection's packets get another type of service, on which routes may depend: returns
/// whether they still belong to the lane then. If not, the connection is handed over to the kernel,
/// and the option is set there. If that is not possible, its packets keep their path.
fn may_have_service(lane: &'static Lane, fd: c_int, index: u32, level: c_int, name: c_int, tos: u8) -> bool {
    let connection = lane.with(|access| match tcp::stage(access, index)?.0 {
        Stage::Connection(id) => {
            let query = access.stack.tcp_query(id)?;
            Ok((query.of_service(tos) != query).then_some((Same::of(access, fd, index)?, query.of_service(tos))))
        }
        _ => Ok(None),
    });
    let Ok(Some((socket, query))) = connection else { return true };
    match lane.reach(&query) {
        Ok(_) | Err(Reason::ServiceError | Reason::LaneGone | Reason::RateLimit) => true,
        Err(reason) => {
            if leaving::to_kernel(lane, &socket, reason).is_ok() {
                let _ = sys::set_option(fd, level, name, &c_int::from(tos));
            }
            false
        }
    }
}

fn set_tcp(lane: &'static Lane, fd: c_int, index: u32, level: c_int, name: c_int, number: c_int) {
    let setting = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) => TcpSetting::Linger(sys::linger(fd).map(|s| Span::from_secs(s.into()))),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => TcpSetting::Algorithm(algorithm(fd)),
        _ => match option::tcp::setting(level, name, number) {
            // That is a flag of the description.
            Some(TcpSetting::V6Only(_)) | None => return,
            Some(setting) => setting,
        },
    };
    if let TcpSetting::Tos(tos) = setting
        && !may_have_service(lane, fd, index, level, name, tos)
    {
        return;
    }
    let _ = lane.with(|access| {
        let now = access.now;
        match tcp::stage(access, index)?.0 {
            // As on Linux, a negotiated value stays.
            Stage::Connection(id)
                if matches!(setting, TcpSetting::MaxSegment(_)) && access.stack.tcp_state(id)?.is_synchronized() =>
            {
                Ok(())
            }
            Stage::Connection(id) => Ok(access.stack.tcp_set(id, now, setting)?),
            Stage::Listener(id) => Ok(access.stack.tcp_listener_set(id, setting)?),
            // The kernel socket stores it until then, except for whether some were set at all.
            Stage::Fresh => {
                let mut descriptions = access.descriptions();
                let mut description = descriptions.get(index);
                description.set(flag::OPTIONS, true);
                match setting {
                    TcpSetting::SendBuffer(_) => description.set(flag::SEND_BUFFER, true),
                    TcpSetting::ReceiveBuffer(_) => description.set(flag::RECEIVE_BUFFER, true),
                    TcpSetting::MaxSegment(bytes) => description.set(flag::MAX_SEGMENT, bytes != 0),
                    TcpSetting::FinWait(time) => description.set(flag::FIN_WAIT, time != Some(Span::ZERO)),
                    TcpSetting::Ttl(_) => description.set(flag::HOPS, true),
                    TcpSetting::DefaultTtl(_) => description.set(flag::HOPS, false),
                    _ => {}
                }
                Ok(())
            }
        }
    });
}

fn algorithm(fd: c_int) -> Algorithm {
    sys::congestion(fd).and_then(|name| option::algorithm(&name)).unwrap_or(Algorithm::Cubic)
}

/// The options of a new kernel socket of either family, by the system's settings; and when they
/// were read.
static UNSET: Lock<[Option<(Instant, TcpOptions)>; 2]> = Lock::new([None; 2]);

/// The system's settings are read again after this time.
const UNSET_FOR: Span = Span::from_secs(1);

/// The options that a program has set on a kernel socket before the stack had the connection, for
/// packets of a family. `bits` are its description's flags.
pub(crate) fn tcp_from_kernel(options: TcpOptions, fd: c_int, bits: u64, family: Family, now: Instant) -> TcpOptions {
    let anew = || read_from_kernel(options, fd, bits, family);
    if bits & flag::OPTIONS != 0 {
        return anew();
    }
    // A handler may have interrupted this very thread.
    let Some(mut unset) = UNSET.try_lock() else { return anew() };
    let known = &mut unset[usize::from(family == Family::V6)];
    if let Some((read, unset)) = *known
        && now.since(read) < UNSET_FOR
    {
        return unset;
    }
    let domain = if family == Family::V6 { libc::AF_INET6 } else { libc::AF_INET };
    let Ok(fresh) = sys::socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) else { return anew() };
    let read = read_from_kernel(options, fresh, 0, family);
    sys::close(fresh);
    known.insert((now, read)).1
}

/// The type of service or traffic class that a kernel socket has for packets of a family.
pub(crate) fn service_of(fd: c_int, family: Family) -> u8 {
    let (level, name) = match family {
        Family::V4 => (libc::IPPROTO_IP, libc::IP_TOS),
        Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    sys::option(fd, level, name).map_or(0, |number| number.max(0) as u8)
}

/// The options of a connection that are the same number in the stack and in a kernel socket.
pub(super) const SAME_NUMBER: &[(c_int, c_int)] = &[
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
];

fn read_from_kernel(mut options: TcpOptions, fd: c_int, bits: u64, family: Family) -> TcpOptions {
    let of_family = match family {
        Family::V4 => [libc::IP_TOS, libc::IP_TTL, libc::IP_MTU_DISCOVER].map(|name| (libc::IPPROTO_IP, name)),
        Family::V6 => {
            [libc::IPV6_TCLASS, libc::IPV6_UNICAST_HOPS, libc::IPV6_MTU_DISCOVER].map(|name| (libc::IPPROTO_IPV6, name))
        }
    };
    // Their values if nothing was set concern only the kernel.
    let max_segment = (bits & flag::MAX_SEGMENT != 0).then_some((libc::IPPROTO_TCP, libc::TCP_MAXSEG));
    let fin_wait = (bits & flag::FIN_WAIT != 0).then_some((libc::IPPROTO_TCP, libc::TCP_LINGER2));
    for &(level, name) in SAME_NUMBER.iter().chain(&of_family).chain(&max_segment).chain(&fin_wait) {
        if let Ok(number) = sys::option(fd, level, name)
            && let Some(setting) = option::tcp::setting(level, name, number)
        {
            let setting = match setting {
                TcpSetting::Ttl(hops) if bits & flag::HOPS == 0 => TcpSetting::DefaultTtl(hops),
                other => other,
            };
            // A value that the kernel accepted is in range.
            let _ = options.set(setting);
        }
    }
    let mut buffer = |bit, name, make: fn(u32) -> TcpSetting| {
        if bits & bit != 0
            && let Ok(doubled) = sys::option(fd, libc::SOL_SOCKET, name)
        {
            let _ = options.set(make(doubled.max(0) as u32 / 2));
        }
    };
    buffer(flag::SEND_BUFFER, libc::SO_SNDBUF, TcpSetting::SendBuffer);
    buffer(flag::RECEIVE_BUFFER, libc::SO_RCVBUF, TcpSetting::ReceiveBuffer);
    let _ = options.set(TcpSetting::Linger(sys::linger(fd).map(|s| Span::from_secs(s.into()))));
    let _ = options.set(TcpSetting::Algorithm(algorithm(fd)));
    options
}

/// The largest packet that is known to reach the peer.
const PATH_MTU: (c_int, c_int) = (libc::IPPROTO_IP, libc::IP_MTU);
const PATH_MTU_V6: (c_int, c_int) = (libc::IPPROTO_IPV6, libc::IPV6_MTU);

/// The result of `getsockopt`, if the library answers it: the bytes and their number.
pub(crate) fn get(fd: c_int, level: c_int, name: c_int) -> Result<Option<(Vec<u8>, usize)>> {
    let number = |n: c_int| Some((n.to_ne_bytes().to_vec(), 4));
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
        && let Entry::Dead(error) = TABLE.open(fd)?
    {
        return Ok(number(ops::take_error(fd, error).map_or(0, |error| error.0)));
    }
    let entry = TABLE.open(fd)?;
    let Some(lane) = lane::current() else { return Ok(None) };
    match entry {
        // The kernel socket would never have anything to map.
        Entry::Tcp(_) if (level, name) == (libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE) => {
            Err(Errno(option_policy::TOO_LATE))
        }
        Entry::Udp(index) if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) => {
            let error = lane.with(|access| {
                let id: UdpId = access.descriptions().get(index).socket().try_into()?;
                Ok(access.stack.udp_take_error(id)?)
            });
            // The stack has no error: the kernel's, if any.
            Ok(error.ok().flatten().and_then(|error| number(Errno::from(error).0)))
        }
        // The lane knows the path MTU from routers, and the kernel socket forgets its route with
        // every change of `IP_TOS`.
        Entry::Udp(index) if matches!((level, name), PATH_MTU | PATH_MTU_V6) => {
            let mtu = lane.with(|access| {
                let mut descriptions = access.descriptions();
                let description = descriptions.get(index);
                let (id, flags): (UdpId, _) = (description.socket().try_into()?, description.flags());
                let known = flags & flag::CONNECTED != 0 && (level == libc::IPPROTO_IP || flags & flag::V6 != 0);
                if known { Ok(access.stack.udp_path_mtu(id, access.now)?) } else { Err(Errno(libc::ENOTCONN)) }
            });
            // The stack has none: the kernel returns the error.
            Ok(mtu.ok().and_then(|mtu| number(mtu as c_int)))
        }
        Entry::Tcp(index) => {
            let answer = lane.with(|access| match tcp::stage(access, index)? {
                // The kernel socket behind it is new.
                (Stage::Connection(id), flags) => match inherited::flag_of(level, name, flags) {
                    Some(bit) => Ok(Some(c_int::from(flags & bit != 0).to_ne_bytes().to_vec())),
                    None if kernel_remembers(access, id, level, name, flags)? => Ok(None),
                    None => get_tcp(access, id, level, name, flags),
                },
                _ => Ok(None),
            });
            Ok(answer.unwrap_or(None).map(|bytes| {
                let len = bytes.len();
                (bytes, len)
            }))
        }
        _ => Ok(None),
    }
}

/// Whether the kernel socket has an option as the program has set it: the size of a buffer, of
/// which the stack has at least what it needs.
fn kernel_remembers(access: &mut Access<'_>, id: TcpId, level: c_int, name: c_int, flags: u64) -> Result<bool> {
    let options = access.stack.tcp_options(id)?;
    let set = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => options.send_fixed,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => options.receive_fixed,
        _ => false,
    };
    Ok(set && flags & flag::ACCEPTED == 0)
}

fn get_tcp(access: &mut Access<'_>, id: TcpId, level: c_int, name: c_int, flags: u64) -> Result<Option<Vec<u8>>> {
    let options = access.stack.tcp_options(id)?;
    let number = |n: c_int| Some(n.to_ne_bytes().to_vec());
    Ok(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            number(access.stack.tcp_take_error(id)?.map_or(0, |error| Errno::from(error).0))
        }
        (libc::SOL_SOCKET, option::SO_PEERNAME) => {
            let (_, remote) = access.stack.tcp_endpoints(id)?;
            let v6 = flags & flag::V6 != 0;
            let (name, len) = sockaddr::emit(remote, v6, options.interface);
            Some(name[..len].to_vec())
        }
        // The thread that takes its packets in is usually the one that reads them.
        (libc::SOL_SOCKET, option::SO_INCOMING_CPU) => number(sys::current_processor() as c_int),
        // For `TCP_LINGER2`, if nothing was set, the kernel returns the value in force.
        _ => option::tcp::value(&options, || access.stack.tcp_info(id, access.now).ok(), level, name),
    })
}
