//! TCP sockets. Before `connect` or `listen` such a socket is its kernel socket, which remembers all options; then the stack has the
//! connection, and the kernel socket keeps port and descriptor.

use crate::base::errno::{Errno, Result};
use crate::c::cancel;
use crate::c::iov::Buffers;
use crate::c::name::{self, Name};
use crate::c::sys::{self, Extras};
use crate::lane::{Access, Lane};
use crate::socket::close;
use crate::socket::kernel::{self, DEMOTED};
use crate::socket::open;
use crate::socket::options;
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE};
use crate::wait::readiness;
use crate::wait::{self, AGAIN, Kernel, NO_FD, OWN, Plan, TIMED_OUT};
use core::ffi::c_int;
use tickwire_link::control::{ClaimKind, Reason};
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::tcp::{RecvFlags, Shutdown, State};
use tickwire_stack::time::Span;
use tickwire_stack::{Error, ListenerId, Ready, SocketKind, Source, TcpId};

/// The longest accept queue, as on Linux by default.
pub(crate) const SOMAXCONN: c_int = 4096;

/// What a TCP description stands for at this moment.
pub(crate) enum Stage {
    /// Neither connected nor listening.
    Fresh,
    Connection(TcpId),
    Listener(ListenerId),
}

/// Stage and flags of a TCP socket; [`DEMOTED`] if it is the kernel's.
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

/// A socket that a call works on while it lets go of the lock, to ask the service: meanwhile another thread may give it to the kernel, or close it, and its
/// description be another's. The inode of the kernel socket tells them apart.
#[derive(Clone, Copy)]
struct Subject {
    fd: c_int,
    index: u32,
    inode: u64,
}

impl Subject {
    fn new(lane: &'static Lane, fd: c_int, index: u32) -> Result<Self> {
        let inode = lane.with(|access| Ok(*access.descriptions().get(index).inode()))?;
        Ok(Self { fd, index, inode })
    }

    /// Its stage and flags; [`DEMOTED`] if it is the kernel's by now. `EBADF` if it was closed: on Linux it would be connected for nobody, and that be the answer of
    /// the thread's next call.
    fn stage(&self, access: &mut Access<'_>) -> Result<(Stage, u64)> {
        let same = TABLE.get(self.fd) == Entry::Tcp(self.index);
        if same && *access.descriptions().get(self.index).inode() == self.inode {
            return stage(access, self.index);
        }
        let kernels = sys::socket_inode(self.fd).unwrap_or(0) == self.inode;
        Err(if kernels { DEMOTED } else { Errno(libc::EBADF) })
    }

    /// Gives it to the kernel if it is still as it was before; says whether it was. Otherwise another thread has done something with it.
    fn give(
        &self,
        lane: &'static Lane,
        remote: Option<Endpoint>,
        reason: Reason,
        as_before: impl FnOnce(&Stage) -> bool,
    ) -> Result<bool> {
        let claim = lane.with(|access| {
            let (stage, _) = self.stage(access)?;
            as_before(&stage).then(|| kernel::give(access, self.index)).transpose()
        });
        let Some(claim) = claim? else { return Ok(false) };
        kernel::given(lane, self.index, remote, reason, claim);
        Ok(true)
    }

    /// Gives it to the kernel, which then gets the call ([`DEMOTED`]). No error if it is to be looked at anew: it is not fresh any more.
    fn demote(&self, lane: &'static Lane, remote: Endpoint, reason: Reason) -> Result<()> {
        let given = self.give(lane, Some(remote), reason, |stage| matches!(stage, Stage::Fresh))?;
        if given { Err(DEMOTED) } else { Ok(()) }
    }
}

/// `connect`.
pub(crate) fn connect(lane: &'static Lane, fd: c_int, index: u32, address: &[u8]) -> Result<()> {
    let subject = Subject::new(lane, fd, index)?;
    let name = Name::parse(address);
    let id = loop {
        let (stage, flags) = lane.with(|access| subject.stage(access))?;
        match (stage, name) {
            (Stage::Listener(_), _) => return Err(Errno(libc::EISCONN)),
            (Stage::Connection(id), Name::Unspecified) => return disconnect(lane, index, id, flag::TAKEN_BACK),
            // It may begin anew, whether or not the end of the last attempt was told.
            (Stage::Connection(id), Name::Inet { .. }) if flags & flag::GIVEN_UP != 0 => {
                disconnect(lane, index, id, 0)?;
            }
            (Stage::Connection(_), _) if flags & flag::CONNECTING == 0 => return Err(Errno(libc::EISCONN)),
            (Stage::Connection(id), _) if flags & flag::NONBLOCK != 0 => {
                return match lane.with(|access| outcome(access, &subject, id)) {
                    Err(AGAIN) => Err(Errno(libc::EALREADY)),
                    Err(error) => fail(lane, index, id, error),
                    done => done,
                };
            }
            (Stage::Connection(id), _) => break id,
            (Stage::Fresh, Name::Inet { endpoint, scope, .. }) if fits(&endpoint, flags) => {
                if let Some(id) = begin(lane, &subject, endpoint, scope, flags & flag::V6 != 0)? {
                    if flags & flag::NONBLOCK != 0 {
                        return Err(Errno(libc::EINPROGRESS));
                    }
                    break id;
                }
            }
            // The kernel knows what is wrong with it, or has the way itself.
            (Stage::Fresh, Name::Inet { endpoint, .. }) => subject.demote(lane, endpoint, Reason::Loopback)?,
            (Stage::Fresh, _) => return sys::connect(fd, address),
        }
    };
    let timeout = lane.with(|access| Ok(access.descriptions().get(index).send_timeout()))?;
    let until = timeout.map(|t| sys::now() + t);
    let mut plan = Plan { fds: &mut [NO_FD; OWN], until, mask: None, restart: timeout.is_none() };
    let attempt = |access: &mut Access<'_>, _| outcome(access, &subject, id);
    let first = lane.with(|access| attempt(access, Kernel::Unknown));
    let end = if first == Err(AGAIN) { wait::wait(lane, &mut plan, attempt) } else { first };
    match end {
        Ok(()) => Ok(()),
        Err(TIMED_OUT) => Err(Errno(libc::EINPROGRESS)),
        // It goes on.
        Err(error @ (Errno(libc::EINTR) | cancel::CANCELLED)) => Err(error),
        Err(error) => fail(lane, index, id, error),
    }
}

fn fits(remote: &Endpoint, flags: u64) -> bool {
    let address = remote.address;
    remote.port != 0
        && (flags & flag::V6 != 0 || address.family() == Family::V4)
        && !(address.is_loopback()
            || address.is_unspecified()
            || address.is_multicast()
            || address.is_limited_broadcast())
}

/// Takes port and flow, and sends the SYN. `None` if another thread has begun something with the socket meanwhile, and it is to be looked at anew.
fn begin(lane: &'static Lane, subject: &Subject, remote: Endpoint, scope: u32, v6: bool) -> Result<Option<TcpId>> {
    let Subject { fd, index, .. } = *subject;
    let demote = |reason| subject.demote(lane, remote, reason).map(|()| None);
    let bound = sys::socket_name(fd, false)?;
    let wanted = if bound.address.is_unspecified() { Address::ANY } else { bound.address };
    let path = match lane.reach(remote.address, wanted, scope, crate::socket::via::bound_device(fd)) {
        Ok(path) => path,
        Err(reason) => return demote(reason),
    };
    let source = if wanted.is_unspecified() { path.source } else { wanted };
    if source.family() != remote.address.family() {
        return demote(Reason::NoRoute);
    }
    if bound.port == 0 {
        // The number may be that of another socket by now.
        lane.with(|access| subject.stage(access))?;
        // Otherwise `bind` leaves the port to the kernel's own connect.
        let _ = sys::set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &0i32);
        let (bytes, len) = name::emit(Endpoint::new(source, 0), v6, scope);
        if sys::bind(fd, &bytes[..len]).is_err() {
            return demote(Reason::Address);
        }
    }
    let local = Endpoint::new(source, sys::socket_name(fd, false)?.port);
    let claim = match lane.claim(fd, ClaimKind::Flow, remote) {
        Ok(claim) => claim,
        Err(reason) => return demote(reason),
    };
    let begun = lane.with(|access| {
        let (Stage::Fresh, bits) = subject.stage(access)? else { return Ok(None) };
        let options = options::tcp_from_kernel(access.stack.tcp_defaults(), fd, bits, remote.address.family());
        let id = access.stack.tcp_connect(&options, local, remote, access.now)?;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        description.set_socket(id.into());
        *description.claim() = claim;
        description.set(flag::CLAIMED | flag::STARTED | flag::CONNECTING, true);
        open::label(access, id.into(), fd);
        Ok(Some(id))
    });
    match begun {
        Ok(Some(id)) => {
            crate::wait::epoll::moved_to_stack(lane, index);
            Ok(Some(id))
        }
        _ => {
            lane.release(claim);
            if begun == Err(Errno(libc::ENOBUFS)) { demote(Reason::LaneFull) } else { begun }
        }
    }
}

/// What has become of an attempt to connect. It is this one that the call has begun or met: another thread may have ended it since, and begun the next.
fn outcome(access: &mut Access<'_>, subject: &Subject, id: TcpId) -> Result<()> {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(subject.index);
    if description.socket() != id.into() {
        // As on Linux, if the thread wakes before the next attempt is begun; later it might be told of that there.
        let how = if description.has(flag::TAKEN_BACK) { libc::EPIPE } else { libc::ECONNRESET };
        // It is closed for the program before it is for the kernel.
        let closed =
            TABLE.get(subject.fd) == Entry::Foreign || matches!(subject.stage(access), Err(Errno(libc::EBADF)));
        return Err(Errno(if closed { libc::EBADF } else { how }));
    }
    match access.stack.tcp_state(id)? {
        State::SynSent | State::SynReceived => Err(AGAIN),
        state => {
            access.descriptions().get(subject.index).set(flag::CONNECTING, false);
            match access.stack.tcp_take_error(id)? {
                Some(error) => Err(error.into()),
                // Why, another call has told.
                None if state == State::Closed => Err(Errno(libc::ECONNABORTED)),
                None => Ok(()),
            }
        }
    }
}

/// An attempt to connect has failed: the socket is fresh again, as on Linux.
fn fail(lane: &'static Lane, index: u32, id: TcpId, error: Errno) -> Result<()> {
    disconnect(lane, index, id, 0)?;
    Err(error)
}

/// Ends a connection and makes its socket fresh again, with this bit set, unless another thread has done so already.
fn disconnect(lane: &'static Lane, index: u32, id: TcpId, left: u64) -> Result<()> {
    let claim = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        if description.socket() != id.into() {
            return Ok(None);
        }
        description.set_socket(tickwire_stack::SocketId::default());
        let shared = description.has(flag::ACCEPTED);
        let gone = flag::CLAIMED | flag::STARTED | flag::CONNECTING | flag::ACCEPTED | flag::GIVEN_UP;
        description.set(gone | flag::TAKEN_BACK, false);
        description.set(left, true);
        let claim = core::mem::take(description.claim());
        access.stack.tcp_abort(id, access.now)?;
        Ok(Some(if shared { 0 } else { claim }))
    });
    if let Some(claim) = claim? {
        crate::wait::epoll::moved_to_kernel(lane, index);
        lane.release(claim);
    }
    Ok(())
}

/// Before the kernel socket listens: what is left of an attempt to connect that was given up is put away, which on Linux is all that such a socket is. (Its error,
/// which a listener would still tell by `SO_ERROR`, goes with it.) A connection of ours would be a fresh socket to the kernel.
pub(crate) fn may_listen(lane: &'static Lane, index: u32) -> Result<()> {
    match lane.with(|access| stage(access, index)) {
        Ok((Stage::Connection(id), flags)) if flags & flag::GIVEN_UP != 0 => disconnect(lane, index, id, 0),
        Ok((Stage::Connection(_), _)) => Err(Errno(libc::EINVAL)),
        _ => Ok(()),
    }
}

/// `listen` after the kernel's own.
pub(crate) fn listen(lane: &'static Lane, fd: c_int, index: u32, backlog: c_int) -> Result<()> {
    let backlog = backlog.clamp(0, SOMAXCONN) as u32;
    let subject = Subject::new(lane, fd, index)?;
    let local = sys::socket_name(fd, false)?;
    let fresh = lane.with(|access| match subject.stage(access)? {
        (Stage::Listener(id), _) => access.stack.tcp_set_backlog(id, backlog).map(|()| None).map_err(Errno::from),
        (Stage::Connection(_), _) => Err(Errno(libc::EINVAL)),
        (Stage::Fresh, flags) => {
            let family = if flags & flag::V6 != 0 { Family::V6 } else { Family::V4 };
            let mut options = options::tcp_from_kernel(access.stack.tcp_defaults(), fd, flags, family);
            options.v6only = flags & flag::V6ONLY != 0;
            let id = access.stack.tcp_listen(&options, local, backlog)?;
            access.descriptions().get(index).set_socket(id.into());
            open::label(access, id.into(), fd);
            Ok(Some(id))
        }
    });
    let id = match fresh {
        Ok(Some(id)) => id,
        Ok(None) => return Ok(()),
        Err(Errno(libc::ENOBUFS)) => {
            return subject.give(lane, None, Reason::LaneFull, |stage| matches!(stage, Stage::Fresh)).map(drop);
        }
        Err(error) => return Err(error),
    };
    let listens = |stage: &Stage| matches!(stage, Stage::Listener(now) if *now == id);
    let claim = match lane.claim(fd, ClaimKind::Bound, Endpoint::default()) {
        Ok(claim) => claim,
        // It listens on in the kernel.
        Err(reason) => return subject.give(lane, None, reason, listens).map(drop),
    };
    let noted = lane.with(|access| {
        if !listens(&subject.stage(access)?.0) {
            return Ok(false);
        }
        // The kernel's listener is asked without waiting; what the program set is remembered by us.
        let flags = sys::fcntl(fd, libc::F_GETFL, 0)?;
        sys::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)?;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        *description.claim() = claim;
        description.set(flag::CLAIMED | flag::STARTED | flag::LISTENING, true);
        Ok(true)
    });
    if noted == Ok(true) {
        crate::wait::epoll::moved_to_stack(lane, index);
    } else {
        // Another thread has ended it meanwhile.
        lane.release(claim);
    }
    noted.map(drop)
}

/// Who has a connection to be accepted.
enum Waiting {
    Stack,
    Kernel(c_int, [u8; name::MAX], usize),
}

/// `accept4`: the new descriptor and the peer's name.
pub(crate) fn accept(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    flags: c_int,
) -> Result<(c_int, [u8; name::MAX], usize)> {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mut attempt = |access: &mut Access<'_>, kernel: Kernel| {
        let (Stage::Listener(id), bits) = stage(access, index)? else { return Err(Errno(libc::EINVAL)) };
        if access.stack.readiness(id.into())?.contains(Ready::IN) {
            return Ok(Waiting::Stack);
        }
        let now = access.now;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        if kernel != Kernel::Speaks && readiness::kernel_is_quiet(bits, *description.kernel_check(), now) {
            return Err(AGAIN);
        }
        *description.kernel_check() = now.as_nanos();
        let got = sys::accept(fd, flags);
        description.set(flag::KERNEL_QUIET, matches!(got, Err(AGAIN)));
        got.map(|(new, bytes, len)| Waiting::Kernel(new, bytes, len))
    };
    let (nonblocking, timeout) = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let description = descriptions.get(index);
        Ok((description.has(flag::NONBLOCK), description.receive_timeout()))
    })?;
    let until = timeout.map(|t| sys::now() + t);
    loop {
        let mut found = lane.with(|access| attempt(access, Kernel::Unknown));
        if matches!(found, Err(AGAIN)) && !nonblocking {
            let mut fds = [NO_FD, NO_FD, wait::readable(fd)];
            let mut plan = Plan { fds: &mut fds, until, mask: None, restart: timeout.is_none() };
            found = wait::wait(lane, &mut plan, &mut attempt);
        }
        match found {
            Ok(Waiting::Kernel(new, bytes, len)) => {
                kernel::accepted_by_kernel(lane, new);
                return Ok((new, bytes, len));
            }
            Ok(Waiting::Stack) => match take(lane, index, flags) {
                // Another thread took it.
                Err(AGAIN) if !nonblocking => {}
                done => return done,
            },
            Err(TIMED_OUT) => return Err(AGAIN),
            Err(error) => return Err(error),
        }
    }
}

/// Accepts from the stack: the new socket gets a kernel socket as its descriptor.
fn take(lane: &'static Lane, index: u32, flags: c_int) -> Result<(c_int, [u8; name::MAX], usize)> {
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
        let (Stage::Listener(listener), _) = stage(access, index)? else { return Err(Errno(libc::EINVAL)) };
        let slot = access.slot;
        let mut descriptions = access.descriptions();
        let mut from = descriptions.get(index);
        let (claim, timeouts) = (*from.claim(), [from.receive_timeout(), from.send_timeout()]);
        from.set(flag::TRAFFIC, true);
        let new = access.descriptions().take(bits, slot).ok_or(Errno(libc::ENFILE))?;
        match access.stack.tcp_accept(listener) {
            Ok(id) => {
                let remote = access.stack.tcp_endpoints(id)?.1;
                let mut descriptions = access.descriptions();
                let mut description = descriptions.get(new);
                description.set_socket(id.into());
                *description.claim() = claim;
                *description.inode() = inode;
                // As on Linux, where a connection begins as a copy of its listener.
                description.set_timeout(true, timeouts[0].unwrap_or(Span::ZERO));
                description.set_timeout(false, timeouts[1].unwrap_or(Span::ZERO));
                open::label(access, id.into(), fd);
                Ok((new, remote))
            }
            Err(error) => {
                access.descriptions().give(new);
                Err(error.into())
            }
        }
    });
    match taken {
        Ok((new, remote)) => {
            open::enter(fd, Entry::Tcp(new));
            let (bytes, len) = name::emit(remote, v6, 0);
            Ok((fd, bytes, len))
        }
        Err(error) => {
            sys::close(fd);
            Err(error)
        }
    }
}

/// Whether an error waits to be told. A call that has moved bytes leaves it to the next one, which would otherwise see an orderly end.
fn failed(access: &mut Access<'_>, id: TcpId) -> Result<bool> {
    Ok(access.stack.readiness(id.into())?.contains(Ready::ERR))
}

/// Sends; a blocking socket waits until all is taken.
pub(crate) fn send(lane: &'static Lane, index: u32, buffers: &mut Buffers<'_>, flags: c_int) -> Result<usize> {
    let attempt = |access: &mut Access<'_>, _: Kernel| -> Result<usize> {
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
            Ok(_) | Err(Error::WouldBlock) => Err(AGAIN),
            Err(error) => Err(error.into()),
        }
    };
    match wait::transfer(lane, index, flags, |d| d.send_timeout(), &mut [NO_FD; OWN], attempt) {
        // What was taken before the trouble counts; the trouble comes up again with the next call.
        Err(error) if buffers.done() > 0 && error != DEMOTED => Ok(buffers.done()),
        end => end,
    }
}

/// A place for bytes that nobody wants (`MSG_TRUNC`).
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

/// Receives.
pub(crate) fn receive(
    lane: &'static Lane,
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
        // It waits until all can be seen; if that does not come to be, what there is counts.
        let seen = wait::transfer(
            lane,
            index,
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
        if matches!(seen, Err(AGAIN | Errno(libc::EINTR))) {
            flags |= libc::MSG_DONTWAIT;
        }
    }
    let attempt = |access: &mut Access<'_>, _: Kernel| -> Result<usize> {
        let (id, _) = connection(access, index, libc::ENOTCONN)?;
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
                    if !all || done == wanted {
                        return Ok(done);
                    }
                }
                Err(Error::WouldBlock) => return Err(AGAIN),
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error.into()),
            }
        }
    };
    match wait::transfer(lane, index, flags, |d| d.receive_timeout(), &mut [NO_FD; OWN], attempt) {
        Err(error) if done > 0 && error != DEMOTED => Ok(done),
        end => {
            debug_assert!(buffers.room() <= wanted);
            end
        }
    }
}

/// Receives the urgent byte.
fn urgent(
    lane: &'static Lane,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    use tickwire_stack::Sink;
    let byte = lane.with(|access| {
        let id = match stage(access, index)?.0 {
            Stage::Connection(id) => id,
            Stage::Fresh => return Err(Errno(libc::EINVAL)),
            Stage::Listener(_) => return Err(Errno(libc::ENOTCONN)),
        };
        Ok(access.stack.tcp_recv_urgent(id, flags & libc::MSG_PEEK != 0)?)
    })?;
    extras.flags = libc::MSG_OOB;
    Ok(buffers.write(&[byte]))
}

/// `shutdown`.
pub(crate) fn shutdown(lane: &'static Lane, fd: c_int, index: u32, how: c_int) -> Result<()> {
    let way = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return Err(Errno(libc::EINVAL)),
    };
    // Acted on under the lock under which it is looked at: meanwhile another thread might begin to connect it.
    let found = lane.with(|access| {
        if TABLE.get(fd) != Entry::Tcp(index) {
            return Err(DEMOTED);
        }
        match stage(access, index)? {
            (Stage::Connection(id), _) => match access.stack.tcp_state(id)? {
                State::SynSent => give_up(access, index, id).map(|()| Shut::Done),
                _ => Ok(access.stack.tcp_shutdown(id, access.now, way).map(|()| Shut::Done)?),
            },
            // It is not connected, and shut all the same: it reads an end, shows it to poll, and keeps it when it is connected or listens.
            (Stage::Fresh, _) => kernel::give(access, index).map(Shut::Given),
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
            // It stops to listen; whoever waits in accept gets EINVAL. The service hears of it first: a claim whose socket does not
            // listen any more it would take back, with the connections.
            close::stop_listening(lane, index);
            if flags & flag::NONBLOCK == 0 {
                kernel::restore_blocking(fd);
            }
            sys::shutdown(fd, how)
        }
    }
}

/// What `shutdown` has found, and still has to do without the lock.
enum Shut {
    Done,
    /// A fresh socket, which is the kernel's now, with its claim.
    Given(u64),
    /// A listener, with its flags.
    Listener(u64),
}

/// Ends the attempt to connect, as `shutdown` does on Linux in SYN-SENT; who waits for its outcome is told of a reset.
fn give_up(access: &mut Access<'_>, index: u32, id: TcpId) -> Result<()> {
    access.stack.tcp_abandon(id, access.now)?;
    access.descriptions().get(index).set(flag::GIVEN_UP, true);
    Ok(())
}

/// Own name, or the peer's, if the stack knows it better than the kernel socket.
pub(crate) fn name(lane: &'static Lane, index: u32, peer: bool) -> Result<Option<(Endpoint, bool)>> {
    lane.with(|access| match stage(access, index)? {
        (Stage::Connection(id), flags) => {
            let (local, remote) = access.stack.tcp_endpoints(id)?;
            // In TIME-WAIT a socket of Linux is closed: the kernel waits without it.
            if peer && matches!(access.stack.tcp_state(id)?, State::SynSent | State::TimeWait | State::Closed) {
                return Err(Errno(libc::ENOTCONN));
            }
            Ok(Some((if peer { remote } else { local }, flags & flag::V6 != 0)))
        }
        _ => Ok(None),
    })
}
