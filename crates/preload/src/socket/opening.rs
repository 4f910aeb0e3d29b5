//! From a fresh TCP socket to a connection or a listener, and back: `connect` and `listen`.

use crate::lane::{Access, Lane, session};
use crate::socket::egress_interface;
use crate::socket::kernel;
use crate::socket::open;
use crate::socket::options;
use crate::socket::pending;
use crate::socket::tcp::{Stage, stage};
use crate::sys;
use crate::sys::errno::{CANCELLED, DEMOTED, Errno, Result};
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE};
use crate::wait::{self, AGAIN, KernelHint, NO_FD, OWN, Same, TIMED_OUT, WaitPlan};
use core::ffi::c_int;
use tickwire_lane::control::{Claim, ClaimKind, EphemeralPort, Reason};
use tickwire_linux_abi::sockaddr::{self, SocketName};
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::path::Query;
use tickwire_stack::tcp::{TcpOptions, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{SocketKind, StackError, TcpId};

/// The longest accept queue, as on Linux by default.
pub(crate) const SOMAXCONN: c_int = 4096;

/// The socket to be opened.
#[derive(Clone, Copy)]
struct Subject(Same);

impl Subject {
    fn new(lane: &'static Lane, fd: c_int, index: u32) -> Result<Self> {
        lane.with(|access| Same::of(access, fd, index).map(Self))
    }

    /// Its stage and flags; [`DEMOTED`] if it is a kernel socket now. `EBADF` if it was closed: on
    /// Linux the call would connect the orphaned socket, and the thread's next call would return
    /// `EBADF`.
    fn stage(&self, access: &mut Access<'_>) -> Result<(Stage, u64)> {
        if TABLE.get(self.0.fd) != Entry::Tcp(self.0.index) {
            return Err(self.0.gone());
        }
        self.0.check(access)?;
        stage(access, self.0.index)
    }

    /// Gives it to the kernel if `as_before` still holds; returns whether it did. Otherwise another
    /// thread has used the socket.
    fn give(
        &self,
        lane: &'static Lane,
        remote: Option<Endpoint>,
        reason: Reason,
        as_before: impl FnOnce(&Stage) -> bool,
    ) -> Result<bool> {
        let claim = lane.with(|access| {
            let (stage, _) = self.stage(access)?;
            as_before(&stage).then(|| kernel::give(access, self.0.index, reason)).transpose()
        });
        let Some(claim) = claim? else { return Ok(false) };
        kernel::given(lane, self.0.index, remote, reason, claim);
        Ok(true)
    }

    /// Gives it to the kernel, which then gets the call ([`DEMOTED`]). Success means that the
    /// caller has to check it again: it is not fresh any more.
    fn demote(&self, lane: &'static Lane, remote: Endpoint, reason: Reason) -> Result<()> {
        let given = self.give(lane, Some(remote), reason, |stage| matches!(stage, Stage::Fresh))?;
        if given { Err(DEMOTED) } else { Ok(()) }
    }
}

/// `connect`.
pub(crate) fn connect(lane: &'static Lane, fd: c_int, index: u32, address: &[u8]) -> Result<()> {
    let subject = Subject::new(lane, fd, index)?;
    let name = SocketName::parse(address);
    // The kernel looks at the family before it looks at the state.
    if address.len() < size_of::<libc::sa_family_t>() {
        return Err(Errno(libc::EINVAL));
    }
    let mut again = false;
    let id = loop {
        let (stage, flags) = lane.with(|access| subject.stage(access))?;
        match (stage, name) {
            // As on Linux it stops listening, and stays bound.
            (Stage::Listener(_), SocketName::Unspecified) => {
                crate::socket::close::stop_listening(lane, index);
                crate::wait::epoll::moved_to_kernel(lane, index);
                kernel::restore_blocking(fd, flags);
                return sys::connect(fd, address);
            }
            (Stage::Listener(_), _) => return Err(Errno(libc::EISCONN)),
            (Stage::Connection(id), SocketName::Unspecified) => {
                // Its kernel socket was none of IPv6 only: it was made when it was accepted.
                if flags & flag::ACCEPTED != 0 && flags & flag::V6ONLY != 0 {
                    sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1_i32)?;
                }
                return disconnect(lane, index, id, flag::TAKEN_BACK);
            }
            // It may connect again, whether or not the outcome of the last attempt was returned.
            (Stage::Connection(id), SocketName::Inet { .. }) if flags & flag::GIVEN_UP != 0 => {
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
            (Stage::Connection(id), _) => {
                again = true;
                break id;
            }
            (Stage::Fresh, SocketName::Inet { endpoint, v6, .. })
                if kernel::refuses_name(SocketKind::Tcp, &endpoint, v6, flags) =>
            {
                return sys::connect(fd, address);
            }
            (Stage::Fresh, SocketName::Inet { endpoint, scope, .. }) if fits(&endpoint) => {
                if let Some(id) = begin(lane, &subject, endpoint, scope, flags)? {
                    if flags & flag::NONBLOCK != 0 {
                        return Err(Errno(libc::EINPROGRESS));
                    }
                    break id;
                }
            }
            // The kernel returns the right error, or has the path itself.
            (Stage::Fresh, SocketName::Inet { endpoint, .. }) => subject.demote(lane, endpoint, Reason::Loopback)?,
            (Stage::Fresh, _) => return sys::connect(fd, address),
        }
    };
    let timeout = lane.with(|access| Ok(access.descriptions().get(index).send_timeout()))?;
    let until = timeout.map(|t| sys::now() + t);
    let (on, mut fds) = ([index], [NO_FD; OWN]);
    let mut plan = WaitPlan::new(&on, &mut fds, until);
    let attempt = |access: &mut Access<'_>, _| outcome(access, &subject, id);
    let first = lane.with(|access| attempt(access, KernelHint::Unknown));
    let end = if first == Err(AGAIN) { wait::wait(lane, &mut plan, attempt) } else { first };
    match end {
        Ok(()) => Ok(()),
        Err(TIMED_OUT) => Err(Errno(if again { libc::EALREADY } else { libc::EINPROGRESS })),
        // The attempt continues.
        Err(error @ (Errno(libc::EINTR) | CANCELLED)) => Err(error),
        Err(error) => fail(lane, index, id, error),
    }
}

fn fits(remote: &Endpoint) -> bool {
    let address = remote.address;
    remote.port != 0
        && !(address.is_loopback()
            || address.is_unspecified()
            || address.is_multicast()
            || address.is_limited_broadcast())
}

/// Takes port and flow, and sends the SYN. `None` if another thread has begun to use the socket
/// meanwhile, and it has to be checked again.
#[inline(never)]
fn begin(lane: &'static Lane, subject: &Subject, remote: Endpoint, scope: u32, flags: u64) -> Result<Option<TcpId>> {
    let Same { fd, index, .. } = subject.0;
    let v6 = flags & flag::V6 != 0;
    let demote = |reason| subject.demote(lane, remote, reason).map(|()| None);
    if lane.talk.leaves() {
        return demote(Reason::Restarted);
    }
    let bound = sys::socket_name(fd, false)?;
    let wanted = if bound.address.is_unspecified() { Address::ANY } else { bound.address };
    let device = egress_interface::bound_device(fd);
    let scope = egress_interface::scope_of(remote.address, scope);
    let interface = if scope == 0 { device } else { scope };
    let tos = if flags & flag::OPTIONS == 0 { 0 } else { options::service_of(fd, remote.address.family()) };
    let query = Query::to(remote.address).by(interface).of_service(tos);
    let path = match lane.reach_from_own(&query.from(wanted)) {
        Ok(path) => path,
        // The socket names an interface that the lane does not have.
        Err(Reason::Interface) if interface != 0 => return demote(Reason::OtherWay),
        Err(reason) => return demote(reason),
    };
    let source = if wanted.is_unspecified() { path.source } else { wanted };
    if source.family() != remote.address.family() {
        return demote(Reason::NoRoute);
    }
    // Any port will do: the lane may hold one.
    let any = bound.port == 0 && scope == 0 && device == 0 && flags & flag::PORT_RANGE == 0;
    let held = if any { lane.take_port(fd, source, pending::put_ports_back) } else { None };
    let (claim, local) = match held {
        Some(EphemeralPort { claim: Claim(claim), port }) => (claim, Endpoint::new(source, port)),
        None => match claim_flow(lane, subject, Endpoint::new(source, bound.port), remote, scope, v6)? {
            Ok(claimed) => claimed,
            Err(reason) => return demote(reason),
        },
    };
    // The claim may have chosen another address.
    if let Err(reason) = lane.reach(&query.from(local.address)) {
        lane.release(claim);
        return demote(reason);
    }
    let begun = lane.with(|access| {
        let (Stage::Fresh, bits) = subject.stage(access)? else { return Ok(None) };
        let defaults = access.stack.tcp_defaults();
        let options = options::tcp_from_kernel(defaults, fd, bits, remote.address.family(), access.now);
        let options = TcpOptions { interface, ..options };
        let id = match access.stack.tcp_connect(&options, local, remote, access.now) {
            // The port is free, but not for this peer (`__inet_check_established`).
            Err(StackError::AddressInUse) => return Err(Errno(libc::EADDRNOTAVAIL)),
            begun => begun?,
        };
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        description.set_socket(id.into());
        *description.claim() = claim;
        description.set(flag::CLAIMED | flag::STARTED | flag::CONNECTING, true);
        description.set(flag::EPHEMERAL, held.is_some());
        open::label(access, id.into(), fd);
        // The service releases the claim of a process that has died before this.
        access.stack.socket_row(id.into())?.claim.set(claim);
        Ok(Some(id))
    });
    match begun {
        Ok(Some(id)) => {
            crate::wait::epoll::moved_to_stack(lane, index);
            if held.is_some() {
                lane.ask_for_ports(source);
            }
            Ok(Some(id))
        }
        _ => {
            lane.release(claim);
            if begun == Err(Errno(libc::ENOBUFS)) { demote(Reason::LaneFull) } else { begun }
        }
    }
}

/// Binds the socket, unless it is bound, and claims the flow. Returns the claim and the local end,
/// or the reason for which there is none.
#[inline(never)]
fn claim_flow(
    lane: &'static Lane,
    subject: &Subject,
    wanted: Endpoint,
    remote: Endpoint,
    scope: u32,
    v6: bool,
) -> Result<core::result::Result<(u64, Endpoint), Reason>> {
    let fd = subject.0.fd;
    if wanted.port == 0 {
        // The number may be that of another socket by now.
        lane.with(|access| subject.stage(access))?;
        // Otherwise `bind` leaves the port to the kernel's own connect.
        let _ = sys::set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &0i32);
        let (bytes, len) = sockaddr::emit(wanted, v6, scope);
        if sys::bind(fd, &bytes[..len]).is_err() {
            return Ok(Err(Reason::Address));
        }
    }
    let name = sys::socket_name(fd, false)?;
    Ok(lane.claim(fd, ClaimKind::Flow, remote).map(|(claim, granted)| {
        // A socket bound to a port of any address is connected from a specific one.
        let source = if name.address.is_unspecified() { granted.address } else { wanted.address };
        (claim, Endpoint::new(source, name.port))
    }))
}

/// The outcome of an attempt to connect. `id` is the attempt that the call has begun or found:
/// another thread may have ended it since, and begun the next.
fn outcome(access: &mut Access<'_>, subject: &Subject, id: TcpId) -> Result<()> {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(subject.0.index);
    if description.socket() != id.into() {
        // As on Linux, if the thread wakes before the next attempt begins; later Linux might return
        // that attempt's outcome.
        let how = if description.has(flag::TAKEN_BACK) { libc::EPIPE } else { libc::ECONNRESET };
        // It is closed for the program before it is closed for the kernel.
        let closed = matches!(TABLE.get(subject.0.fd), Entry::Foreign | Entry::CLOSING)
            || matches!(subject.stage(access), Err(Errno(libc::EBADF)));
        return Err(Errno(if closed { libc::EBADF } else { how }));
    }
    match access.stack.tcp_state(id)? {
        TcpState::SynSent | TcpState::SynReceived => Err(AGAIN),
        state => {
            access.descriptions().get(subject.0.index).set(flag::CONNECTING, false);
            match access.stack.tcp_take_error(id)? {
                Some(error) => Err(error.into()),
                // Another call has returned the reason.
                None if state == TcpState::Closed => Err(Errno(libc::ECONNABORTED)),
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

/// Ends a connection and makes its socket fresh again, with this bit set, unless another thread has
/// done so already.
#[inline(never)]
fn disconnect(lane: &'static Lane, index: u32, id: TcpId, left: u64) -> Result<()> {
    let claim = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        if description.socket() != id.into() {
            return Ok(None);
        }
        description.set_socket(tickwire_stack::SocketId::default());
        let shared = description.has(flag::ACCEPTED);
        let ephemeral = description.has(flag::EPHEMERAL);
        let gone = flag::CLAIMED | flag::STARTED | flag::CONNECTING | flag::ACCEPTED | flag::GIVEN_UP;
        description.set(gone | flag::TAKEN_BACK | flag::EPHEMERAL, false);
        description.set(left, true);
        let claim = core::mem::take(description.claim());
        let ends = access.stack.tcp_endpoints(id);
        access.stack.tcp_abort(id, access.now)?;
        let kept = ephemeral && ends.is_ok_and(|(local, _)| access.put_port_back(claim, local));
        Ok(Some(if shared || kept { 0 } else { claim }))
    });
    if let Some(claim) = claim? {
        crate::wait::epoll::moved_to_kernel(lane, index);
        lane.release(claim);
    }
    Ok(())
}

/// Before the kernel socket listens: discards the rest of an abandoned attempt to connect, which
/// Linux also allows. (Its error, which a listener would still return by `SO_ERROR`, is lost.) A
/// connection of ours would look like a fresh socket to the kernel.
pub(crate) fn may_listen(lane: &'static Lane, index: u32) -> Result<()> {
    match lane.with(|access| stage(access, index)) {
        Ok((Stage::Connection(id), flags)) if flags & flag::GIVEN_UP != 0 => disconnect(lane, index, id, 0),
        Ok((Stage::Connection(_), _)) => Err(Errno(libc::EINVAL)),
        _ => Ok(()),
    }
}

/// For this long after its claim a listener may still receive segments of handshakes that the
/// kernel has begun.
const SETTLING: Span = Span::from_millis(100);
/// The reply to a claim is awaited for this long at most.
const CLAIMING: Span = Span::from_secs(session::TIMEOUT.as_secs());

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
            let mut options = options::tcp_from_kernel(access.stack.tcp_defaults(), fd, flags, family, access.now);
            options.v6only = flags & flag::V6ONLY != 0;
            let id = access.stack.tcp_listen(&options, local, backlog)?;
            // From now on other threads and processes may accept, and poll the kernel's listener
            // under the lane's lock: it must not block. The description keeps the mode that the
            // program set.
            if let Err(error) = sys::set_nonblocking(fd, true) {
                access.stack.tcp_close_listener(id, access.now)?;
                return Err(error);
            }
            // The kernel listens already. The handshakes that it has begun are known with the
            // claim.
            access.stack.tcp_settle_listener(id, access.now + CLAIMING + SETTLING)?;
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            description.set_socket(id.into());
            description.set(flag::LISTENING, true);
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
        Ok((claim, _)) => claim,
        // It continues to listen in the kernel.
        Err(reason) => return subject.give(lane, None, reason, listens).map(drop),
    };
    let noted = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        // The program may have it by another descriptor now.
        if description.socket() != id.into() {
            return Ok(false);
        }
        *description.claim() = claim;
        description.set(flag::CLAIMED | flag::STARTED, true);
        // The service releases the claim of a process that has died before this.
        access.stack.socket_row(id.into())?.claim.set(claim);
        // Segments that have arrived before that are in the ring.
        access.stack.tcp_settle_listener(id, access.now + SETTLING)?;
        Ok(true)
    });
    if noted == Ok(true) {
        crate::wait::epoll::moved_to_stack(lane, index);
    } else {
        // Another thread has ended the listener meanwhile.
        lane.release(claim);
    }
    noted.map(drop)
}
