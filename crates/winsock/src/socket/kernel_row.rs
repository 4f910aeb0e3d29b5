//! A socket that stays on the kernel has a row in the lane's table, with its reason.

use super::{Kind, Socket};
use crate::lane::lane_if_begun;
use crate::{real, spin};
use tickwire_lane::control::Reason;
use tickwire_stack::table::kind;

/// Shows a socket. Returns the number of its row; `None` if there is no lane, or no row is free.
pub(super) fn show(socket: &Socket, reason: Reason) -> Option<usize> {
    let lane = lane_if_begun()?;
    let local = real::name(socket.handle).unwrap_or_default();
    lane.kernel_rows(|rows| {
        let (number, row) = rows.iter().enumerate().find(|(_, row)| row.kind.get() == kind::FREE)?;
        row.clear();
        row.pid.set(std::process::id());
        row.fd.set(socket.handle as u32);
        row.reason.set(reason.code().into());
        row.local.set(local);
        row.polled.set(spin::does_poll().into());
        row.kind.set(if socket.kind == Kind::Datagram { kind::KERNEL_UDP } else { kind::KERNEL_TCP });
        Some(number)
    })
}

/// A thread has polled the socket, and has found something, or is about to sleep.
pub(super) fn count_poll(number: usize, has_found: bool) {
    if let Some(lane) = lane_if_begun() {
        lane.kernel_rows(|rows| {
            if let Some(row) = rows.get(number) {
                if has_found { row.polls_found.inc() } else { row.polls_slept.inc() }
            }
        });
    }
}

/// The socket is closed. Its row is free, and keeps the reason for the service's log until another
/// socket has it.
pub(super) fn hide(number: usize) {
    if let Some(lane) = lane_if_begun() {
        lane.kernel_rows(|rows| {
            if let Some(row) = rows.get(number) {
                row.kind.set(kind::FREE);
            }
        });
    }
}
