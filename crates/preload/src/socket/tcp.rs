//! TCP sockets. Before `connect` or `listen` only the kernel socket exists, which stores all
//! options. Then the stack has the connection, and the kernel socket keeps port and descriptor.

use crate::lane::{Access, Lane};
use crate::socket::ancillary;
use crate::socket::close;
use crate::socket::inherited;
use crate::socket::kernel;
use crate::socket::open;
use crate::sys::errno::{DEMOTED, Errno, Result};
use crate::sys::guarded;
use crate::sys::iov::Buffers;
use crate::sys::{self, Extras};
use crate::table::counts;
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE};
use crate::wait::readiness;
use crate::wait::{self, AGAIN, KernelHint, NO_FD, OWN, Same, TIMED_OUT, WaitPlan};
use core::ffi::c_int;
use tickwire_lane::control::Reason;
use tickwire_linux_abi::sockaddr;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::{RecvFlags, Shutdown, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{ListenerId, Ready, SendSource, Sink, SocketKind, StackError, TcpId};

/// The present state of a TCP description.
pub(crate) enum Stage {
    /// Neither connected nor listening.
    Fresh,
    Connection(TcpId),
    Listener(ListenerId),
}

/// Stage and flags of a TCP socket; [`DEMOTED`] if it is a kernel socket.
pub(crate) fn stage(access: &mut Access<'_>, index: u32) -> Result<(Stage, u64)> {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    let flags = description.flags();
    if flags & flag::KERNEL != 0 {
        return Err(DEMOTED);
    }
    let socket = description.socket();
    let stage = match socket.kind {
        SocketKind::Tcp => Stage::Connection(socket.try_into()?),
        SocketKind::Listener => Stage::Listener(socket.try_into()?),
        _ => Stage::Fresh,
    };
    Ok((stage, flags))
}

/// The connection, or the error of a call that needs one.
fn connection(access: &mut Access<'_>, index: u32, without: c_int) -> Result<(TcpId, u64)> {
    match stage(access, index)? {
        (Stage::Connection(id), flags) => Ok((id, flags)),
        _ => Err(Errno(without)),
    }
}

/// Where a connection waits to be accepted.
enum Waiting {
    Stack,
    Kernel(c_int, [u8; sockaddr::MAX_NAME], usize),
}

/// `accept4`: the new descriptor and the peer's name.
pub(crate) fn accept(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    flags: c_int,
) -> Result<(c_int, [u8; sockaddr::MAX_NAME], usize)> {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let (same, nonblocking, timeout) = lane.with(|access| {
        let same = Same::of(access, fd, index)?;
        let mut descriptions = access.descriptions();
        let description = descriptions.get(index);
        Ok((same, description.has(flag::NONBLOCK), description.receive_timeout()))
    })?;
    let attempt = |access: &mut Access<'_>, kernel: KernelHint| {
        same.check(access)?;
        let (Stage::Listener(id), bits) = stage(access, index)? else { return Err(Errno(libc::EINVAL)) };
        if access.stack.readiness(id.into())?.contains(Ready::IN) {
            return Ok(Waiting::Stack);
        }
        let now = access.now;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        if readiness::kernel_is_quiet(kernel, bits, *description.kernel_check(), now) {
            return Err(AGAIN);
        }
        *description.kernel_check() = now.as_nanos();
        let got = sys::accept(fd, flags);
        description.set(flag::KERNEL_QUIET, matches!(got, Err(AGAIN)));
        got.map(|(new, bytes, len)| Waiting::Kernel(new, bytes, len))
    };
    let until = timeout.map(|t| sys::now() + t);
    loop {
        let mut found = lane.with(|access| attempt(access, KernelHint::Unknown));
        if matches!(found, Err(AGAIN)) && !nonblocking {
            let mut fds = wait::and(wait::readable(fd));
            found = wait::wait(lane, &mut WaitPlan::new(&[index], &mut fds, until), attempt);
        }
        match found {
            Ok(Waiting::Kernel(new, bytes, len)) => {
                kernel::accepted_by_kernel(lane, new);
                return Ok((new, bytes, len));
            }
            Ok(Waiting::Stack) => match take(lane, &same, flags) {
                // Another thread took it.
                Err(AGAIN) if !nonblocking => {}
                done => return done,
            },
            Err(TIMED_OUT) => return Err(AGAIN),
            Err(error) => return Err(error),
        }
    }
}

/// Accepts from the stack: the new socket gets a kernel socket for its descriptor.
fn take(lane: &'static Lane, listener: &Same, flags: c_int) -> Result<(c_int, [u8; sockaddr::MAX_NAME], usize)> {
    let (listener_fd, index) = (listener.fd, listener.index);
    let v6 = lane.with(|access| Ok(stage(access, index)?.1 & flag::V6 != 0))?;
    let domain = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    let fd = sys::socket(domain, libc::SOCK_STREAM | flags, 0)?;
    let family = if v6 { flag::V6 } else { 0 };
    let mut bits = flag::TCP | flag::STARTED | flag::CLAIMED | flag::ACCEPTED | family;
    if flags & libc::SOCK_NONBLOCK != 0 {
        bits |= flag::NONBLOCK;
    }
    let inode = sys::socket_inode(fd).unwrap_or(0);
    let taken = lane.with(|access| {
        listener.check(access)?;
        let (Stage::Listener(listener), _) = stage(access, index)? else { return Err(Errno(libc::EINVAL)) };
        let slot = access.slot;
        let mut descriptions = access.descriptions();
        let mut from = descriptions.get(index);
        let (claim, timeouts) = (*from.claim(), [from.receive_timeout(), from.send_timeout()]);
        let flags = from.flags();
        from.set(flag::TRAFFIC, true);
        let same = inherited::flags(flags, access.stack.tcp_listener_endpoint(listener)?.address);
        let new = access.descriptions().take(bits | same, slot).ok_or(Errno(libc::ENFILE))?;
        match access.stack.tcp_accept(listener) {
            Ok(id) => {
                let (remote, link) = (access.stack.tcp_endpoints(id)?.1, access.stack.tcp_interface(id)?);
                let mut descriptions = access.descriptions();
                let mut description = descriptions.get(new);
                description.set_socket(id.into());
                *description.claim() = claim;
                *description.inode() = inode;
                // As on Linux, where a connection begins as a copy of its listener.
                description.set_timeout(true, timeouts[0].unwrap_or(Span::ZERO));
                description.set_timeout(false, timeouts[1].unwrap_or(Span::ZERO));
                open::label(access, id.into(), fd);
                Ok((new, remote, link, same))
            }
            Err(error) => {
                access.descriptions().give(new);
                Err(error.into())
            }
        }
    });
    match taken {
        Ok((new, remote, link, same)) => {
            if same & flag::INHERITED != 0 {
                inherited::copy(listener_fd, fd, v6);
            }
            counts::enter(fd, Entry::Tcp(new));
            let (bytes, len) = sockaddr::emit(remote, v6, link);
            Ok((fd, bytes, len))
        }
        Err(error) => {
            sys::close(fd);
            Err(error)
        }
    }
}

/// Whether an error is pending. A call that has moved bytes leaves it to the next one, which would
/// otherwise see an orderly end.
fn failed(access: &mut Access<'_>, id: TcpId) -> Result<bool> {
    Ok(access.stack.readiness(id.into())?.contains(Ready::ERR))
}

/// Sends; a blocking socket waits until everything is queued.
pub(crate) fn send(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
) -> Result<usize> {
    let attempt = |access: &mut Access<'_>, _: KernelHint| -> Result<usize> {
        let (id, _) = connection(access, index, libc::EPIPE)?;
        if buffers.done() > 0 && failed(access, id)? {
            return Ok(buffers.done());
        }
        let now = access.now;
        let taken = if flags & libc::MSG_OOB != 0 {
            access.stack.tcp_send_urgent(id, now, buffers)
        } else {
            access.stack.tcp_send(id, now, flags & libc::MSG_MORE != 0, buffers)
        };
        match taken {
            Ok(_) if buffers.remaining() == 0 => Ok(buffers.done()),
            Ok(_) | Err(StackError::WouldBlock) => Err(AGAIN),
            Err(error) => Err(error.into()),
        }
    };
    match wait::transfer(lane, (fd, index), flags, |d| d.send_timeout(), &mut [NO_FD; OWN], attempt) {
        // The bytes taken before the error count; the next call returns the error again.
        Err(_) if buffers.done() > 0 => Ok(buffers.done()),
        end => end,
    }
}

/// A sink for bytes that are discarded (`MSG_TRUNC`).
struct Nowhere(usize);

impl tickwire_stack::Sink for Nowhere {
    fn room(&self) -> usize {
        self.0
    }

    fn write(&mut self, from: &[u8]) -> usize {
        let n = from.len().min(self.0);
        self.0 -= n;
        n
    }
}

/// Before a look at data that is to be there as a whole (`MSG_PEEK` with `MSG_WAITALL`): waits
/// until it is. If that does not happen, the call returns the bytes that there are. Returns its
/// flags.
#[inline(never)]
fn until_all_can_be_seen(lane: &'static Lane, (fd, index): (c_int, u32), flags: c_int, wanted: usize) -> c_int {
    let seen = wait::transfer(
        lane,
        (fd, index),
        flags,
        |d| d.receive_timeout(),
        &mut [NO_FD; OWN],
        |access, _| {
            let (id, _) = connection(access, index, libc::ENOTCONN)?;
            let ended = access.stack.readiness(id.into())? & (Ready::RDHUP | Ready::HUP | Ready::ERR);
            let enough = access.stack.tcp_info(id, access.now)?.unread as usize >= wanted;
            if enough || !ended.is_empty() { Ok(()) } else { Err(AGAIN) }
        },
    );
    if matches!(seen, Err(AGAIN | Errno(libc::EINTR))) { flags | libc::MSG_DONTWAIT } else { flags }
}

/// Receives.
pub(crate) fn receive(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    use tickwire_stack::Sink;
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(AGAIN);
    }
    if flags & libc::MSG_OOB != 0 {
        return urgent(lane, index, buffers, flags, extras);
    }
    let peek = flags & libc::MSG_PEEK != 0;
    let all = flags & libc::MSG_WAITALL != 0 && !peek;
    let mut flags = flags;
    let drop_it = flags & libc::MSG_TRUNC != 0;
    let mut done = 0;
    let wanted = buffers.total();
    if peek && flags & libc::MSG_WAITALL != 0 {
        flags = until_all_can_be_seen(lane, (fd, index), flags, wanted);
    }
    let mut came = None;
    let attempt = |access: &mut Access<'_>, _: KernelHint| -> Result<usize> {
        let (id, bits) = connection(access, index, libc::ENOTCONN)?;
        let now = access.now;
        loop {
            if wanted == done || done > 0 && failed(access, id)? && access.stack.tcp_info(id, now)?.unread == 0 {
                return Ok(done);
            }
            let got = if drop_it {
                access.stack.tcp_recv(id, now, RecvFlags { peek }, &mut Nowhere(wanted - done))
            } else {
                access.stack.tcp_recv(id, now, RecvFlags { peek }, buffers)
            };
            match got {
                Ok(0) => return Ok(done),
                Ok(n) => {
                    done += n;
                    if bits & STAMPS != 0 {
                        came = Some((bits, access.stack.tcp_taken_came()));
                    }
                    if !all || done == wanted {
                        return Ok(done);
                    }
                }
                Err(StackError::WouldBlock) => return Err(AGAIN),
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let received = wait::transfer(lane, (fd, index), flags, |d| d.receive_timeout(), &mut [NO_FD; OWN], attempt);
    if let Some((bits, at)) = came {
        ancillary::stamped(sys::now(), bits, at, extras);
    }
    match received {
        Err(_) if done > 0 => Ok(done),
        end => {
            debug_assert!(buffers.room() <= wanted);
            end
        }
    }
}

/// The program wants the receive time of data.
const STAMPS: u64 = flag::TIMESTAMP | flag::TIMESTAMPNS;

/// Receives the urgent byte.
fn urgent(
    lane: &'static Lane,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    let byte = lane.with(|access| {
        let id = match stage(access, index)?.0 {
            Stage::Connection(id) => id,
            Stage::Fresh => return Err(Errno(libc::EINVAL)),
            Stage::Listener(_) => return Err(Errno(libc::ENOTCONN)),
        };
        Ok(access.stack.tcp_recv_urgent(id, flags & libc::MSG_PEEK != 0)?)
    })?;
    extras.flags = libc::MSG_OOB;
    let written = buffers.write(&[byte]);
    // As in Linux, the byte has been read all the same.
    if Sink::failed(buffers) { Err(guarded::FAULT) } else { Ok(written) }
}

/// `shutdown`.
pub(crate) fn shutdown(lane: &'static Lane, fd: c_int, index: u32, how: c_int) -> Result<()> {
    let way = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return Err(Errno(libc::EINVAL)),
    };
    // Checked and done under one lock: otherwise another thread might begin to connect it in
    // between.
    let found = lane.with(|access| {
        if TABLE.get(fd) != Entry::Tcp(index) {
            return Err(DEMOTED);
        }
        match stage(access, index)? {
            (Stage::Connection(id), _) => match access.stack.tcp_state(id)? {
                TcpState::SynSent => give_up(access, index, id).map(|()| Shut::Done),
                _ => Ok(access.stack.tcp_shutdown(id, access.now, way).map(|()| Shut::Done)?),
            },
            // It is not connected, and shut down all the same: it reads the end of the stream,
            // reports it to poll, and stays shut down when it is connected or listens.
            (Stage::Fresh, _) => kernel::give(access, index, Reason::Shut).map(Shut::Given),
            (Stage::Listener(_), _) if way == Shutdown::Write => Ok(Shut::Done),
            (Stage::Listener(_), flags) => Ok(Shut::Listener(flags)),
        }
    });
    match found? {
        Shut::Done => Ok(()),
        Shut::Given(claim) => {
            kernel::given(lane, index, None, Reason::Shut, claim);
            Err(DEMOTED)
        }
        Shut::Listener(flags) => {
            // It stops listening; a thread that waits in accept gets EINVAL. The service is
            // notified first: otherwise it would revoke the claim of a socket that does not listen
            // any more, with the connections.
            let is_shut = close::stop_listening(lane, index) && has_stopped(fd);
            kernel::restore_blocking(fd, flags);
            let done = if is_shut { Ok(()) } else { sys::shutdown(fd, how) };
            crate::wait::epoll::moved_to_kernel(lane, index);
            done
        }
    }
}

/// How long the service may take to end a kernel's listener after its answer.
const STOPPING: Span = Span::from_millis(100);
const LOOK_AGAIN: Span = Span::from_micros(200);

/// Waits until the kernel's listener has stopped listening, and returns whether it has.
fn has_stopped(fd: c_int) -> bool {
    let until = sys::now() + STOPPING;
    loop {
        match sys::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) {
            Ok(1..) if sys::now() < until => drop(sys::ppoll(&mut [], Some(LOOK_AGAIN), None)),
            listens => return listens == Ok(0),
        }
    }
}

/// What `shutdown` has found, and still has to do without the lock.
enum Shut {
    Done,
    /// A fresh socket, which is a kernel socket now, with its claim.
    Given(u64),
    /// A listener, with its flags.
    Listener(u64),
}

/// Ends the attempt to connect, as `shutdown` does on Linux in SYN-SENT; a thread that waits for
/// its outcome gets a reset.
fn give_up(access: &mut Access<'_>, index: u32, id: TcpId) -> Result<()> {
    access.stack.tcp_abandon(id)?;
    access.descriptions().get(index).set(flag::GIVEN_UP, true);
    Ok(())
}

/// The local or remote name, if the stack knows it better than the kernel socket; whether the
/// socket is an IPv6 socket; and the interface that a link-local address needs.
pub(crate) fn name(lane: &'static Lane, index: u32, peer: bool) -> Result<Option<(Endpoint, bool, u32)>> {
    lane.with(|access| match stage(access, index)? {
        (Stage::Connection(id), flags) => {
            let (local, remote) = access.stack.tcp_endpoints(id)?;
            // In TIME-WAIT a Linux socket is closed: the kernel waits without it.
            if peer && matches!(access.stack.tcp_state(id)?, TcpState::SynSent | TcpState::TimeWait | TcpState::Closed)
            {
                return Err(Errno(libc::ENOTCONN));
            }
            let link = access.stack.tcp_interface(id)?;
            Ok(Some((if peer { remote } else { local }, flags & flag::V6 != 0, link)))
        }
        _ => Ok(None),
    })
}
