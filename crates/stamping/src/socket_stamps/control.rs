//! Timestamps in a message's control messages (cmsg(3)), in the kernel's layout: bytes only, no
//! system call.
//!
//! A received message has one SCM_TIMESTAMPING: three times, of which the first is the kernel's and
//! the last the card's; zero means missing. A message of the error queue has the same, and an
//! extended error with the number of the sent message. With OPT_TX_SWHW kernel and card report one
//! after the other, in either order. (Documentation/networking/timestamping.rst.)

use nix::errno::Errno;
use nix::libc::{self, c_int};

/// One fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Arrival or departure by the kernel (CLOCK_REALTIME) and by the card (its own clock), in ns.
    Stamps { kernel: Option<i64>, card: Option<i64> },
    /// The timestamps are of the sent message with this number.
    Departed(u32),
}

/// Length, level and type, before each control message's body.
const HEADER: usize = size_of::<libc::cmsghdr>();
const ALIGN: usize = size_of::<usize>();
/// SCM_TIMESTAMPING's body: three `struct timespec`.
const TIMES: usize = 3 * TIME;
const TIME: usize = size_of::<libc::timespec>();
/// `struct sock_extended_err`, before the address of the error's origin.
const ERROR: usize = size_of::<libc::sock_extended_err>();

/// All facts in these bytes, up to the first invalid control message: bytes after the kernel's last
/// one are zero.
pub(super) fn said(bytes: &[u8]) -> impl Iterator<Item = Said> {
    controls(bytes).filter_map(|(level, kind, body)| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamps(body),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => departed(body),
        _ => None,
    })
}

/// Level, type and body of each.
fn controls(bytes: &[u8]) -> impl Iterator<Item = (c_int, c_int, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk()?;
        let (level, after) = after.split_first_chunk()?;
        let (kind, _) = after.split_first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let body = rest.get(HEADER..length)?;
        rest = rest.get(length.checked_next_multiple_of(ALIGN)?..).unwrap_or_default();
        Some((c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind), body))
    })
}

fn stamps(body: &[u8]) -> Option<Said> {
    let times = body.first_chunk::<TIMES>()?;
    let time = |number: usize| {
        let (seconds, ns) = times[number * TIME..][..TIME].split_at(TIME / 2);
        nanoseconds(word(seconds)?, word(ns)?)
    };
    Some(Said::Stamps { kernel: time(0), card: time(2) })
}

/// A `long`, 4 or 8 bytes.
fn word(bytes: &[u8]) -> Option<i64> {
    let long = bytes.try_into().map(i64::from_ne_bytes);
    long.or_else(|_| bytes.try_into().map(|bytes| i32::from_ne_bytes(bytes).into())).ok()
}

fn departed(body: &[u8]) -> Option<Said> {
    let error = body.first_chunk::<ERROR>()?;
    let field = |at: usize| error[at..].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let (errno, origin, data) = (field(0)?, error[4], field(12)?);
    // Other errors come from the network: a closed port, or no route.
    let stamp = errno == Errno::ENOMSG as u32 && origin == libc::SO_EE_ORIGIN_TIMESTAMPING;
    stamp.then_some(Said::Departed(data))
}

/// A timestamp in ns; zero means that there is none. A card's clock may show anything.
pub(super) fn nanoseconds(seconds: i64, ns: i64) -> Option<i64> {
    seconds.checked_mul(1_000_000_000)?.checked_add(ns).filter(|&ns| ns != 0)
}

/// Control messages in the kernel's layout.
#[cfg(test)]
pub(super) mod made {
    use super::*;

    /// A control message of any type.
    pub(crate) fn control(level: c_int, kind: c_int, body: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + body.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    /// The kernel's and the card's timestamps, in ns; 0: none.
    pub(crate) fn stamps(kernel: i64, card: i64) -> Vec<u8> {
        let words = [kernel, 0, card].map(|ns| [ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000)]);
        let body: Vec<u8> = words.concat().iter().flat_map(|word| (*word as libc::c_long).to_ne_bytes()).collect();
        control(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &body)
    }

    /// The error queue's report on the message with this number, over IPv4 or IPv6.
    pub(crate) fn departed(v6: bool, number: u32) -> Vec<u8> {
        error(v6, Errno::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, number)
    }

    pub(crate) fn error(v6: bool, errno: Errno, origin: u8, data: u32) -> Vec<u8> {
        let mut body = (errno as u32).to_ne_bytes().to_vec();
        body.extend([origin, 0, 0, 0]);
        body.extend(0u32.to_ne_bytes());
        body.extend(data.to_ne_bytes());
        // The offender's address: unspecified.
        body.extend([0; 16]);
        let (level, kind) = if v6 { (libc::SOL_IPV6, libc::IPV6_RECVERR) } else { (libc::SOL_IP, libc::IP_RECVERR) };
        control(level, kind, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::made::{control, departed, error};
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;
    const NOW: i64 = 1_790_000_000 * SECOND + 123_456_789;
    /// `SCM_TIMESTAMPING_PKTINFO`, which the socket did not enable: the receiving interface, and
    /// the length of the frame.
    const PKTINFO: c_int = 58;

    fn all(bytes: &[u8]) -> Vec<Said> {
        said(bytes).collect()
    }

    fn both(kernel: i64, card: i64) -> Said {
        let some = |ns: i64| Some(ns).filter(|&ns| ns != 0);
        Said::Stamps { kernel: some(kernel), card: some(card) }
    }

    #[test]
    fn either_stamp_both_or_none() {
        for (kernel, card) in [(NOW, 0), (0, NOW), (NOW, 37 * SECOND), (0, 0), (NOW, -5 * SECOND), (NOW, i64::MAX)] {
            assert_eq!(all(&made::stamps(kernel, card)), [both(kernel, card)]);
        }
        let centuries = [i64::MAX, 0, 0, 0, i64::MIN, i64::MIN].map(i64::to_ne_bytes).concat();
        assert_eq!(all(&control(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &centuries)), [both(0, 0)]);
    }

    #[test]
    fn a_departure_has_a_number_and_an_error_has_none() {
        for v6 in [false, true] {
            for number in [0, 7, u32::MAX] {
                let bytes = [made::stamps(NOW, 0), departed(v6, number)].concat();
                assert_eq!(all(&bytes), [both(NOW, 0), Said::Departed(number)]);
                let bytes = [departed(v6, number), made::stamps(0, NOW)].concat();
                assert_eq!(all(&bytes), [Said::Departed(number), both(0, NOW)], "in either order");
            }
            assert_eq!(all(&error(v6, Errno::ECONNREFUSED, 2, 7)), [], "an ICMP message");
            assert_eq!(all(&error(v6, Errno::ENOMSG, 2, 7)), [], "and whatever it says");
        }
    }

    #[test]
    fn what_was_not_asked_for_is_passed_over() {
        let pktinfo = control(libc::SOL_SOCKET, PKTINFO, &[3, 0, 0, 0, 90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let odd = control(libc::SOL_SOCKET, 1, b"odd");
        let bytes = [pktinfo, odd, made::stamps(NOW, 5), departed(false, 3), vec![0; 64]].concat();
        assert_eq!(all(&bytes), [both(NOW, 5), Said::Departed(3)]);
    }

    #[test]
    fn what_is_cut_off_is_not_read_and_what_is_whole_is() {
        let whole = [departed(true, 9), made::stamps(NOW, 5)].concat();
        let first = departed(true, 9).len();
        for length in 0..whole.len() {
            let expected: &[Said] = if length < first { &[] } else { &[Said::Departed(9)] };
            assert_eq!(all(&whole[..length]), expected, "cut off at {length}");
        }
        // A kernel without room truncates the body, and the length shows it.
        for body in 0..TIMES {
            let short = control(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &vec![1; body]);
            assert_eq!(all(&[short, departed(false, 9)].concat()), [Said::Departed(9)], "{body}");
        }
        for body in 0..ERROR {
            assert_eq!(all(&control(libc::SOL_IP, libc::IP_RECVERR, &vec![42; body])), [], "{body}");
        }
    }

    #[test]
    fn impossible_lengths_end_it() {
        for length in [0, 1, HEADER - 1, usize::MAX, usize::MAX - ALIGN, 1 << 40] {
            let mut bytes = [departed(false, 9), made::stamps(NOW, 5)].concat();
            bytes[..ALIGN].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(all(&bytes), [], "{length}");
        }
        let empty = HEADER.to_ne_bytes().into_iter().chain([0; HEADER - ALIGN]).collect::<Vec<_>>().repeat(100);
        assert_eq!(all(&empty), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..4usize, length in 0..100usize,
        ) {
            // A length and a type that let the parser reach the body.
            let (level, kind) = [
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING),
                (libc::SOL_IP, libc::IP_RECVERR),
                (libc::SOL_IPV6, libc::IPV6_RECVERR),
                (0, 0),
            ][kind];
            let header = [&length.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes()].concat();
            let some = bytes.len().min(header.len());
            bytes[..some].copy_from_slice(&header[..some]);
            prop_assert!(said(&bytes).count() <= bytes.len() / HEADER);
        }
    }
}
