//! What is the case at a socket, in the bits of AFD, the part of Windows' kernel that is behind
//! Winsock. `select`, `WSAPoll` and the network events are made of these bits there, too.

use core::ops::{BitOr, BitOrAssign};
use tickwire_stack::Ready;
use tickwire_stack::tcp::TcpState;
use windows_sys::Win32::Networking::WinSock::{POLLERR, POLLHUP, POLLNVAL, POLLRDBAND, POLLRDNORM, POLLWRNORM};

/// What is the case at a socket: `AFD_POLL_` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition(pub(crate) u32);

impl Condition {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);
    /// Data can be received (`AFD_POLL_RECEIVE`).
    pub(crate) const READ: Self = Self(0x1);
    /// Urgent data can (`AFD_POLL_RECEIVE_EXPEDITED`).
    pub(crate) const URGENT: Self = Self(0x2);
    /// Data can be sent (`AFD_POLL_SEND`).
    pub(crate) const WRITE: Self = Self(0x4);
    /// The peer sends no more (`AFD_POLL_DISCONNECT`).
    pub(crate) const END: Self = Self(0x8);
    /// The connection has failed (`AFD_POLL_ABORT`).
    pub(crate) const RESET: Self = Self(0x10);
    /// The socket has been closed (`AFD_POLL_LOCAL_CLOSE`).
    pub(crate) const CLOSED: Self = Self(0x20);
    /// It has a peer (`AFD_POLL_CONNECT`).
    pub(crate) const CONNECTED: Self = Self(0x40);
    /// A connection can be accepted (`AFD_POLL_ACCEPT`).
    pub(crate) const ACCEPT: Self = Self(0x80);
    /// The attempt to connect has failed (`AFD_POLL_CONNECT_FAIL`).
    pub(crate) const REFUSED: Self = Self(0x100);

    /// For which `select` leaves a socket in its first set: a call that receives or accepts returns
    /// at once.
    pub(crate) const SELECT_READ: Self =
        Self(Self::READ.0 | Self::ACCEPT.0 | Self::END.0 | Self::RESET.0 | Self::CLOSED.0);
    /// In its second set.
    pub(crate) const SELECT_WRITE: Self = Self(Self::WRITE.0 | Self::CLOSED.0);
    /// In its third set.
    pub(crate) const SELECT_EXCEPT: Self = Self(Self::URGENT.0 | Self::REFUSED.0 | Self::CLOSED.0);

    /// Whether one of these is the case.
    pub(crate) const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// The bits of `WSAPoll`, of those that the program wants. What has ended or failed is always
    /// told. An attempt to connect that has failed is told as of Windows 10, version 2004.
    pub(crate) fn polled(self, wanted: i16) -> i16 {
        let table = [
            (Self::READ | Self::ACCEPT, POLLRDNORM),
            (Self::URGENT, POLLRDBAND),
            (Self::WRITE | Self::REFUSED, POLLWRNORM),
            (Self::END | Self::RESET | Self::REFUSED, POLLHUP),
            (Self::RESET | Self::REFUSED, POLLERR),
            (Self::CLOSED, POLLNVAL),
        ];
        let bits = table.iter().filter(|(condition, _)| self.has(*condition)).fold(0, |bits, (_, bit)| bits | bit);
        bits & (wanted | POLLHUP | POLLERR | POLLNVAL)
    }
}

impl BitOr for Condition {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Condition {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// What the stack says of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// Its state.
    pub(crate) state: TcpState,
    /// Its readiness.
    pub(crate) ready: Ready,
    /// Bytes are there to be read.
    pub(crate) has_unread: bool,
    /// It has been established.
    pub(crate) was_established: bool,
    /// A call has returned the error by which it has ended.
    pub(crate) has_told_error: bool,
}

impl Connection {
    /// What is the case at it. Windows drops what a program has not read when the peer resets.
    pub(crate) fn condition(self) -> Condition {
        use TcpState::{CloseWait, Closed, Closing, Free, LastAck, SynReceived, SynSent, TimeWait};
        match self.state {
            SynSent | SynReceived => return Condition::NONE,
            Closed | Free if !self.was_established => return Condition::REFUSED,
            _ => (),
        }
        let mut found = Condition::CONNECTED;
        let mut add = |is_so: bool, what: Condition| found |= if is_so { what } else { Condition::NONE };
        add(self.ready.contains(Ready::OUT), Condition::WRITE);
        add(self.ready.contains(Ready::PRI), Condition::URGENT);
        let is_reset = self.state == Closed && (self.ready.contains(Ready::ERR) || self.has_told_error);
        add(is_reset, Condition::RESET);
        add(self.has_unread && !is_reset, Condition::READ);
        let is_at_end = matches!(self.state, CloseWait | LastAck | Closing | TimeWait | Closed);
        add(is_at_end && !is_reset, Condition::END);
        found
    }
}

/// What is the case at a UDP socket. An error is received by the next call, as a datagram is.
pub(crate) fn of_datagrams(ready: Ready, has_peer: bool) -> Condition {
    let read = ready.0 & (Ready::IN.0 | Ready::ERR.0) != 0;
    let pairs =
        [(read, Condition::READ), (ready.contains(Ready::OUT), Condition::WRITE), (has_peer, Condition::CONNECTED)];
    pairs.iter().filter(|(is_so, _)| *is_so).fold(Condition::NONE, |all, (_, what)| all | *what)
}

/// What is the case at a listener.
pub(crate) fn of_listener(ready: Ready) -> Condition {
    if ready.contains(Ready::IN) { Condition::ACCEPT } else { Condition::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Condition = Condition(Condition::CONNECTED.0 | Condition::WRITE.0);

    #[test]
    fn a_connection_shows_as_on_windows() {
        let in_out = Ready(Ready::IN.0 | Ready::OUT.0);
        let ended = Ready(in_out.0 | Ready::RDHUP.0 | Ready::HUP.0);
        let failed = Ready(ended.0 | Ready::ERR.0);
        // State, readiness, unread bytes, established before, error told; and what is shown.
        let table = [
            (TcpState::SynSent, Ready::NONE, false, false, false, Condition::NONE),
            (TcpState::SynSent, ended, false, false, false, Condition::NONE),
            (TcpState::Closed, failed, false, false, false, Condition::REFUSED),
            (TcpState::Closed, ended, false, false, true, Condition::REFUSED),
            (TcpState::Established, Ready::OUT, false, true, false, UP),
            (TcpState::Established, in_out, true, true, false, UP | Condition::READ),
            (TcpState::Established, Ready::NONE, false, true, false, Condition::CONNECTED),
            // This side reads no more: not the end of the peer's.
            (TcpState::Established, in_out, false, true, false, UP),
            // This side sends no more.
            (TcpState::FinWait2, Ready::OUT, false, true, false, UP),
            (TcpState::CloseWait, in_out, true, true, false, UP | Condition::READ | Condition::END),
            (TcpState::CloseWait, in_out, false, true, false, UP | Condition::END),
            (TcpState::TimeWait, ended, false, true, false, UP | Condition::END),
            (TcpState::Closed, ended, false, true, false, UP | Condition::END),
            (TcpState::Closed, failed, true, true, false, UP | Condition::RESET),
            (TcpState::Closed, ended, false, true, true, UP | Condition::RESET),
            // An error that is pending does not end a connection that is there.
            (TcpState::Established, Ready(in_out.0 | Ready::ERR.0), true, true, false, UP | Condition::READ),
            (
                TcpState::Established,
                Ready(in_out.0 | Ready::PRI.0),
                true,
                true,
                false,
                UP | Condition::READ | Condition::URGENT,
            ),
        ];
        for (number, (state, ready, has_unread, was_established, has_told_error, shown)) in
            table.into_iter().enumerate()
        {
            let connection = Connection { state, ready, has_unread, was_established, has_told_error };
            assert_eq!(connection.condition(), shown, "row {number}: {connection:?}");
        }
    }

    #[test]
    fn datagrams_and_listeners_show_as_on_windows() {
        assert_eq!(of_datagrams(Ready::OUT, false), Condition::WRITE);
        assert_eq!(of_datagrams(Ready::ERR, true), Condition::READ | Condition::CONNECTED);
        assert_eq!(of_datagrams(Ready(Ready::IN.0 | Ready::OUT.0), false), Condition::READ | Condition::WRITE);
        assert_eq!(of_listener(Ready::IN), Condition::ACCEPT);
        assert_eq!(of_listener(Ready::NONE), Condition::NONE);
    }

    #[test]
    fn poll_tells_what_is_wanted_and_what_is_over() {
        let both = POLLRDNORM | POLLWRNORM;
        for (condition, wanted, told) in [
            (Condition::NONE, both, 0),
            (UP, both, POLLWRNORM),
            (UP, POLLRDNORM, 0),
            (UP | Condition::READ, both, both),
            (UP | Condition::READ | Condition::URGENT, POLLRDBAND, POLLRDBAND),
            (UP | Condition::END, both, POLLWRNORM | POLLHUP),
            (UP | Condition::END, POLLRDNORM, POLLHUP),
            (UP | Condition::RESET, 0, POLLHUP | POLLERR),
            (Condition::REFUSED, both, POLLWRNORM | POLLHUP | POLLERR),
            (Condition::REFUSED, POLLRDNORM, POLLHUP | POLLERR),
            (Condition::ACCEPT, both, POLLRDNORM),
            (Condition::CLOSED, both, POLLNVAL),
        ] {
            assert_eq!(condition.polled(wanted), told, "{condition:?}, {wanted:#x}");
        }
    }

    #[test]
    fn a_refused_connection_is_in_the_third_set_alone() {
        let refused = Condition::REFUSED;
        assert!(!refused.has(Condition::SELECT_READ) && !refused.has(Condition::SELECT_WRITE));
        assert!(refused.has(Condition::SELECT_EXCEPT));
        let ended = UP | Condition::END;
        assert!(ended.has(Condition::SELECT_READ) && !ended.has(Condition::SELECT_EXCEPT));
    }
}
