//! What the exported calls do with a descriptor of ours, whatever its kind; calls on a socket that
//! turns out to be a kernel socket go to the kernel.

use crate::lane::{self, Lane};
use crate::socket::ancillary;
use crate::socket::kernel;
use crate::socket::opening;
use crate::socket::pending;
use crate::socket::tcp;
use crate::socket::udp;
use crate::sys::errno::{ANEW, DEMOTED, Errno, Result};
use crate::sys::iov::Buffers;
use crate::sys::{self, Extras};
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE};
use core::ffi::c_int;
use tickwire_linux_abi::errno;
use tickwire_linux_abi::sockaddr::{self, SocketName};
use tickwire_stack::SocketKind;

/// The lane, or [`DEMOTED`] if it is gone: then the table shows what has become of the socket.
pub(crate) fn the_lane() -> Result<&'static Lane> {
    lane::current().ok_or_else(|| {
        lane::await_ending();
        DEMOTED
    })
}

/// Removes a description that another process or thread has given to the kernel from this process's
/// table. Returns whether it was one.
pub(crate) fn catch_up(lane: &'static Lane, index: u32) -> bool {
    // Another thread may have done it, and the index may be that of another socket.
    if lane.flags_of(index) & flag::KERNEL == 0 {
        return false;
    }
    crate::wait::epoll::moved_to_kernel(lane, index);
    kernel::forget(lane, index);
    true
}

/// Whether the call has to be repeated on the kernel socket.
fn for_kernel<T>(fd: c_int, entry: Entry, answer: &Result<T>) -> bool {
    let demoted = matches!(answer, Err(DEMOTED));
    if demoted
        && let Some(index) = entry.description()
        && let Some(lane) = lane::current()
    {
        catch_up(lane, index);
    }
    demoted || matches!(answer, Err(Errno(libc::ENETDOWN))) && has_ended_under(fd, entry)
}

/// Whether the lane has ended during a call, whose socket is something else now. (There may be
/// another lane by now.)
#[cold]
fn has_ended_under(fd: c_int, entry: Entry) -> bool {
    lane::await_ending();
    TABLE.get(fd) != entry
}

/// Receives.
pub(crate) fn receive(fd: c_int, buffers: &mut Buffers<'_>, flags: c_int, extras: &mut Extras<'_>) -> Result<usize> {
    let entry = TABLE.get(fd);
    let answer = match entry {
        Entry::Udp(index) => the_lane().and_then(|lane| udp::receive(lane, fd, index, buffers, flags, extras)),
        Entry::Tcp(index) => the_lane().and_then(|lane| tcp::receive(lane, fd, index, buffers, flags, extras)),
        Entry::Dead(error) => return receive_dead(fd, error),
        _ => Err(DEMOTED),
    };
    if answer == Err(ANEW) {
        return receive(fd, buffers, flags, extras);
    }
    if for_kernel(fd, entry, &answer) {
        if let Entry::Dead(error) = TABLE.get(fd) {
            return receive_dead(fd, error);
        }
        buffers.rewind();
        return sys::receive(fd, buffers, flags, extras);
    }
    answer
}

/// The error of a dead socket. A connection that was reset returns it once and then the end of the
/// stream, as in the kernel; a socket in which this process has no share fails every time.
pub(crate) fn take_error(fd: c_int, error: u32) -> Option<Errno> {
    match error as c_int {
        0 => None,
        libc::ECONNRESET => TABLE.replace(fd, Entry::Dead(error), Entry::Dead(0)).then_some(Errno(libc::ECONNRESET)),
        error => Some(Errno(error)),
    }
}

/// Keeps a socket's error for the next call: this one has something more important to return.
pub(crate) fn keep_error(fd: c_int, error: Errno) {
    let entry = TABLE.get(fd);
    if let (Entry::Dead(0), Errno(libc::ECONNRESET)) = (entry, error) {
        TABLE.replace(fd, entry, Entry::Dead(libc::ECONNRESET as u32));
    }
    let Some(error) = errno::from_network(error.0) else { return };
    let (Some(lane), Some(index)) = (lane::current(), entry.description()) else { return };
    let _ = lane.with(|access| {
        let socket = access.descriptions().get(index).socket();
        match socket.kind {
            SocketKind::Udp => access.stack.udp_keep_error(socket.try_into()?, error)?,
            SocketKind::Tcp => access.stack.tcp_keep_error(socket.try_into()?, error)?,
            _ => {}
        }
        Ok(())
    });
}

/// Receives from a socket that is dead.
fn receive_dead(fd: c_int, error: u32) -> Result<usize> {
    take_error(fd, error).map_or(Ok(0), Err)
}

/// Sends on a dead socket.
fn send_dead(fd: c_int, error: u32) -> Result<usize> {
    Err(take_error(fd, error).unwrap_or(Errno(libc::EPIPE)))
}

/// Sends to the name in `extras`, which `to` is the parsed form of; raises SIGPIPE as the kernel
/// would.
pub(crate) fn send(
    fd: c_int,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    to: Option<SocketName>,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    let entry = TABLE.get(fd);
    if flags & libc::MSG_FASTOPEN != 0 && matches!(entry, Entry::Tcp(_)) {
        return fast_open(fd, buffers, flags, to, extras);
    }
    let mut answer = match entry {
        Entry::Udp(index) => the_lane().and_then(|lane| udp::send(lane, fd, index, buffers, flags, to, extras)),
        Entry::Tcp(index) => ancillary::for_stream(extras)
            .and_then(|()| the_lane())
            .and_then(|lane| tcp::send(lane, fd, index, buffers, flags)),
        Entry::Dead(error) => send_dead(fd, error),
        _ => Err(DEMOTED),
    };
    if answer == Err(ANEW) {
        return send(fd, buffers, flags, to, extras);
    }
    if for_kernel(fd, entry, &answer) {
        if let Entry::Dead(error) = TABLE.get(fd) {
            answer = send_dead(fd, error);
        } else {
            buffers.rewind();
            return sys::send(fd, buffers, flags, extras);
        }
    }
    if answer == Err(Errno(libc::EPIPE))
        && matches!(entry, Entry::Tcp(_) | Entry::Dead(_))
        && flags & libc::MSG_NOSIGNAL == 0
    {
        sys::raise_pipe();
    }
    answer
}

/// `MSG_FASTOPEN`: connects and sends, as the kernel does without a cookie of the peer (RFC 7413
/// §4.1.2).
fn fast_open(
    fd: c_int,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    to: Option<SocketName>,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    if let Some(SocketName::Inet { .. }) = to {
        connect(fd, &extras.name[..extras.name_len])?;
    }
    extras.name_len = 0;
    send(fd, buffers, flags & !libc::MSG_FASTOPEN, None, extras)
}

/// `bind`.
pub(crate) fn bind(fd: c_int, address: &[u8]) -> Result<()> {
    let entry = TABLE.open(fd)?;
    if let Entry::Tcp(index) = entry
        && let Some(lane) = lane::current()
        && matches!(lane.with(|access| tcp::stage(access, index)), Ok((tcp::Stage::Connection(_), _)))
    {
        // The kernel socket of a connection may have no name.
        return Err(Errno(libc::EINVAL));
    }
    bind_in_kernel(fd, address)?;
    let entry = TABLE.get(fd);
    let answer = match entry {
        Entry::Udp(index) => the_lane().and_then(|lane| udp::bound(lane, fd, index)),
        // A TCP socket's port is claimed when it is used.
        _ => Ok(()),
    };
    // It is bound, accelerated or not.
    if for_kernel(fd, entry, &answer) { Ok(()) } else { answer }
}

/// Binds the kernel socket. On Linux a port is free that only ended connections hold; the service
/// learns of these some time later.
fn bind_in_kernel(fd: c_int, address: &[u8]) -> Result<()> {
    let done = sys::bind(fd, address);
    if done == Err(Errno(libc::EADDRINUSE)) && lane::current().is_some_and(pending::free_ports) {
        return sys::bind(fd, address);
    }
    done
}

/// `connect`.
pub(crate) fn connect(fd: c_int, address: &[u8]) -> Result<()> {
    let entry = TABLE.open(fd)?;
    let answer = match entry {
        Entry::Udp(index) => the_lane().and_then(|lane| udp::connect(lane, fd, index, address)),
        Entry::Tcp(index) => the_lane().and_then(|lane| opening::connect(lane, fd, index, address)),
        Entry::Dead(_) => return Err(Errno(libc::EISCONN)),
        _ => return sys::connect(fd, address),
    };
    if answer == Err(ANEW) {
        return connect(fd, address);
    }
    if !for_kernel(fd, entry, &answer) {
        return answer;
    }
    if let Entry::Dead(error) = TABLE.get(fd) {
        return Err(take_error(fd, error).unwrap_or(Errno(libc::ECONNRESET)));
    }
    // A UDP socket is connected in the kernel first of all, and a second time is harmless.
    let done = sys::connect(fd, address);
    kernel::connected_by_kernel(fd);
    done
}

/// `listen`.
pub(crate) fn listen(fd: c_int, backlog: c_int) -> Result<()> {
    let entry = TABLE.open(fd)?;
    if let Entry::Tcp(index) = entry
        && let Some(lane) = lane::current()
    {
        opening::may_listen(lane, index)?;
        sys::listen(fd, backlog)?;
        let answer = opening::listen(lane, fd, index, backlog);
        if answer == Err(ANEW) {
            return listen(fd, backlog);
        }
        return if for_kernel(fd, entry, &answer) { Ok(()) } else { answer };
    }
    match TABLE.open(fd)? {
        Entry::Dead(_) => Err(Errno(libc::EINVAL)),
        _ => sys::listen(fd, backlog),
    }
}

/// `accept4`.
pub(crate) fn accept(fd: c_int, flags: c_int) -> Result<(c_int, [u8; sockaddr::MAX_NAME], usize)> {
    let entry = TABLE.open(fd)?;
    let answer = match entry {
        Entry::Tcp(index) => the_lane().and_then(|lane| tcp::accept(lane, fd, index, flags)),
        Entry::Dead(_) => Err(Errno(libc::EINVAL)),
        _ => Err(DEMOTED),
    };
    if matches!(answer, Err(ANEW)) {
        return accept(fd, flags);
    }
    if !for_kernel(fd, entry, &answer) {
        return answer;
    }
    let taken = sys::accept(fd, flags);
    if let Ok((new, ..)) = taken {
        kernel::accepted_beside(fd, new);
    }
    taken
}

/// `shutdown`.
pub(crate) fn shutdown(fd: c_int, how: c_int) -> Result<()> {
    let entry = TABLE.open(fd)?;
    let answer = match entry {
        Entry::Udp(index) => {
            let kernel = sys::shutdown(fd, how);
            if kernel == Err(Errno(libc::EINVAL)) {
                return kernel;
            }
            match the_lane().and_then(|lane| udp::shutdown(lane, index, how)) {
                Err(DEMOTED) => kernel,
                answer => answer.and(kernel),
            }
        }
        Entry::Tcp(index) => the_lane().and_then(|lane| tcp::shutdown(lane, fd, index, how)),
        Entry::Dead(_) => Err(Errno(libc::ENOTCONN)),
        _ => Err(DEMOTED),
    };
    if for_kernel(fd, entry, &answer) { sys::shutdown(fd, how) } else { answer }
}

/// `getsockname` and `getpeername`: the name if the stack knows it better than the kernel.
pub(crate) fn socket_name(fd: c_int, peer: bool) -> Result<Option<([u8; sockaddr::MAX_NAME], usize)>> {
    let entry = TABLE.open(fd)?;
    let Entry::Tcp(index) = entry else { return Ok(None) };
    let answer = the_lane().and_then(|lane| tcp::name(lane, index, peer));
    if for_kernel(fd, entry, &answer) {
        return Ok(None);
    }
    Ok(answer?.map(|(endpoint, v6, scope)| sockaddr::emit(endpoint, v6, scope)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::wait::Same;
    use tickwire_lane::control::Reason;

    #[test]
    fn what_one_lane_gave_to_the_kernel_is_no_socket_of_the_next() {
        let fd = testing::socket(libc::SOCK_DGRAM);
        let entry = TABLE.get(fd);
        let index = entry.description().unwrap();
        // The same number, for a socket that the kernel had got when its lane ended during a call.
        let mut socket = None;
        let before = testing::ended(|lane| {
            let given = lane.with(|access| {
                access.descriptions().get(index).set(flag::UDP | flag::KERNEL, true);
                Same::of(access, fd, index)
            });
            socket = Some(given.unwrap());
        });
        catch_up(before, index);
        kernel::demote(before, &socket.unwrap(), Reason::Idle);
        assert_eq!(TABLE.get(fd), entry);
        assert!(!catch_up(testing::lane(), index), "nor is it the kernel's");
        assert!(!for_kernel(fd, entry, &Err::<(), _>(Errno(libc::ENETDOWN))), "the network is down, not the lane");
        assert_eq!(TABLE.get(fd), entry);
        testing::close(fd);
    }
}
