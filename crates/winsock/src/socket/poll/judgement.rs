//! What a poll says of one socket.

use super::layout::PollRecord;
use crate::notice::{Condition, record};
use crate::socket::request::status;
use crate::socket::{Kind, Socket, State, WinsockError};
use std::sync::atomic::Ordering::Relaxed;
use windows_sys::Win32::Foundation::{NTSTATUS, STATUS_SUCCESS};

impl Socket {
    /// What a poll says of the socket, of these bits; `None` if nothing of them is the case. The
    /// kernel must not have all of the socket.
    pub(super) fn polled(&self, wanted: u32) -> Option<PollRecord> {
        let failure = || self.failure.load(Relaxed);
        let (bits, status) = match (self.state(), self.on_lane()) {
            (_, Some(id)) => told(self.condition_now(id), wanted, || self.error_of(id, record::CONNECT)),
            (State::Idle, None) => told(of_idle(self.kind, failure()), wanted, failure),
            (_, None) => None,
        }?;
        Some(PollRecord { handle: self.handle, bits, status })
    }
}

/// The bits and the status that are told, if any of the bits is the case. The end of the socket is
/// told where it is closed, so that a connection that is just being given up shows none.
fn told(condition: Condition, wanted: u32, error: impl FnOnce() -> i32) -> Option<(u32, NTSTATUS)> {
    let bits = condition.0 & wanted & !Condition::CLOSED.0;
    let is_refused = bits & Condition::REFUSED.0 != 0;
    let status = if is_refused { status::of_error(WinsockError(error())) } else { STATUS_SUCCESS };
    (bits != 0).then_some((bits, status))
}

/// What is the case at a socket that has not been bound to be received by, and has no peer.
fn of_idle(kind: Kind, failure: i32) -> Condition {
    match kind {
        Kind::Datagram => Condition::WRITE,
        Kind::Stream if failure != 0 => Condition::REFUSED,
        Kind::Stream => Condition::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::{STATUS_CONNECTION_REFUSED, STATUS_IO_TIMEOUT};
    use windows_sys::Win32::Networking::WinSock::{WSAECONNREFUSED, WSAETIMEDOUT};

    const EVERY: u32 = u32::MAX;

    #[test]
    fn a_poll_tells_what_is_wanted_and_why_a_connection_was_refused() {
        let up = Condition::CONNECTED | Condition::WRITE;
        let reset = up | Condition::RESET;
        for (condition, wanted, error, expected) in [
            (Condition::NONE, EVERY, 0, None),
            (up, EVERY, 0, Some((0x44, STATUS_SUCCESS))),
            (up, 0x4, 0, Some((0x4, STATUS_SUCCESS))),
            (up, 0x1 | 0x8 | 0x10 | 0x20, 0, None),
            (up | Condition::READ | Condition::END, EVERY, 0, Some((0x4d, STATUS_SUCCESS))),
            (reset, EVERY, 10054, Some((0x54, STATUS_SUCCESS))),
            (reset, !0x44, 10054, Some((0x10, STATUS_SUCCESS))),
            (Condition::ACCEPT, 0x80, 0, Some((0x80, STATUS_SUCCESS))),
            (Condition::REFUSED, EVERY, WSAECONNREFUSED, Some((0x100, STATUS_CONNECTION_REFUSED))),
            (Condition::REFUSED, 0x100, WSAETIMEDOUT, Some((0x100, STATUS_IO_TIMEOUT))),
            (Condition::REFUSED, 0xff, WSAECONNREFUSED, None),
            // Not the end of the program's socket.
            (Condition::CLOSED, EVERY, 0, None),
        ] {
            assert_eq!(told(condition, wanted, || error), expected, "{condition:?}, {wanted:#x}");
        }
    }

    #[test]
    fn a_socket_that_is_not_connected_shows_as_on_windows() {
        assert_eq!(of_idle(Kind::Stream, 0), Condition::NONE);
        assert_eq!(of_idle(Kind::Stream, WSAECONNREFUSED), Condition::REFUSED);
        assert_eq!(of_idle(Kind::Datagram, 0), Condition::WRITE);
    }
}
