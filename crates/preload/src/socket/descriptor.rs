//! Flags and state of a descriptor of ours: `O_NONBLOCK`, `FIONREAD` and similar requests.

use crate::lane::{self, Access, Lane};
use crate::socket::tcp::{self, Stage};
use crate::sys;
use crate::sys::errno::{Errno, Result};
use crate::table::desc::flag;
use crate::table::fd::TABLE;
use core::ffi::{c_int, c_ulong};
use tickwire_linux_abi::ioctl::{self, SIOCATMARK};
use tickwire_stack::UdpId;

fn of(fd: c_int) -> Option<(&'static Lane, u32)> {
    Some((lane::current()?, TABLE.get(fd).description()?))
}

/// `F_SETFL`.
pub(crate) fn set_flags(fd: c_int, flags: c_int) -> Result<()> {
    let Some((lane, index)) = of(fd) else { return sys::fcntl(fd, libc::F_SETFL, flags).map(drop) };
    let on = flags & libc::O_NONBLOCK != 0;
    let kept = if remember(lane, index, on)? { libc::O_NONBLOCK } else { 0 };
    sys::fcntl(fd, libc::F_SETFL, flags | kept).map(drop)
}

/// Records whether the program set non-blocking mode. Returns whether the kernel socket must stay
/// non-blocking all the same (a listener's).
fn remember(lane: &'static Lane, index: u32, on: bool) -> Result<bool> {
    let listening = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        description.set(flag::NONBLOCK, on);
        Ok(description.has(flag::LISTENING))
    });
    match listening {
        Err(Errno(libc::ENETDOWN)) => Ok(false),
        other => other,
    }
}

/// `FIONBIO`.
pub(crate) fn set_nonblocking(fd: c_int, on: bool) -> Result<()> {
    let keeps = of(fd).map_or(Ok(false), |(lane, index)| remember(lane, index, on))?;
    sys::set_nonblocking(fd, on || keeps)
}

/// `F_GETFL`: as the program set them.
pub(crate) fn flags(fd: c_int) -> Result<c_int> {
    let flags = sys::fcntl(fd, libc::F_GETFL, 0)?;
    let Some((lane, index)) = of(fd) else { return Ok(flags) };
    let bits = lane.flags_of(index);
    let on = if bits & flag::NONBLOCK != 0 { libc::O_NONBLOCK } else { 0 };
    Ok(if bits & flag::LISTENING != 0 { flags & !libc::O_NONBLOCK | on } else { flags })
}

/// `FIONREAD`, `SIOCOUTQ`, `SIOCOUTQNSD`, `SIOCATMARK`; `None` if the kernel has to answer.
pub(crate) fn figure(fd: c_int, request: c_ulong) -> Result<Option<c_int>> {
    let Some((lane, index)) = of(fd) else { return Ok(None) };
    let figure = lane.with(|access| {
        if lane.flags_of_held(access, index) & flag::UDP != 0 {
            return udp(access, index, request);
        }
        let Stage::Connection(id) = tcp::stage(access, index)?.0 else { return Ok(None) };
        Ok(match request {
            SIOCATMARK => Some(access.stack.tcp_at_mark(id)?.into()),
            _ => ioctl::tcp_bytes(&access.stack.tcp_info(id, access.now)?, request),
        })
    });
    Ok(figure.ok().flatten().map(|n| n.min(c_int::MAX as u32) as c_int))
}

/// The size of the next datagram; `None`, for the kernel's answer, if the stack has none.
fn udp(access: &mut Access<'_>, index: u32, request: c_ulong) -> Result<Option<u32>> {
    if request != libc::FIONREAD {
        return Ok(None);
    }
    let id: UdpId = access.descriptions().get(index).socket().try_into()?;
    // Not by a peek, which takes the socket's pending error.
    Ok(access.stack.udp_next_len(id)?.map(|len| len as u32))
}
