//! The options of a socket. The kernel's socket has each of them first, and decides which values
//! are valid. What the stack has to do about an option is in [`effect`].

use super::{Socket, State, WinsockError};
use crate::lane::lane_if_begun;
use crate::real;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};
use tickwire_lane::control::Reason;
use tickwire_stack::addr::Family;
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;
use tickwire_stack::udp::{MtuDiscover, UdpOptions};
use windows_sys::Win32::Networking::WinSock::{
    IP_DONTFRAGMENT, IP_ECN, IP_HDRINCL, IP_OPTIONS, IP_ORIGINAL_ARRIVAL_IF, IP_PKTINFO, IP_RECVIF, IP_RECVTOS,
    IP_RECVTTL, IP_TTL, IP_UNICAST_IF, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, IPV6_V6ONLY,
    SO_CONDITIONAL_ACCEPT, SO_DONTLINGER, SO_KEEPALIVE, SO_LINGER, SO_OOBINLINE, SO_PAUSE_ACCEPT, SO_RCVBUF,
    SO_RCVTIMEO, SO_SNDBUF, SO_SNDTIMEO, SOL_SOCKET, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_MAXRT, TCP_MAXRTMS,
    TCP_MAXSEG, TCP_NODELAY, UDP_SEND_MSG_SIZE, WSAENOPROTOOPT,
};

/// What the stack has to do about an option.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    /// A setting of connections.
    Tcp(TcpSetting),
    /// A setting of datagram sockets.
    Udp(UdpSetting),
    /// A setting of either.
    Both(TcpSetting, UdpSetting),
    /// Of calls on the socket.
    ReceiveTimeout(u32),
    SendTimeout(u32),
    /// Only the kernel can do it.
    KernelOnly,
    /// Nothing: it is about the kernel's socket, or changes nothing that a program can see.
    Nothing,
}

/// A setting of a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UdpSetting {
    ReceiveBuffer(u32),
    SendBuffer(u32),
    Ttl(u8),
    DontFragment(bool),
    V6Only(bool),
    Segment(u16),
}

impl UdpSetting {
    fn apply(self, options: &mut UdpOptions) {
        match self {
            Self::ReceiveBuffer(bytes) => options.rcvbuf = bytes,
            Self::SendBuffer(bytes) => options.sndbuf = bytes,
            Self::Ttl(ttl) => (options.ttl, options.own_ttl) = (ttl, true),
            Self::DontFragment(does) => {
                options.mtu_discover = if does { MtuDiscover::Do } else { MtuDiscover::Dont };
            }
            Self::V6Only(is_only) => options.v6only = is_only,
            Self::Segment(bytes) => options.segment = bytes,
        }
    }
}

/// What a program has set.
#[derive(Debug)]
pub(super) struct Settings {
    tcp: Vec<TcpSetting>,
    /// Options of a listener that its connections inherit: level, option and value of each.
    inherited: Vec<(i32, i32, Vec<u8>)>,
    pub(super) udp: UdpOptions,
}

impl Settings {
    /// Those of a new socket. One of IPv6 is for that alone, as Windows has it.
    pub(super) fn new(family: Family) -> Self {
        let v6only = family == Family::V6;
        let tcp = if v6only { vec![TcpSetting::V6Only(true)] } else { Vec::new() };
        Self { tcp, inherited: Vec::new(), udp: UdpOptions { v6only, ..UdpOptions::default() } }
    }

    /// Notes an option, if it is one that connections inherit. There is one entry for each.
    fn note(&mut self, level: i32, option: i32, value: &[u8]) {
        let is_of_both = |effect| matches!(effect, Effect::Udp(_) | Effect::KernelOnly | Effect::Nothing);
        if !is_of_both(effect(level, option, value)) {
            self.inherited.retain(|known| (known.0, known.1) != (level, option));
            self.inherited.push((level, option, value.to_vec()));
        }
    }

    fn set_tcp(&mut self, setting: TcpSetting) {
        let kind = std::mem::discriminant(&setting);
        self.tcp.retain(|known| std::mem::discriminant(known) != kind);
        self.tcp.push(setting);
    }
}

/// What is to be done about an option, which the kernel has accepted.
fn effect(level: i32, option: i32, value: &[u8]) -> Effect {
    // A value of one byte is a truth value.
    let number = match *value {
        [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
        [byte, ..] => byte.into(),
        [] => return Effect::Nothing,
    };
    let is_on = number != 0;
    let seconds = |count: u32| Span::from_millis(u64::from(count).clamp(1, 1 << 20) * 1000);
    let byte = || u8::try_from(number).unwrap_or(u8::MAX);
    match (level, option) {
        (SOL_SOCKET, SO_RCVTIMEO) => Effect::ReceiveTimeout(number),
        (SOL_SOCKET, SO_SNDTIMEO) => Effect::SendTimeout(number),
        (SOL_SOCKET, SO_KEEPALIVE) => Effect::Tcp(TcpSetting::KeepAlive(is_on)),
        (SOL_SOCKET, SO_OOBINLINE) => Effect::Tcp(TcpSetting::OobInline(is_on)),
        (SOL_SOCKET, SO_LINGER) => {
            // Two numbers of 16 bits.
            let (on, time) = (number & 0xffff, number >> 16);
            Effect::Tcp(TcpSetting::Linger((on != 0).then(|| Span::from_millis(u64::from(time) * 1000))))
        }
        (SOL_SOCKET, SO_DONTLINGER) if is_on => Effect::Tcp(TcpSetting::Linger(None)),
        // Programs switch Windows' buffer off to save a copy. The stack has no other.
        (SOL_SOCKET, SO_SNDBUF) if is_on => {
            Effect::Both(TcpSetting::SendBuffer(number), UdpSetting::SendBuffer(number))
        }
        (SOL_SOCKET, SO_RCVBUF) if is_on => {
            Effect::Both(TcpSetting::ReceiveBuffer(number), UdpSetting::ReceiveBuffer(number))
        }
        (SOL_SOCKET, SO_CONDITIONAL_ACCEPT) if is_on => Effect::KernelOnly,
        (SOL_SOCKET, option) if option == SO_PAUSE_ACCEPT.cast_signed() && is_on => Effect::KernelOnly,
        (IPPROTO_TCP, TCP_NODELAY) => Effect::Tcp(TcpSetting::NoDelay(is_on)),
        (IPPROTO_TCP, TCP_KEEPIDLE) => Effect::Tcp(TcpSetting::KeepIdle(seconds(number))),
        (IPPROTO_TCP, TCP_KEEPINTVL) => Effect::Tcp(TcpSetting::KeepInterval(seconds(number))),
        (IPPROTO_TCP, TCP_KEEPCNT) => Effect::Tcp(TcpSetting::KeepCount(byte().clamp(1, 127))),
        // -1: without end.
        (IPPROTO_TCP, TCP_MAXRT | TCP_MAXRTMS) if number == u32::MAX => Effect::Nothing,
        (IPPROTO_TCP, TCP_MAXRT) if is_on => Effect::Tcp(TcpSetting::UserTimeout(seconds(number))),
        (IPPROTO_TCP, TCP_MAXRTMS) if is_on => Effect::Tcp(TcpSetting::UserTimeout(Span::from_millis(number.into()))),
        (IPPROTO_TCP, TCP_MAXSEG) if (88..=32767).contains(&number) => {
            Effect::Tcp(TcpSetting::MaxSegment(number as u16))
        }
        // The same number for both: IP_TTL and IPV6_UNICAST_HOPS.
        (IPPROTO_IP | IPPROTO_IPV6, IP_TTL) if is_on => Effect::Both(TcpSetting::Ttl(byte()), UdpSetting::Ttl(byte())),
        (IPPROTO_IP | IPPROTO_IPV6, IP_DONTFRAGMENT) => {
            Effect::Both(TcpSetting::DontFragment(is_on), UdpSetting::DontFragment(is_on))
        }
        (IPPROTO_IPV6, IPV6_V6ONLY) => Effect::Both(TcpSetting::V6Only(is_on), UdpSetting::V6Only(is_on)),
        (IPPROTO_UDP, UDP_SEND_MSG_SIZE) => Effect::Udp(UdpSetting::Segment(u16::try_from(number).unwrap_or(u16::MAX))),
        // The same numbers for both, again. (Groups are joined by the kernel, which has its half.)
        (
            IPPROTO_IP | IPPROTO_IPV6,
            IP_OPTIONS
            | IP_HDRINCL
            | IP_PKTINFO
            | IP_RECVIF
            | IP_RECVTTL
            | IP_RECVTOS
            | IP_ECN
            | IP_UNICAST_IF
            | IP_ORIGINAL_ARRIVAL_IF,
        ) if is_on => Effect::KernelOnly,
        _ => Effect::Nothing,
    }
}

impl Socket {
    /// The program has set an option, and the kernel has accepted it.
    ///
    /// # Errors
    /// If only the kernel could do it, and the socket has a connection on the lane.
    pub(crate) fn option_set(&self, level: i32, option: i32, value: &[u8]) -> Result<(), WinsockError> {
        self.settings().note(level, option, value);
        match effect(level, option, value) {
            Effect::Tcp(setting) => self.set_tcp(setting),
            Effect::Udp(setting) => self.set_udp(setting),
            Effect::Both(tcp, udp) => {
                self.set_tcp(tcp);
                self.set_udp(udp);
            }
            Effect::ReceiveTimeout(time_ms) => self.receive_timeout.store(time_ms, Relaxed),
            Effect::SendTimeout(time_ms) => self.send_timeout.store(time_ms, Relaxed),
            Effect::KernelOnly => {
                if !self.leave_lane(Reason::Option) {
                    return Err(WinsockError(WSAENOPROTOOPT));
                }
            }
            Effect::Nothing => {}
        }
        Ok(())
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings of connections that the program has set.
    pub(super) fn tcp_settings(&self) -> Vec<TcpSetting> {
        self.settings().tcp.clone()
    }

    /// Those of datagrams.
    pub(super) fn udp_options(&self) -> UdpOptions {
        self.settings().udp
    }

    /// Takes over what a listener's program has set for it.
    pub(super) fn inherit_settings(&self, listener: &Self) {
        let inherited = listener.settings().inherited.clone();
        {
            let mut settings = self.settings();
            settings.tcp = listener.tcp_settings();
            settings.inherited.clone_from(&inherited);
        }
        for (own, of_listener) in
            [(&self.receive_timeout, &listener.receive_timeout), (&self.send_timeout, &listener.send_timeout)]
        {
            own.store(of_listener.load(Relaxed), Relaxed);
        }
        // The kernel's socket tells the program of them.
        for (level, option, value) in &inherited {
            real::set_option(self.handle, *level, *option, value);
        }
    }

    /// `SIO_KEEPALIVE_VALS`: whether a connection without traffic is looked at, after which time,
    /// and how often, in milliseconds.
    pub(crate) fn keep_alive(&self, is_on: bool, idle_ms: u32, interval_ms: u32) {
        self.set_tcp(TcpSetting::KeepAlive(is_on));
        if is_on {
            let span = |time_ms: u32| Span::from_millis(u64::from(time_ms).clamp(1, 1 << 30));
            self.set_tcp(TcpSetting::KeepIdle(span(idle_ms)));
            self.set_tcp(TcpSetting::KeepInterval(span(interval_ms)));
        }
    }

    /// Whether urgent bytes stay among the others.
    pub(super) fn is_urgent_inline(&self) -> bool {
        self.settings().tcp.contains(&TcpSetting::OobInline(true))
    }

    fn set_tcp(&self, setting: TcpSetting) {
        self.settings().set_tcp(setting);
        let Some(lane) = lane_if_begun() else { return };
        // (One that has been closed meanwhile has no settings.)
        let _ = match self.state() {
            State::Tcp { id, .. } => lane.enter(|access| access.stack.tcp_set(id, access.now, setting)),
            State::Listener { id, .. } => lane.enter(|access| access.stack.tcp_listener_set(id, setting)),
            _ => Ok(()),
        };
    }

    fn set_udp(&self, setting: UdpSetting) {
        setting.apply(&mut self.settings().udp);
        let Some(lane) = lane_if_begun() else { return };
        let options = self.udp_options();
        if let State::Udp { id, .. } = self.state() {
            let _ = lane.enter(|access| access.stack.udp_set_options(id, options));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(level: i32, option: i32, number: u32) -> Effect {
        effect(level, option, &number.to_le_bytes())
    }

    #[test]
    fn options_are_read_as_windows_has_them() {
        assert_eq!(of(IPPROTO_TCP, TCP_NODELAY, 1), Effect::Tcp(TcpSetting::NoDelay(true)));
        assert_eq!(effect(IPPROTO_TCP, TCP_NODELAY, &[1]), Effect::Tcp(TcpSetting::NoDelay(true)), "a BOOLEAN");
        assert_eq!(effect(IPPROTO_TCP, TCP_NODELAY, &[]), Effect::Nothing);
        assert_eq!(of(SOL_SOCKET, SO_RCVTIMEO, 1500), Effect::ReceiveTimeout(1500));
        let five = Span::from_millis(5000);
        assert_eq!(of(SOL_SOCKET, SO_LINGER, 5 << 16 | 1), Effect::Tcp(TcpSetting::Linger(Some(five))));
        assert_eq!(of(SOL_SOCKET, SO_LINGER, 5 << 16), Effect::Tcp(TcpSetting::Linger(None)));
        assert_eq!(of(SOL_SOCKET, SO_SNDBUF, 0), Effect::Nothing);
        assert_eq!(of(IPPROTO_TCP, TCP_KEEPIDLE, 5), Effect::Tcp(TcpSetting::KeepIdle(five)));
        assert_eq!(of(IPPROTO_TCP, TCP_MAXRT, u32::MAX), Effect::Nothing);
        assert_eq!(of(IPPROTO_IP, IP_PKTINFO, 1), Effect::KernelOnly);
        assert_eq!(of(IPPROTO_IPV6, IP_PKTINFO, 0), Effect::Nothing);
        assert_eq!(of(0x7fff, 1, 1), Effect::Nothing, "an unknown level");
    }

    #[test]
    fn the_last_value_of_a_setting_counts() {
        let mut settings = Settings::new(Family::V6);
        settings.set_tcp(TcpSetting::NoDelay(true));
        settings.set_tcp(TcpSetting::V6Only(false));
        settings.set_tcp(TcpSetting::NoDelay(false));
        assert_eq!(settings.tcp, [TcpSetting::V6Only(false), TcpSetting::NoDelay(false)]);
        assert!(settings.udp.v6only);
        UdpSetting::V6Only(false).apply(&mut settings.udp);
        UdpSetting::Ttl(3).apply(&mut settings.udp);
        assert_eq!((settings.udp.v6only, settings.udp.ttl, settings.udp.own_ttl), (false, 3, true));
    }
}
