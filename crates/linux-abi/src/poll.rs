//! The events of `poll` and `epoll` (`asm-generic/poll.h`, `linux/eventpoll.h`): both have the same
//! numbers, and so does [`Ready`].

use tickwire_stack::Ready;
use tickwire_stack::epoll_sets::Interest;

// Normal data is the only kind that IP sockets have: equivalent to `POLLIN` and `POLLOUT`.
const RDNORM: u32 = libc::POLLRDNORM as u32;
const WRNORM: u32 = libc::POLLWRNORM as u32;

/// The readiness that a program asks for by these events.
#[must_use]
#[inline]
pub fn asked(events: u32) -> Ready {
    let mut ready = events & (Ready::IN | Ready::PRI | Ready::OUT | Ready::ERR | Ready::HUP | Ready::RDHUP).0;
    if events & RDNORM != 0 {
        ready |= Ready::IN.0;
    }
    if events & WRNORM != 0 {
        ready |= Ready::OUT.0;
    }
    Ready(ready)
}

/// The events that are reported if a socket is `ready` and the program asks for `events`: errors
/// and hang-ups are always reported.
#[must_use]
#[inline]
pub fn reported(ready: Ready, events: u32) -> u32 {
    let mut reported = ready.0 & (events | (Ready::ERR | Ready::HUP).0);
    if ready.contains(Ready::IN) {
        reported |= events & RDNORM;
    }
    if ready.contains(Ready::OUT) {
        reported |= events & WRNORM;
    }
    reported
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
            (Ready::IN, 0x1),
            (Ready::PRI, 0x2),
            (Ready::OUT, 0x4),
            (Ready::ERR, 0x8),
            (Ready::HUP, 0x10),
            (Ready::RDHUP, 0x2000),
        ] {
            assert_eq!((asked(event), reported(ready, event)), (ready, event), "{event:x}");
        }
    }

    #[test]
    fn normal_data_is_data() {
        assert_eq!((asked(0x40), asked(0x100)), (Ready::IN, Ready::OUT), "POLLRDNORM, POLLWRNORM");
        assert_eq!(reported(Ready::IN | Ready::OUT, 0x140), 0x140);
        assert_eq!(reported(Ready::IN | Ready::OUT, 0x41), 0x41);
        assert_eq!(reported(Ready::OUT, 0x41), 0);
    }

    #[test]
    fn errors_and_hang_ups_are_reported_in_any_case() {
        assert_eq!(reported(Ready::ERR | Ready::HUP | Ready::IN | Ready::RDHUP, 0), 0x18);
        assert_eq!((asked(0), asked(0x6a0)), (Ready::NONE, Ready::NONE), "POLLNVAL, other kinds of data");
    }

    #[test]
    fn an_item_may_wait_for_edges_or_once() {
        let (edge, once) = (1 << 31, 1 << 30);
        assert_eq!(interest(0x1), Interest::level(Ready::IN));
        assert_eq!(interest(0x5 | edge), Interest::edge(Ready::IN | Ready::OUT));
        assert_eq!(interest(0x40 | once), Interest { ready: Ready::IN, edge: false, oneshot: true });
    }
}
