//! What a descriptor of ours is ready for.

use crate::lane::Access;
use crate::sys::errno::{DEMOTED, Result};
use crate::table::desc::flag;
use crate::table::fd::Entry;
use crate::wait::KernelHint;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{Ready, SocketKind};

/// The events to ask the kernel for on a descriptor of ours, in addition to the stack.
pub(crate) fn kernel_events(access: &mut Access<'_>, entry: Entry, events: u32) -> u32 {
    let Some(index) = entry.description() else { return events };
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    let bits = description.flags();
    if bits & flag::KERNEL != 0 {
        return events;
    }
    match description.socket().kind {
        // Data that arrives through the kernel. A kernel socket is always writable, which must not
        // count.
        SocketKind::Udp | SocketKind::Listener | SocketKind::Set => events & READING,
        // The kernel socket is only a placeholder, and would show a hang-up.
        SocketKind::Tcp => 0,
        SocketKind::None => events,
    }
}

/// Whether only the kernel knows a descriptor's readiness: it is not ours, or the stack does not
/// have the socket.
pub(crate) fn is_kernels(access: &mut Access<'_>, entry: Entry) -> bool {
    let Some(index) = entry.description() else { return true };
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    description.has(flag::KERNEL) || description.socket().kind == SocketKind::None
}

/// The bits that request readability; same numbers in poll and epoll.
const READING: u32 = (libc::POLLIN | libc::POLLPRI | libc::POLLRDNORM | libc::POLLRDBAND) as u32;

/// The kind of a descriptor of ours and its readiness in the stack; none for a socket that the
/// stack does not have yet.
pub(crate) fn in_stack(access: &mut Access<'_>, index: u32) -> Result<(SocketKind, Ready)> {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    if description.has(flag::KERNEL) {
        return Err(DEMOTED);
    }
    match description.socket() {
        socket if socket.kind == SocketKind::None => Ok((socket.kind, Ready::NONE)),
        socket => Ok((socket.kind, access.stack.readiness(socket)?)),
    }
}

/// The kernel has data for a socket of ours: the next receive checks there at once.
pub(crate) fn kernel_has_some(access: &mut Access<'_>, index: u32) {
    access.descriptions().get(index).set(flag::KERNEL_QUIET, false);
}

/// How long an empty kernel socket is assumed to stay empty while the program polls.
const KERNEL_QUIET: Span = Span::from_micros(50);

/// When the kernel last reported anything to this process that may have been for a socket of ours,
/// in nanoseconds.
static KERNEL_SPOKE: AtomicU64 = AtomicU64::new(0);

/// The kernel has reported something (an event of an instance, a datagram to a neighbour) and it is
/// not known for which socket: earlier checks of all of them become invalid. An edge is reported
/// only once, so the next receive must check.
pub(crate) fn kernel_spoke(now: Instant) {
    KERNEL_SPOKE.fetch_max(now.as_nanos(), Relaxed);
}

/// Whether a kernel socket with flags `bits`, last checked at `checked`, is assumed to be empty.
pub(crate) fn kernel_is_quiet(kernel: KernelHint, bits: u64, checked: u64, now: Instant) -> bool {
    let believed = match kernel {
        KernelHint::Speaks => false,
        KernelHint::Silent => true,
        KernelHint::Unknown => now.as_nanos() < checked + KERNEL_QUIET.as_nanos(),
    };
    believed && bits & flag::KERNEL_QUIET != 0 && checked > KERNEL_SPOKE.load(Relaxed)
}

/// The bits of a `short`, as in `struct pollfd`.
pub(crate) fn short(bits: u32) -> libc::c_short {
    bits as libc::c_short
}

/// The bits of a `short` without its sign.
pub(crate) fn long(bits: libc::c_short) -> u32 {
    u32::from(bits as u16)
}
