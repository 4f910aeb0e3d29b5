//! Linux's socket options that are settings of a connection: one table for all replacements of
//! kernel sockets. Numbers as in `linux/tcp.h`, `linux/in.h`, `linux/in6.h` and
//! `asm-generic/socket.h`, which are valid on x86 and Arm.

use super::settings::{Setting, TcpOptions};
use crate::time::Span;

const SOL_SOCKET: i32 = 1;
const SO_SNDBUF: i32 = 7;
const SO_RCVBUF: i32 = 8;
const SO_KEEPALIVE: i32 = 9;
const SO_OOBINLINE: i32 = 10;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;

const IPPROTO_TCP: i32 = 6;
const TCP_NODELAY: i32 = 1;
const TCP_MAXSEG: i32 = 2;
const TCP_CORK: i32 = 3;
const TCP_KEEPIDLE: i32 = 4;
const TCP_KEEPINTVL: i32 = 5;
const TCP_KEEPCNT: i32 = 6;
const TCP_LINGER2: i32 = 8;
const TCP_QUICKACK: i32 = 12;
const TCP_USER_TIMEOUT: i32 = 18;
const TCP_NOTSENT_LOWAT: i32 = 25;

const IPPROTO_IP: i32 = 0;
const IP_TOS: i32 = 1;
const IP_TTL: i32 = 2;
const IP_MTU_DISCOVER: i32 = 10;

const IPPROTO_IPV6: i32 = 41;
const IPV6_UNICAST_HOPS: i32 = 16;
const IPV6_MTU_DISCOVER: i32 = 23;
const IPV6_V6ONLY: i32 = 26;
const IPV6_TCLASS: i32 = 67;

/// `IP_PMTUDISC_WANT`, `_DO` and `_PROBE`: packets must not be fragmented.
const WHOLE: core::ops::RangeInclusive<i32> = 1..=3;
/// The time to live if the program sets none, or resets it.
const HOPS: u8 = 64;

impl Setting {
    /// The setting for an option with a numeric value. `None` for options that a connection does
    /// not have, and for those with other values (`SO_LINGER`, `TCP_CONGESTION`).
    /// [`TcpOptions::set`] checks the range.
    #[must_use]
    pub fn of_linux(level: i32, name: i32, number: i32) -> Option<Self> {
        let on = number != 0;
        let positive = number.max(0) as u32;
        let seconds = Span::from_secs(positive.into());
        Some(match (level, name) {
            (SOL_SOCKET, SO_KEEPALIVE) => Self::KeepAlive(on),
            (SOL_SOCKET, SO_OOBINLINE) => Self::OobInline(on),
            (SOL_SOCKET, SO_SNDBUF | SO_SNDBUFFORCE) => Self::SendBuffer(positive),
            (SOL_SOCKET, SO_RCVBUF | SO_RCVBUFFORCE) => Self::ReceiveBuffer(positive),
            (IPPROTO_TCP, TCP_NODELAY) => Self::NoDelay(on),
            (IPPROTO_TCP, TCP_MAXSEG) => Self::MaxSegment(number.clamp(0, 32_767) as u16),
            (IPPROTO_TCP, TCP_CORK) => Self::Cork(on),
            (IPPROTO_TCP, TCP_KEEPIDLE) => Self::KeepIdle(seconds),
            (IPPROTO_TCP, TCP_KEEPINTVL) => Self::KeepInterval(seconds),
            (IPPROTO_TCP, TCP_KEEPCNT) => Self::KeepCount(number.clamp(0, 255) as u8),
            (IPPROTO_TCP, TCP_LINGER2) => Self::FinWait((number >= 0).then_some(seconds)),
            (IPPROTO_TCP, TCP_QUICKACK) => Self::QuickAck(on),
            (IPPROTO_TCP, TCP_USER_TIMEOUT) => Self::UserTimeout(Span::from_millis(positive.into())),
            (IPPROTO_TCP, TCP_NOTSENT_LOWAT) => Self::NotSentLowat(number as u32),
            (IPPROTO_IP, IP_TOS) | (IPPROTO_IPV6, IPV6_TCLASS) => Self::Tos(positive as u8),
            (IPPROTO_IP, IP_TTL) | (IPPROTO_IPV6, IPV6_UNICAST_HOPS) if number < 0 => Self::DefaultTtl(HOPS),
            (IPPROTO_IP, IP_TTL) | (IPPROTO_IPV6, IPV6_UNICAST_HOPS) => Self::Ttl(number.min(255) as u8),
            (IPPROTO_IP, IP_MTU_DISCOVER) | (IPPROTO_IPV6, IPV6_MTU_DISCOVER) => {
                Self::DontFragment(WHOLE.contains(&number))
            }
            (IPPROTO_IPV6, IPV6_V6ONLY) => Self::V6Only(on),
            _ => return None,
        })
    }
}

impl TcpOptions {
    /// The value of an option, as a number; `None` for those that are no settings, and for
    /// `TCP_LINGER2` if it is not set.
    #[must_use]
    pub fn to_linux(&self, level: i32, name: i32) -> Option<i32> {
        let most = |n: u64| n.min(i32::MAX as u64) as i32;
        let seconds = |span: Span| most(span.as_millis() / 1000);
        Some(match (level, name) {
            (SOL_SOCKET, SO_KEEPALIVE) => self.keepalive.into(),
            (SOL_SOCKET, SO_OOBINLINE) => self.oob_inline.into(),
            // Twice what was set: Linux also counts the overhead of a buffer.
            (SOL_SOCKET, SO_SNDBUF) => most(u64::from(self.send_buffer) * 2),
            (SOL_SOCKET, SO_RCVBUF) => most(u64::from(self.receive_buffer) * 2),
            (IPPROTO_TCP, TCP_NODELAY) => self.nodelay.into(),
            (IPPROTO_TCP, TCP_CORK) => self.cork.into(),
            (IPPROTO_TCP, TCP_KEEPIDLE) => seconds(self.keep_idle),
            (IPPROTO_TCP, TCP_KEEPINTVL) => seconds(self.keep_interval),
            (IPPROTO_TCP, TCP_KEEPCNT) => self.keep_count.into(),
            (IPPROTO_TCP, TCP_LINGER2) if self.no_fin_wait => -1,
            (IPPROTO_TCP, TCP_LINGER2) if self.fin_wait.is_zero() => return None,
            (IPPROTO_TCP, TCP_LINGER2) => seconds(self.fin_wait),
            (IPPROTO_TCP, TCP_QUICKACK) => self.quickack.into(),
            (IPPROTO_TCP, TCP_USER_TIMEOUT) => most(self.user_timeout.as_millis()),
            (IPPROTO_TCP, TCP_NOTSENT_LOWAT) => self.notsent_lowat as i32,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Config;

    #[test]
    fn what_is_set_is_told() {
        let mut options = TcpOptions::new(&Config::default());
        for (level, name, number, told) in [
            (SOL_SOCKET, SO_KEEPALIVE, 7, 1),
            (SOL_SOCKET, SO_OOBINLINE, 1, 1),
            (SOL_SOCKET, SO_SNDBUF, 10_000, 20_000),
            (SOL_SOCKET, SO_RCVBUF, 10_000, 20_000),
            (IPPROTO_TCP, TCP_NODELAY, 1, 1),
            (IPPROTO_TCP, TCP_CORK, 1, 1),
            (IPPROTO_TCP, TCP_KEEPIDLE, 77, 77),
            (IPPROTO_TCP, TCP_KEEPINTVL, 7, 7),
            (IPPROTO_TCP, TCP_KEEPCNT, 5, 5),
            (IPPROTO_TCP, TCP_LINGER2, 9, 9),
            (IPPROTO_TCP, TCP_LINGER2, -5, -1),
            (IPPROTO_TCP, TCP_QUICKACK, 1, 1),
            (IPPROTO_TCP, TCP_USER_TIMEOUT, 12_345, 12_345),
            (IPPROTO_TCP, TCP_NOTSENT_LOWAT, -1, -1),
        ] {
            options.set(Setting::of_linux(level, name, number).unwrap()).unwrap();
            assert_eq!(options.to_linux(level, name), Some(told), "{level} {name}");
        }
    }

    #[test]
    fn what_is_out_of_range_or_no_setting_is_refused() {
        let mut options = TcpOptions::new(&Config::default());
        let mut set = |level, name, number| options.set(Setting::of_linux(level, name, number).unwrap()).is_ok();
        assert!(!set(IPPROTO_IP, IP_TTL, 0) && set(IPPROTO_IP, IP_TTL, -1) && set(IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9));
        assert!(!set(IPPROTO_TCP, TCP_KEEPCNT, 0) && !set(IPPROTO_TCP, TCP_MAXSEG, 10));
        assert_eq!(Setting::of_linux(IPPROTO_TCP, 999, 1), None);
        assert_eq!(options.to_linux(IPPROTO_TCP, 999), None);
    }
}
