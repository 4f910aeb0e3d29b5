//! The options that are settings or figures of a connection: one table for all replacements of
//! kernel sockets.

use super::{algorithm, algorithm_name, linger, number};
use crate::tcp_info;
use alloc::vec::Vec;
use core::ffi::c_int;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};
use tickwire_stack::tcp::{TcpInfo, TcpOptions, TcpSetting};
use tickwire_stack::time::Span;

/// Packets must not be fragmented.
const WHOLE: core::ops::RangeInclusive<c_int> = libc::IP_PMTUDISC_WANT..=libc::IP_PMTUDISC_PROBE;
/// The time to live if the program sets none, or resets it.
const HOPS: u8 = 64;

/// The setting for an option with a numeric value. `None` for options that a connection does not
/// have, and for those with other values ([`setting_of_bytes`]). [`TcpOptions::set`] checks the
/// range.
#[must_use]
pub fn setting(level: c_int, name: c_int, number: c_int) -> Option<TcpSetting> {
    let on = number != 0;
    let positive = number.max(0) as u32;
    let seconds = Span::from_secs(positive.into());
    Some(match (level, name) {
        (SOL_SOCKET, libc::SO_KEEPALIVE) => TcpSetting::KeepAlive(on),
        (SOL_SOCKET, libc::SO_OOBINLINE) => TcpSetting::OobInline(on),
        (SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => TcpSetting::SendBuffer(positive),
        (SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => TcpSetting::ReceiveBuffer(positive),
        (IPPROTO_TCP, libc::TCP_NODELAY) => TcpSetting::NoDelay(on),
        (IPPROTO_TCP, libc::TCP_MAXSEG) => TcpSetting::MaxSegment(number.clamp(0, 32_767) as u16),
        (IPPROTO_TCP, libc::TCP_CORK) => TcpSetting::Cork(on),
        (IPPROTO_TCP, libc::TCP_KEEPIDLE) => TcpSetting::KeepIdle(seconds),
        (IPPROTO_TCP, libc::TCP_KEEPINTVL) => TcpSetting::KeepInterval(seconds),
        (IPPROTO_TCP, libc::TCP_KEEPCNT) => TcpSetting::KeepCount(number.clamp(0, 255) as u8),
        (IPPROTO_TCP, libc::TCP_LINGER2) => TcpSetting::FinWait((number >= 0).then_some(seconds)),
        (IPPROTO_TCP, libc::TCP_QUICKACK) => TcpSetting::QuickAck(on),
        (IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => TcpSetting::UserTimeout(Span::from_millis(positive.into())),
        (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => TcpSetting::NotSentLowat(number as u32),
        // The lowest byte counts, also of -1. The kernel alone sets the ECN field of a stream.
        (IPPROTO_IP, libc::IP_TOS) => TcpSetting::Tos(number as u8),
        // Here -1 is the default (RFC 3542 §6.5).
        (IPPROTO_IPV6, libc::IPV6_TCLASS) => TcpSetting::Tos(positive as u8),
        (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) if number < 0 => {
            TcpSetting::DefaultTtl(HOPS)
        }
        (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => TcpSetting::Ttl(number.min(255) as u8),
        (IPPROTO_IP, libc::IP_MTU_DISCOVER) | (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
            TcpSetting::DontFragment(WHOLE.contains(&number))
        }
        (IPPROTO_IPV6, libc::IPV6_V6ONLY) => TcpSetting::V6Only(on),
        _ => return None,
    })
}

/// The setting for an option whose value is these bytes; `None` for options that a connection does
/// not have, and if there are too few bytes.
#[must_use]
pub fn setting_of_bytes(level: c_int, name: c_int, value: &[u8]) -> Option<TcpSetting> {
    match (level, name) {
        (SOL_SOCKET, libc::SO_LINGER) => linger(value).map(TcpSetting::Linger),
        (IPPROTO_TCP, libc::TCP_CONGESTION) => algorithm(value).map(TcpSetting::Algorithm),
        _ => setting(level, name, number(value)?),
    }
}

/// The value of an option of a connection or listener; `info` are a connection's figures, if there
/// is one. `None` for options that the stack does not have, and for `TCP_LINGER2` if it is not set.
#[must_use]
pub fn value(
    options: &TcpOptions,
    info: impl FnOnce() -> Option<TcpInfo>,
    level: c_int,
    name: c_int,
) -> Option<Vec<u8>> {
    let number = |n: c_int| Some(n.to_ne_bytes().to_vec());
    match (level, name) {
        (SOL_SOCKET, libc::SO_LINGER) => {
            let mut bytes = c_int::from(options.linger).to_ne_bytes().to_vec();
            bytes.extend(seconds(options.linger_time).to_ne_bytes());
            Some(bytes)
        }
        (IPPROTO_TCP, libc::TCP_CONGESTION) => Some(algorithm_name(options.algorithm).to_vec()),
        (IPPROTO_TCP, libc::TCP_INFO) => Some(tcp_info::emit(&info()?).to_vec()),
        (IPPROTO_TCP, libc::TCP_MAXSEG) => number(info()?.send_mss.into()),
        // The largest packet that is known to reach the peer.
        (IPPROTO_IP, libc::IP_MTU) | (IPPROTO_IPV6, libc::IPV6_MTU) => number(most(info()?.path_mtu.into())),
        _ => number(numeric(options, level, name)?),
    }
}

/// The value of a setting that is a number.
fn numeric(options: &TcpOptions, level: c_int, name: c_int) -> Option<c_int> {
    Some(match (level, name) {
        (SOL_SOCKET, libc::SO_KEEPALIVE) => options.keepalive.into(),
        (SOL_SOCKET, libc::SO_OOBINLINE) => options.oob_inline.into(),
        // Twice what was set: Linux also counts the overhead of a buffer.
        (SOL_SOCKET, libc::SO_SNDBUF) => most(u64::from(options.send_buffer) * 2),
        (SOL_SOCKET, libc::SO_RCVBUF) => most(u64::from(options.receive_buffer) * 2),
        (IPPROTO_TCP, libc::TCP_NODELAY) => options.nodelay.into(),
        (IPPROTO_TCP, libc::TCP_CORK) => options.cork.into(),
        (IPPROTO_TCP, libc::TCP_KEEPIDLE) => seconds(options.keep_idle),
        (IPPROTO_TCP, libc::TCP_KEEPINTVL) => seconds(options.keep_interval),
        (IPPROTO_TCP, libc::TCP_KEEPCNT) => options.keep_count.into(),
        (IPPROTO_TCP, libc::TCP_LINGER2) if options.no_fin_wait => -1,
        (IPPROTO_TCP, libc::TCP_LINGER2) if options.fin_wait.is_zero() => return None,
        (IPPROTO_TCP, libc::TCP_LINGER2) => seconds(options.fin_wait),
        (IPPROTO_TCP, libc::TCP_QUICKACK) => options.quickack.into(),
        (IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => most(options.user_timeout.as_millis()),
        (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => options.notsent_lowat as c_int,
        _ => return None,
    })
}

fn most(n: u64) -> c_int {
    n.min(c_int::MAX as u64) as c_int
}

fn seconds(span: Span) -> c_int {
    most(span.as_millis() / 1000)
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;
    use crate::tcp_info::tests::SAMPLE;
    use tickwire_stack::tcp::{Algorithm, TcpConfig};

    fn no_info() -> Option<TcpInfo> {
        None
    }

    #[test]
    fn what_is_set_is_told() {
        let mut options = TcpOptions::new(&TcpConfig::default());
        for (level, name, number, told) in [
            (1, 9, 7, 1),            // SO_KEEPALIVE
            (1, 10, 1, 1),           // SO_OOBINLINE
            (1, 7, 10_000, 20_000),  // SO_SNDBUF
            (1, 8, 10_000, 20_000),  // SO_RCVBUF
            (6, 1, 1, 1),            // TCP_NODELAY
            (6, 3, 1, 1),            // TCP_CORK
            (6, 4, 77, 77),          // TCP_KEEPIDLE
            (6, 5, 7, 7),            // TCP_KEEPINTVL
            (6, 6, 5, 5),            // TCP_KEEPCNT
            (6, 8, 9, 9),            // TCP_LINGER2
            (6, 8, -5, -1),          // TCP_LINGER2
            (6, 12, 1, 1),           // TCP_QUICKACK
            (6, 18, 12_345, 12_345), // TCP_USER_TIMEOUT
            (6, 25, -1, -1),         // TCP_NOTSENT_LOWAT
        ] {
            options.set(setting_of_bytes(level, name, &words(&[number])).unwrap()).unwrap();
            assert_eq!(value(&options, no_info, level, name), Some(words(&[told])), "{level} {name}");
        }
        options.set(setting_of_bytes(1, 13, &words(&[1, 5])).unwrap()).unwrap();
        assert_eq!(value(&options, no_info, 1, 13), Some(words(&[1, 5])), "SO_LINGER");
        options.set(setting_of_bytes(6, 13, b"reno").unwrap()).unwrap();
        assert_eq!(value(&options, no_info, 6, 13), Some(b"reno\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()), "TCP_CONGESTION");
    }

    #[test]
    fn each_option_is_one_setting() {
        for (level, name, number, expected) in [
            (1, 32, 5000, TcpSetting::SendBuffer(5000)),    // SO_SNDBUFFORCE
            (1, 33, -1, TcpSetting::ReceiveBuffer(0)),      // SO_RCVBUFFORCE
            (6, 2, 1000, TcpSetting::MaxSegment(1000)),     // TCP_MAXSEG
            (6, 2, 70_000, TcpSetting::MaxSegment(32_767)), // TCP_MAXSEG
            (6, 8, -1, TcpSetting::FinWait(None)),          // TCP_LINGER2
            (0, 1, 0x10, TcpSetting::Tos(0x10)),            // IP_TOS
            (0, 1, -1, TcpSetting::Tos(255)),               // IP_TOS
            (0, 1, 300, TcpSetting::Tos(44)),               // IP_TOS
            (41, 67, 0x10, TcpSetting::Tos(0x10)),          // IPV6_TCLASS
            (41, 67, -1, TcpSetting::Tos(0)),               // IPV6_TCLASS
            (0, 2, 300, TcpSetting::Ttl(255)),              // IP_TTL
            (41, 16, -1, TcpSetting::DefaultTtl(64)),       // IPV6_UNICAST_HOPS
            (0, 10, 0, TcpSetting::DontFragment(false)),    // IP_MTU_DISCOVER: IP_PMTUDISC_DONT
            (0, 10, 1, TcpSetting::DontFragment(true)),     // IP_PMTUDISC_WANT
            (0, 10, 2, TcpSetting::DontFragment(true)),     // IP_PMTUDISC_DO
            (0, 10, 3, TcpSetting::DontFragment(true)),     // IP_PMTUDISC_PROBE
            (41, 23, 4, TcpSetting::DontFragment(false)),   // IPV6_MTU_DISCOVER: IPV6_PMTUDISC_INTERFACE
            (41, 26, 1, TcpSetting::V6Only(true)),          // IPV6_V6ONLY
        ] {
            assert_eq!(setting(level, name, number), Some(expected), "{level} {name}");
        }
    }

    #[test]
    fn what_is_out_of_range_or_no_setting_is_refused() {
        let mut options = TcpOptions::new(&TcpConfig::default());
        let mut set = |level, name, number| options.set(setting(level, name, number).unwrap()).is_ok();
        assert!(!set(0, 2, 0) && set(0, 2, -1) && set(41, 16, 9), "a time to live");
        assert!(!set(6, 6, 0) && !set(6, 2, 10), "TCP_KEEPCNT, TCP_MAXSEG");
        assert_eq!((setting(6, 999, 1), value(&options, || Some(SAMPLE), 6, 999)), (None, None));
        assert_eq!(value(&options, no_info, 6, 8), None, "TCP_LINGER2 is not set");
    }

    #[test]
    fn values_may_be_too_short() {
        for (level, name, least) in [(6, 1, 1), (1, 13, 8), (6, 13, 4)] {
            let whole = if name == 13 && level == 6 { b"reno\0\0\0\0" } else { &[1; 8] };
            for len in 0..=8 {
                let is_set = setting_of_bytes(level, name, &whole[..len]).is_some();
                assert_eq!(is_set, len >= least, "{level} {name} with {len} bytes");
            }
        }
        assert_eq!(setting_of_bytes(6, 13, b"bbr"), None);
    }

    #[test]
    fn figures_are_a_connections() {
        let mut options = TcpOptions::new(&TcpConfig::default());
        options.algorithm = Algorithm::Cubic;
        for (level, name, told) in [(6, 2, 1000), (0, 14, 125), (41, 24, 125)] {
            assert_eq!(value(&options, || Some(SAMPLE), level, name), Some(words(&[told])), "{level} {name}");
            assert_eq!(value(&options, no_info, level, name), None, "{level} {name}");
        }
        let info = value(&options, || Some(SAMPLE), 6, 11);
        assert_eq!(info, Some(tcp_info::emit(&SAMPLE).to_vec()), "TCP_INFO");
        let name = value(&options, no_info, 6, 13);
        assert_eq!(name, Some(b"cubic\0\0\0\0\0\0\0\0\0\0\0".to_vec()), "TCP_CONGESTION");
    }
}
