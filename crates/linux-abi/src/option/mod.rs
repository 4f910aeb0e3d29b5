//! Socket options (`asm-generic/socket.h`, `linux/in.h`, `linux/in6.h`, `linux/tcp.h`): their
//! values as bytes, and the numbers that the libc crate does not have. `tcp` and `udp` say which
//! setting of the stack each is.

pub mod tcp;
pub mod udp;

use core::ffi::c_int;
use tickwire_stack::tcp::Algorithm;
use tickwire_stack::time::Span;

// At the level SOL_SOCKET.
/// The peer's name.
pub const SO_PEERNAME: c_int = 28;
/// Report whether a frame was acknowledged by a wireless peer.
pub const SO_WIFI_STATUS: c_int = 41;
/// The filter cannot be changed any more.
pub const SO_LOCK_FILTER: c_int = 44;
/// `select` reports the error queue as exceptional.
pub const SO_SELECT_ERR_QUEUE: c_int = 45;
/// A limit of the rate.
pub const SO_MAX_PACING_RATE: c_int = 47;
/// The processor that takes packets in.
pub const SO_INCOMING_CPU: c_int = 49;
/// The program's view of whether the path works.
pub const SO_CNX_ADVICE: c_int = 53;
/// Sending without a copy.
pub const SO_ZEROCOPY: c_int = 60;
/// The time at which a packet is to be sent; also the control message with that time.
pub const SO_TXTIME: c_int = 61;
/// As `SO_BINDTODEVICE`, by the interface's number (Linux 5.0).
pub const SO_BINDTOIFINDEX: c_int = 62;
/// `SO_TIMESTAMP` with 64-bit times on every machine.
pub const SO_TIMESTAMP_NEW: c_int = 63;
/// `SO_TIMESTAMPNS`, likewise.
pub const SO_TIMESTAMPNS_NEW: c_int = 64;
/// `SO_TIMESTAMPING`, likewise.
pub const SO_TIMESTAMPING_NEW: c_int = 65;
/// Polling in the program's time, instead of interrupts.
pub const SO_PREFER_BUSY_POLL: c_int = 69;
/// How many packets one poll takes.
pub const SO_BUSY_POLL_BUDGET: c_int = 70;
/// A number that identifies the network namespace (Linux 5.14).
pub const SO_NETNS_COOKIE: c_int = 71;
/// Which buffers the kernel may not resize (Linux 5.15).
pub const SO_BUF_LOCK: c_int = 72;
/// Memory that the socket has reserved.
pub const SO_RESERVE_MEM: c_int = 73;
/// Whether a flow's hash may change.
pub const SO_TXREHASH: c_int = 74;
/// A control message with a packet's mark.
pub const SO_RCVMARK: c_int = 75;

// At the level IPPROTO_IP.
/// `IP_RECVERR` with RFC 4884's extensions.
pub const IP_RECVERR_RFC4884: c_int = 26;
/// The ports from which one is chosen (Linux 6.3).
pub const IP_LOCAL_PORT_RANGE: c_int = 51;

// At the level IPPROTO_IPV6.
/// As `IP_MULTICAST_ALL`.
pub const IPV6_MULTICAST_ALL: c_int = 29;
/// `IPV6_RECVERR` with RFC 4884's extensions.
pub const IPV6_RECVERR_RFC4884: c_int = 31;

// At the level IPPROTO_TCP.
/// A delay of all packets.
pub const TCP_TX_DELAY: c_int = 37;
/// The first option of TCP-AO (RFC 5925).
pub const TCP_AO_ADD_KEY: c_int = 38;
/// The last one.
pub const TCP_AO_REPAIR: c_int = 42;

/// The longest name of a congestion control, with its zero (`TCP_CA_NAME_MAX`).
pub const ALGORITHM_NAME: usize = 16;

/// The value of an option that is a number: four bytes, or one.
#[must_use]
pub fn number(value: &[u8]) -> Option<c_int> {
    value.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes)).or(value.first().map(|&byte| c_int::from(byte)))
}

/// A `struct timeval` (`SO_RCVTIMEO`, `SO_SNDTIMEO`) as a span; zero is no timeout.
#[must_use]
pub fn timeval(value: &[u8]) -> Option<Span> {
    let (seconds, micros) = value.get(..16)?.split_at(8);
    let seconds = i64::from_ne_bytes(seconds.try_into().ok()?);
    let micros = i64::from_ne_bytes(micros.try_into().ok()?);
    // The kernel refuses microseconds out of range; a negative time there means "at once", which is
    // nearly this.
    if seconds < 0 {
        return Some(Span::from_nanos(1));
    }
    Some(Span::from_nanos(
        (seconds as u64).saturating_mul(1_000_000_000).saturating_add((micros.max(0) as u64).saturating_mul(1000)),
    ))
}

/// A `struct linger` (`SO_LINGER`): the time, or the inner `None` if it is off.
#[must_use]
pub fn linger(value: &[u8]) -> Option<Option<Span>> {
    let (on, seconds) = value.get(..8)?.split_at(4);
    let seconds = number(seconds)?.max(0) as u64;
    Some((number(on)? != 0).then_some(Span::from_secs(seconds)))
}

/// The stack's congestion control of this name (`TCP_CONGESTION`), which may end with a zero.
#[must_use]
pub fn algorithm(name: &[u8]) -> Option<Algorithm> {
    let name = name.split(|&byte| byte == 0).next()?;
    Algorithm::from_name(core::str::from_utf8(name).ok()?)
}

/// The name of a congestion control as Linux gives it: filled up with zeros.
#[must_use]
pub fn algorithm_name(algorithm: Algorithm) -> [u8; ALGORITHM_NAME] {
    let name = algorithm.name().as_bytes();
    core::array::from_fn(|at| name.get(at).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_number_has_four_bytes_or_one() {
        assert_eq!(number(&(-7_i32).to_ne_bytes()), Some(-7));
        assert_eq!(number(&[200]), Some(200));
        assert_eq!(number(&[200, 1, 1]), Some(200), "the kernel reads one of less than four");
        assert_eq!(number(&[1, 0, 0, 0, 9]), Some(1));
        assert_eq!(number(&[]), None);
    }

    #[test]
    fn times_are_read_as_the_kernel_does() {
        let value = |s: i64, us: i64| [s.to_ne_bytes(), us.to_ne_bytes()].concat();
        assert_eq!(timeval(&value(2, 500_000)), Some(Span::from_millis(2500)));
        assert_eq!(timeval(&value(0, 0)), Some(Span::ZERO));
        assert_eq!(timeval(&value(-1, 0)), Some(Span::from_nanos(1)));
        assert_eq!(timeval(&value(i64::MAX, 999_999)), Some(Span::from_nanos(u64::MAX)));
        assert_eq!(timeval(&value(0, i64::MAX)), Some(Span::from_nanos(u64::MAX)));
        for len in 0..16 {
            assert_eq!(timeval(&[0; 16][..len]), None, "{len}");
        }
    }

    #[test]
    fn a_lingering_close_has_a_time() {
        let value = |on: i32, seconds: i32| [on.to_ne_bytes(), seconds.to_ne_bytes()].concat();
        assert_eq!(linger(&value(1, 5)), Some(Some(Span::from_secs(5))));
        assert_eq!(linger(&value(1, 0)), Some(Some(Span::ZERO)));
        assert_eq!(linger(&value(1, -5)), Some(Some(Span::ZERO)));
        assert_eq!(linger(&value(0, 5)), Some(None));
        for len in 0..8 {
            assert_eq!(linger(&[1; 8][..len]), None, "{len}");
        }
    }

    #[test]
    fn algorithms_have_names() {
        for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
            let name = algorithm_name(algorithm);
            assert_eq!(super::algorithm(&name), Some(algorithm));
            assert_eq!(name.last(), Some(&0));
        }
        assert_eq!(algorithm(b"reno"), Some(Algorithm::Reno));
        assert_eq!(algorithm(b"cubic\0bbr"), Some(Algorithm::Cubic));
        for other in [b"".as_slice(), b"\0reno", b"bbr", b"renox", b"cubi", &[0xff; 300]] {
            assert_eq!(algorithm(other), None, "{other:?}");
        }
    }

    /// The bytes of a value of several words.
    pub(super) fn words(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}
