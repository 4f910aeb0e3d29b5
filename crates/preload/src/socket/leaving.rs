//! Handing a connection over to the kernel: the service makes a kernel socket from the stack's
//! state of it. That socket replaces the one behind its descriptors, which was never connected.

use crate::base::locked::{Lock, Locked};
use crate::lane::service::Unserved;
use crate::lane::{Access, Lane};
use crate::socket::inherited;
use crate::socket::kernel;
use crate::socket::options::SAME_NUMBER;
use crate::socket::pending;
use crate::socket::tcp::{self, Stage};
use crate::sys;
use crate::sys::errno::{Errno, Result};
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE};
use crate::table::moved;
use crate::wait::Same;
use core::ffi::c_int;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};
use std::os::fd::IntoRawFd;
use tickwire_lane::control::{Claim, Reason, Reply, Request};
use tickwire_linux_abi::option::{self, SO_BINDTOIFINDEX};
use tickwire_stack::TcpId;
use tickwire_stack::addr::Family;
use tickwire_stack::tcp::{Algorithm, Leaving, TcpOptions, TcpState};
use tickwire_stack::time::Span;

/// Held while a connection is being handed over.
static MOVING: Lock<()> = Lock::new(());

/// No connection is handed over while the returned guard lives. A child forked meanwhile would have
/// the socket that was never connected, and a program executed meanwhile would have a connection
/// that stays suspended for ever.
pub(crate) fn hold() -> Locked<'static, ()> {
    MOVING.lock()
}

/// A suspended connection.
struct Suspended {
    id: TcpId,
    claim: u64,
    flags: u64,
    options: TcpOptions,
    state: Leaving,
    bytes: Vec<u8>,
}

/// Hands a connection over to the kernel; then all its descriptors in this process are those of the
/// kernel socket. If that is not possible, the connection continues as it was.
///
/// # Errors
/// `EOPNOTSUPP` if it is not possible: another process has the connection, too; it is not open, or
/// reset; it has urgent data; or the service refuses. [`UNKNOWN`] if the service does not answer:
/// the connection is over.
pub(crate) fn to_kernel(lane: &'static Lane, socket: &Same, reason: Reason) -> Result<()> {
    let _moving = hold();
    let suspended = lane.with(|access| suspend(access, socket))?;
    let new = match take_over(lane, &suspended) {
        Ok(new) => new,
        Err(Unserved::Refused(_)) => {
            resume(lane, &suspended);
            return Err(IMPOSSIBLE);
        }
        Err(Unserved::Unknown(_)) => {
            give_up(lane, &suspended);
            return Err(UNKNOWN);
        }
    };
    crate::wait::epoll::about_to_leave(lane, socket.index);
    let placed = place(lane, socket, &suspended, new, reason);
    if placed.is_err() {
        // Only the kernel has it now. If the program has closed it meanwhile, the close below ends
        // it as the program's would have. It is reset if the lane is over, or if a descriptor could
        // not be given to it.
        if lane.is_over() || placed == Err(UNPLACED) {
            reset(new);
        } else if suspended.options.linger && !suspended.options.linger_time.is_zero() {
            // The thread that had to linger is another one.
            let _ = sys::set_option(new, SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 0, l_linger: 0 });
        }
        give_up(lane, &suspended);
    }
    sys::close(new);
    placed?;
    kernel::given(lane, socket.index, None, reason, 0);
    Ok(())
}

/// Resumes the connection as it was.
fn resume(lane: &'static Lane, from: &Suspended) {
    let _ = lane.with(|access| Ok(access.stack.tcp_resume(from.id, access.now)?));
}

/// Ends a connection that the kernel has, or may have: two stacks must not continue it.
fn give_up(lane: &'static Lane, from: &Suspended) {
    let _ = lane.with(|access| {
        access.stack.tcp_resume(from.id, access.now)?;
        // The program still has its descriptor, and gets the error.
        Ok(access.stack.tcp_sever(from.id, access.now)?)
    });
}

/// Ends the connection of a kernel socket by a RST, so that the peer does not take it for the end
/// of the stream.
fn reset(socket: c_int) {
    // The address of family `AF_UNSPEC` does that.
    let _ = sys::connect(socket, &[0; 16]);
}

/// Hands over those connections that no other process has. For a program that is about to leave its
/// lane, or to make a child that cannot have it. Returns how many were handed over.
///
/// # Errors
/// [`UNKNOWN`]: the service does not answer. The others stay as they are.
pub(crate) fn own_to_kernel(lane: &'static Lane, reason: Reason, those: impl Fn(c_int) -> bool) -> Result<usize> {
    let mut gone = 0;
    for (fd, entry) in TABLE.each().filter(|&(fd, _)| those(fd)) {
        let Entry::Tcp(index) = entry else { continue };
        let connection = lane.with(|access| {
            let is_connection = matches!(tcp::stage(access, index)?.0, Stage::Connection(_));
            is_connection.then(|| Same::of(access, fd, index)).transpose()
        });
        // It may have gone already by another of its descriptors.
        if let (Ok(Some(socket)), true) = (connection, TABLE.get(fd) == entry) {
            match to_kernel(lane, &socket, reason) {
                Ok(()) => gone += 1,
                Err(UNKNOWN) => return Err(UNKNOWN),
                Err(_) => {}
            }
        }
    }
    Ok(gone)
}

/// Gives those sockets of this process to the kernel that no other process has.
pub(crate) fn each_to_kernel(lane: &'static Lane, reason: Reason, those: impl Fn(c_int) -> bool) {
    let moved = own_to_kernel(lane, reason, &those);
    kernel::give_each_to_kernel(lane, reason, false, &those);
    if moved.is_ok() {
        // The connections that its listeners have accepted meanwhile.
        let _ = own_to_kernel(lane, reason, &those);
    }
}

/// Gives all sockets of the lane to the kernel, for a program that is about to confine itself.
pub(crate) fn before_confinement(lane: &'static Lane) {
    each_to_kernel(lane, Reason::Confined, |_| true);
    closed_to_kernel(lane);
}

/// Hands over connections that the program has closed and the stack has yet to send data of: it
/// arrives although the lane ends. Returns how many were handed over.
pub(crate) fn closed_to_kernel(lane: &'static Lane) -> usize {
    let mut gone = 0;
    for closed in pending::unfinished_of(lane) {
        let _moving = hold();
        let suspended = lane.with_quietly(|access| {
            let id = access.stack.tcp_closed(closed.local, closed.remote).ok_or(IMPOSSIBLE)?;
            let flags = if closed.local.address.family() == Family::V6 { flag::V6 } else { 0 };
            read_out(access, id, closed.claim, flags)
        });
        let Ok(suspended) = suspended else { continue };
        let from = &suspended;
        match take_over(lane, from) {
            Ok(new) => {
                pending::is_the_kernels(lane, &closed);
                // The service has set it, for the case that the socket is never taken.
                let _ = sys::set_option(new, SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 0, l_linger: 0 });
                set_service(new, from);
                let _ = lane.with_quietly(|access| Ok(access.stack.tcp_leave(from.id)?));
                sys::close(new);
                gone += 1;
            }
            Err(Unserved::Refused(_)) => resume(lane, from),
            Err(Unserved::Unknown(reason)) => {
                let _ = lane.with_quietly(|access| Ok(access.stack.tcp_abort(from.id, access.now)?));
                if matches!(reason, Reason::ServiceError | Reason::LaneGone) {
                    // Each of the others would wait for the service just as long, and be lost.
                    break;
                }
            }
        }
    }
    gone
}

/// Whether this process has a connection of its own that may be handed over, or may be soon: it is
/// open, is being opened, or is suspended for that.
pub(crate) fn any_left(access: &mut Access<'_>) -> bool {
    let own = 1 << access.slot;
    (0..access.descriptions().used()).any(|index| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        *description.holders() == own
            && TcpId::try_from(description.socket()).is_ok_and(|id| {
                access.stack.tcp_state(id).is_ok_and(|state| !matches!(state, TcpState::Closed | TcpState::TimeWait))
            })
    })
}

/// How long a program that this one has just started may take to release what it was not given.
const STARTING: Span = Span::from_millis(500);
const LOOK_AGAIN: Span = Span::from_millis(1);

/// Waits until a started program has released the sockets that it was not given. Until then the
/// child has all connections of its parent.
pub(crate) fn wait_for_started(lane: &'static Lane, socket: &Same) {
    let until = sys::now() + STARTING;
    let shared = || {
        lane.with(|access| {
            let own = 1 << access.slot;
            Ok(*access.descriptions().get(socket.index).holders() & !own != 0)
        })
    };
    while shared() == Ok(true) && sys::now() < until {
        let _ = sys::ppoll(&mut [], Some(LOOK_AGAIN), None);
    }
}

const IMPOSSIBLE: Errno = Errno(libc::EOPNOTSUPP);
/// The state of a connection is unknown, and stays so: the service does not answer.
pub(crate) const UNKNOWN: Errno = Errno(libc::ETIMEDOUT);
/// A descriptor could not be given to the kernel socket.
const UNPLACED: Errno = Errno(libc::EMFILE);

fn suspend(access: &mut Access<'_>, socket: &Same) -> Result<Suspended> {
    socket.check(access)?;
    let own = 1 << access.slot;
    let mut descriptions = access.descriptions();
    let mut description = descriptions.get(socket.index);
    let (flags, claim, alone) = (description.flags(), *description.claim(), *description.holders() == own);
    let id = TcpId::try_from(description.socket()).map_err(|_| IMPOSSIBLE)?;
    // The descriptors of another process cannot be changed.
    if !alone || claim == 0 {
        return Err(IMPOSSIBLE);
    }
    read_out(access, id, claim, flags)
}

fn read_out(access: &mut Access<'_>, id: TcpId, claim: u64, flags: u64) -> Result<Suspended> {
    let options = access.stack.tcp_options(id)?;
    let state = access.stack.tcp_suspend(id, access.now).map_err(|_| IMPOSSIBLE)?;
    let mut bytes = Vec::with_capacity((state.unread + state.in_flight + state.unsent) as usize);
    access.stack.tcp_leaving_bytes(id, |some| bytes.extend_from_slice(some))?;
    Ok(Suspended { id, claim, flags, options, state, bytes })
}

/// The kernel socket, which has the connection from now on.
fn take_over(lane: &'static Lane, from: &Suspended) -> core::result::Result<c_int, Unserved> {
    let file = sys::memory_file(&from.bytes).map_err(|_| Unserved::Refused(Reason::Descriptors))?;
    let request = Request::TakeOver { claim: Claim(from.claim), v6: from.flags & flag::V6 != 0, state: from.state };
    let answer = lane.ask_for_descriptors(&request, Some(file), |reply, descriptors| match reply {
        Reply::TakenOver => descriptors.take(0).map(IntoRawFd::into_raw_fd).ok_or(Reason::BadRequest),
        _ => Err(Reason::BadRequest),
    });
    sys::close(file);
    answer
}

/// Replaces the connection's descriptors by the kernel socket.
fn place(lane: &'static Lane, socket: &Same, from: &Suspended, new: c_int, reason: Reason) -> Result<()> {
    copy_options(socket.fd, new, from);
    let inode = sys::socket_inode(new).unwrap_or(0);
    moved::remember(socket.inode, inode);
    let shut = lane.with(|access| {
        socket.check(access)?;
        // Before any other thread sees that it is a kernel socket.
        for (fd, _) in TABLE.each().filter(|(_, entry)| entry.description() == Some(socket.index)) {
            // Another thread may be closing a copy of it.
            if sys::replace(fd, new).is_err() && TABLE.get(fd).description() == Some(socket.index) {
                return Err(UNPLACED);
            }
        }
        let shut = access.stack.tcp_leave(from.id)?;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(socket.index);
        *description.claim() = 0;
        description.becomes_the_kernels(reason);
        Ok(shut)
    });
    // The program has closed it meanwhile, or the lane has ended: then the connection ends here.
    let (read, write) = shut?;
    let write = write && !from.state.fin_acknowledged;
    for (_, how) in [(read, libc::SHUT_RD), (write, libc::SHUT_WR)].into_iter().filter(|&(shut, _)| shut) {
        let _ = sys::shutdown(new, how);
    }
    Ok(())
}

/// Gives the new socket the options of the old one, and the stack's options of the connection.
fn copy_options(old: c_int, new: c_int, from: &Suspended) {
    let Suspended { flags, options, state, .. } = from;
    let v6 = flags & flag::V6 != 0;
    inherited::copy(old, new, v6);
    // The old one is bound to an interface only if the program asked for it.
    if state.interface != 0 {
        let _ = sys::set_option(new, SOL_SOCKET, SO_BINDTOIFINDEX, &state.interface);
    }
    let set = |level: c_int, name: c_int, value: c_int| {
        let _ = sys::set_option(new, level, name, &value);
    };
    for (name, bit) in [(libc::SO_REUSEADDR, flag::REUSE_ADDRESS), (libc::SO_REUSEPORT, flag::REUSE_PORT)] {
        if flags & bit != 0 {
            set(SOL_SOCKET, name, 1);
        }
    }
    // The service has set SO_LINGER, for the case that the socket is never taken.
    for &(level, name) in SAME_NUMBER.iter().chain(&[(IPPROTO_TCP, libc::TCP_LINGER2), (SOL_SOCKET, libc::SO_LINGER)]) {
        if let Some(value) = option::tcp::value(options, || None, level, name) {
            let _ = sys::set_option_bytes(new, level, name, &value);
        }
    }
    if options.send_fixed {
        set(SOL_SOCKET, libc::SO_SNDBUF, options.send_buffer as c_int);
    }
    if options.receive_fixed {
        set(SOL_SOCKET, libc::SO_RCVBUF, options.receive_buffer as c_int);
    }
    if options.max_segment != 0 {
        set(IPPROTO_TCP, libc::TCP_MAXSEG, options.max_segment.into());
    }
    set_service(new, from);
    // The host's default stays, unless the program has chosen otherwise.
    let mut name = [0; 16];
    if let Ok(len) = sys::option_bytes(old, IPPROTO_TCP, libc::TCP_CONGESTION, &mut name) {
        let _ = sys::set_option_bytes(new, IPPROTO_TCP, libc::TCP_CONGESTION, &name[..len]);
    }
    if options.algorithm == Algorithm::Reno {
        let _ = sys::set_option_bytes(new, IPPROTO_TCP, libc::TCP_CONGESTION, b"reno");
    }
    // Setting the traffic class has set it, too.
    if let Ok(priority) = sys::option(old, SOL_SOCKET, libc::SO_PRIORITY) {
        set(SOL_SOCKET, libc::SO_PRIORITY, priority);
    }
    let nonblock = if flags & flag::NONBLOCK != 0 { libc::O_NONBLOCK } else { 0 };
    let others = sys::fcntl(old, libc::F_GETFL, 0).unwrap_or(0) & !libc::O_NONBLOCK;
    let _ = sys::fcntl(new, libc::F_SETFL, others | nonblock);
}

/// Gives the new socket the type of service, or traffic class, of the old one's packets.
fn set_service(new: c_int, from: &Suspended) {
    let (level, name) = match from.state.remote.address.family() {
        Family::V4 => (IPPROTO_IP, libc::IP_TOS),
        Family::V6 => (IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    let _ = sys::set_option(new, level, name, &c_int::from(from.options.tos));
}
