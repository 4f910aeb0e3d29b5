//! The events of `poll` and `epoll` (`asm-generic/poll.h`, `linux/eventpoll.h`): both have the same
//! numbers, and so does [`Ready`].

use tickwire_stack::epoll_sets::Interest;
use tickwire_stack::{Ready, SocketKind};

/// The bits that a socket or a set may report. It has no priority data to read (`POLLRDBAND`).
const KNOWN: u32 = Ready::IN.0
    | Ready::PRI.0
    | Ready::OUT.0
    | Ready::ERR.0
    | Ready::HUP.0
    | Ready::RDNORM.0
    | Ready::WRNORM.0
    | Ready::WRBAND.0
    | Ready::RDHUP.0;

/// The readiness that a program asks for by these events.
#[must_use]
#[inline]
pub const fn asked(events: u32) -> Ready {
    Ready(events & KNOWN)
}

/// The events that are reported if a socket of this kind is `ready` and the program asks for
/// `events`: exactly those of them that hold, and errors and hang-ups in any case.
#[must_use]
#[inline]
pub const fn reported(kind: SocketKind, ready: Ready, events: u32) -> u32 {
    ready.with_classes(kind).0 & (events | Ready::ERR.0 | Ready::HUP.0)
}

/// What an item of an epoll instance waits for.
#[must_use]
pub fn interest(events: u32) -> Interest {
    Interest {
        ready: asked(events),
        edge: events & libc::EPOLLET as u32 != 0,
        oneshot: events & libc::EPOLLONESHOT as u32 != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_numbers_of_linux() {
        for (ready, event) in [
            (Ready::IN, libc::POLLIN),
            (Ready::PRI, libc::POLLPRI),
            (Ready::OUT, libc::POLLOUT),
            (Ready::ERR, libc::POLLERR),
            (Ready::HUP, libc::POLLHUP),
            (Ready::RDNORM, libc::POLLRDNORM),
            (Ready::WRNORM, libc::POLLWRNORM),
            (Ready::WRBAND, libc::POLLWRBAND),
            (Ready::RDHUP, libc::POLLRDHUP),
        ] {
            let event = event as u32;
            assert_eq!((asked(event), reported(SocketKind::Tcp, ready, event)), (ready, event), "{event:x}");
        }
    }

    #[test]
    fn a_class_of_data_is_reported_if_it_was_asked_for_and_the_socket_has_it() {
        let all = Ready::IN | Ready::OUT;
        for (kind, told) in [
            (SocketKind::Tcp, 0x145),
            (SocketKind::Listener, 0x145),
            (SocketKind::Set, 0x145),
            (SocketKind::Udp, 0x345),
        ] {
            assert_eq!(reported(kind, all, 0x3c7), told, "{kind:?}");
            for bit in (0..16).map(|at| 1 << at) {
                assert_eq!(reported(kind, all, bit), told & bit, "{kind:?} {bit:x}");
            }
            assert_eq!(reported(kind, Ready::OUT, 0x41), 0, "{kind:?}");
        }
    }

    #[test]
    fn errors_and_hang_ups_are_reported_in_any_case() {
        let ready = Ready::ERR | Ready::HUP | Ready::IN | Ready::RDHUP;
        assert_eq!(reported(SocketKind::Tcp, ready, 0), 0x18);
        assert_eq!((asked(0), asked(0x4a0)), (Ready::NONE, Ready::NONE), "POLLNVAL, POLLRDBAND, POLLMSG");
    }

    #[test]
    fn an_item_may_wait_for_edges_or_once() {
        let (edge, once) = (1 << 31, 1 << 30);
        assert_eq!(interest(0x1), Interest::level(Ready::IN));
        assert_eq!(interest(0x5 | edge), Interest::edge(Ready::IN | Ready::OUT));
        assert_eq!(interest(0x40 | once), Interest { ready: Ready::RDNORM, edge: false, oneshot: true });
    }
}
