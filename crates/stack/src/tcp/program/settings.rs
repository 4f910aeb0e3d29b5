//! The settings of a connection that a program can change (the socket options).

use crate::Stack;
use crate::addr::Endpoint;
use crate::error::{Result, StackError};
use crate::ids::{ListenerId, TcpId};
use crate::path::Query;
use crate::tcp::congestion::{Algorithm, ecn};
use crate::tcp::connection::config::TcpConfig;
use crate::tcp::connection::socket::TcpState;
use crate::tcp::receive::ack::QUICK;
use crate::tcp::send::output::Hold;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The smallest buffers that still transport data.
const MIN_RECEIVE_BUFFER: u32 = 2304;
const MIN_SEND_BUFFER: u32 = 4608;

/// The largest buffers that can be set.
const MAX_BUFFER: u32 = 1 << 26;

/// The smallest segment size that can be set (Linux: TCP_MIN_MSS).
pub(in crate::tcp) const MIN_MSS: u16 = 88;

/// The longest wait in FIN-WAIT-2 that can be set, as on Linux.
const LONGEST_FIN_WAIT: Span = Span::from_secs(120);

/// All settings of a connection or listener. Accepted connections inherit the listener's.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct TcpOptions {
    /// Nagle's algorithm is off (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Incomplete segments are held back (`TCP_CORK`).
    pub cork: bool,
    /// Acknowledgements are sent at once (`TCP_QUICKACK`).
    pub quickack: bool,
    /// Keepalive probes (`SO_KEEPALIVE`).
    pub keepalive: bool,
    /// Urgent data stays in the stream (`SO_OOBINLINE`).
    pub oob_inline: bool,
    /// The listener accepts IPv6 only (`IPV6_V6ONLY`).
    pub v6only: bool,
    /// Routers may not fragment (path MTU discovery; the default).
    pub dont_fragment: bool,
    /// The program has set the send buffer: no autotuning.
    pub send_fixed: bool,
    /// The program has set the receive buffer: no autotuning.
    pub receive_fixed: bool,
    /// `close` lingers (`SO_LINGER`). With a time of zero it resets the connection; the caller
    /// implements any other time.
    pub linger: bool,
    /// A closed connection is reset in FIN-WAIT-2 instead of waiting there for the peer's FIN
    /// (`TCP_LINGER2` below 0).
    pub no_fin_wait: bool,
    /// Most unanswered keepalive probes (`TCP_KEEPCNT`).
    pub keep_count: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// The program has set it: it overrides the route's.
    pub own_ttl: bool,
    /// Traffic class (TOS) octet.
    pub tos: u8,
    /// Congestion control (`TCP_CONGESTION`).
    pub algorithm: Algorithm,
    /// Largest segment to send and to announce (`TCP_MAXSEG`); 0: the path's limit.
    pub max_segment: u16,
    /// Time to live of the connection's route, 0 if that sets none. Not set by the program: the
    /// stack follows the route.
    pub route_hops: u8,
    /// The route requests immediate acknowledgements. Not set by the program either.
    pub route_quickack: bool,
    /// The outgoing interface (`SO_BINDTODEVICE`, the scope of a link-local peer), by the host's
    /// number; 0 if the host may choose. Only read when the connection is created.
    pub interface: u32,
    /// Send buffer in bytes (`SO_SNDBUF`, not doubled).
    pub send_buffer: u32,
    /// Receive buffer in bytes (`SO_RCVBUF`, not doubled).
    pub receive_buffer: u32,
    /// The socket is writable while fewer bytes than this are unsent (`TCP_NOTSENT_LOWAT`); 0: no
    /// limit.
    pub notsent_lowat: u32,
    /// Idle time before keepalive probes (`TCP_KEEPIDLE`).
    pub keep_idle: Span,
    /// Time between keepalive probes (`TCP_KEEPINTVL`).
    pub keep_interval: Span,
    /// Data that is not acknowledged for this long ends the connection (`TCP_USER_TIMEOUT`); zero:
    /// the number of retransmissions is the limit.
    pub user_timeout: Span,
    /// How long `close` lingers.
    pub linger_time: Span,
    /// How long a closed connection waits in FIN-WAIT-2 (`TCP_LINGER2`); zero:
    /// [`TcpConfig::fin_timeout`].
    pub fin_wait: Span,
}

shared_layout! { TcpOptions {
    nodelay, cork, quickack, keepalive, oob_inline, v6only, dont_fragment, send_fixed,
    receive_fixed, linger, no_fin_wait, keep_count, ttl, own_ttl, tos, algorithm, max_segment,
    route_hops, route_quickack, interface, send_buffer, receive_buffer, notsent_lowat, keep_idle,
    keep_interval, user_timeout, linger_time, fin_wait,
} }

pub(in crate::tcp) type Settings = TcpOptions;

/// A change of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpSetting {
    /// [`TcpOptions::nodelay`].
    NoDelay(bool),
    /// [`TcpOptions::cork`].
    Cork(bool),
    /// [`TcpOptions::quickack`].
    QuickAck(bool),
    /// [`TcpOptions::keepalive`].
    KeepAlive(bool),
    /// [`TcpOptions::keep_idle`], at least a millisecond.
    KeepIdle(Span),
    /// [`TcpOptions::keep_interval`], at least a millisecond.
    KeepInterval(Span),
    /// [`TcpOptions::keep_count`], 1 to 127.
    KeepCount(u8),
    /// [`TcpOptions::user_timeout`].
    UserTimeout(Span),
    /// [`TcpOptions::linger`]; `None`: off.
    Linger(Option<Span>),
    /// [`TcpOptions::fin_wait`], limited to two minutes; `None`: [`TcpOptions::no_fin_wait`].
    FinWait(Option<Span>),
    /// [`TcpOptions::send_buffer`]; limited to between 4608 bytes and 64 MiB.
    SendBuffer(u32),
    /// [`TcpOptions::receive_buffer`]; limited to between 2304 bytes and 64 MiB.
    ReceiveBuffer(u32),
    /// [`TcpOptions::notsent_lowat`].
    NotSentLowat(u32),
    /// [`TcpOptions::max_segment`], 88 to 32767, or 0.
    MaxSegment(u16),
    /// [`TcpOptions::tos`].
    Tos(u8),
    /// [`TcpOptions::ttl`], not 0.
    Ttl(u8),
    /// The default time to live: the program has set none. The route's takes precedence.
    DefaultTtl(u8),
    /// [`TcpOptions::dont_fragment`].
    DontFragment(bool),
    /// [`TcpOptions::oob_inline`].
    OobInline(bool),
    /// [`TcpOptions::v6only`]; evaluated when listening begins.
    V6Only(bool),
    /// [`TcpOptions::algorithm`].
    Algorithm(Algorithm),
}

impl TcpOptions {
    /// The key of the path of a connection between these endpoints.
    pub(in crate::tcp) fn query(&self, local: Endpoint, remote: Endpoint) -> Query {
        Query::to(remote.address).from(local.address).by(self.interface).of_service(self.tos)
    }

    /// The settings of a socket on which nothing has been set.
    #[must_use]
    pub const fn new(config: &TcpConfig) -> Self {
        Self {
            nodelay: false,
            cork: false,
            quickack: false,
            keepalive: false,
            oob_inline: false,
            v6only: false,
            dont_fragment: true,
            send_fixed: false,
            receive_fixed: false,
            linger: false,
            no_fin_wait: false,
            keep_count: config.keep_count,
            ttl: config.ttl,
            own_ttl: false,
            tos: 0,
            algorithm: config.algorithm,
            max_segment: 0,
            route_hops: 0,
            route_quickack: false,
            interface: 0,
            send_buffer: config.send_buffer,
            receive_buffer: config.receive_buffer,
            notsent_lowat: 0,
            keep_idle: config.keep_idle,
            keep_interval: config.keep_interval,
            user_timeout: Span::ZERO,
            linger_time: Span::ZERO,
            fin_wait: Span::ZERO,
        }
    }

    /// Time to live of a packet: the program's, else the route's, else the default.
    pub(in crate::tcp) const fn hops(&self) -> u8 {
        if self.own_ttl || self.route_hops == 0 { self.ttl } else { self.route_hops }
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// [`StackError::Invalid`] if the value is out of its range; then nothing is changed.
    pub fn set(&mut self, setting: TcpSetting) -> Result<()> {
        let check = |good: bool| if good { Ok(()) } else { Err(StackError::Invalid) };
        let shortest = Span::from_millis(1);
        match setting {
            TcpSetting::NoDelay(on) => self.nodelay = on,
            TcpSetting::Cork(on) => self.cork = on,
            TcpSetting::QuickAck(on) => self.quickack = on,
            TcpSetting::KeepAlive(on) => self.keepalive = on,
            TcpSetting::KeepIdle(time) => {
                check(time >= shortest)?;
                self.keep_idle = time;
            }
            TcpSetting::KeepInterval(time) => {
                check(time >= shortest)?;
                self.keep_interval = time;
            }
            TcpSetting::KeepCount(count) => {
                check((1..=127).contains(&count))?;
                self.keep_count = count;
            }
            TcpSetting::UserTimeout(time) => self.user_timeout = time,
            TcpSetting::Linger(time) => {
                self.linger = time.is_some();
                self.linger_time = time.unwrap_or_default();
            }
            TcpSetting::FinWait(time) => {
                self.no_fin_wait = time.is_none();
                self.fin_wait = time.unwrap_or_default().min(LONGEST_FIN_WAIT);
            }
            TcpSetting::SendBuffer(bytes) => {
                self.send_buffer = bytes.clamp(MIN_SEND_BUFFER, MAX_BUFFER);
                self.send_fixed = true;
            }
            TcpSetting::ReceiveBuffer(bytes) => {
                self.receive_buffer = bytes.clamp(MIN_RECEIVE_BUFFER, MAX_BUFFER);
                self.receive_fixed = true;
            }
            TcpSetting::NotSentLowat(bytes) => self.notsent_lowat = bytes,
            TcpSetting::MaxSegment(bytes) => {
                check(bytes == 0 || (MIN_MSS..=32_767).contains(&bytes))?;
                self.max_segment = bytes;
            }
            // As on Linux: the ECN field of RFC 3168 does not belong to the program (§5).
            TcpSetting::Tos(tos) => self.tos = tos & !ecn::FIELD,
            TcpSetting::Ttl(ttl) => {
                check(ttl > 0)?;
                (self.ttl, self.own_ttl) = (ttl, true);
            }
            TcpSetting::DefaultTtl(ttl) => {
                check(ttl > 0)?;
                (self.ttl, self.own_ttl) = (ttl, false);
            }
            TcpSetting::DontFragment(on) => self.dont_fragment = on,
            TcpSetting::OobInline(on) => self.oob_inline = on,
            TcpSetting::V6Only(on) => self.v6only = on,
            TcpSetting::Algorithm(algorithm) => self.algorithm = algorithm,
        }
        Ok(())
    }
}

impl Stack<'_> {
    /// The settings of a new socket.
    #[must_use]
    pub fn tcp_defaults(&self) -> TcpOptions {
        TcpOptions::new(&self.mem.core.tcp.config)
    }

    /// The settings of a connection.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_options(&self, id: TcpId) -> Result<TcpOptions> {
        let index = self.check(id)?;
        Ok(self.mem.tcp[index].settings)
    }

    /// Changes a setting of a connection. Data that it held back (Nagle, cork) is sent at once.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if the value is out of its range.
    pub fn tcp_set(&mut self, id: TcpId, now: Instant, setting: TcpSetting) -> Result<()> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        s.settings.set(setting)?;
        match setting {
            // As on Linux, once, whatever a cork or `MSG_MORE` requests.
            TcpSetting::NoDelay(true) if s.state.is_synchronized() => {
                self.tcp_output(index, now, Hold::Flush);
            }
            TcpSetting::Cork(false) if s.state.is_synchronized() => {
                self.tcp_output(index, now, Hold::AsSet);
            }
            TcpSetting::QuickAck(on) => {
                s.ack.quick = if on { QUICK } else { 0 };
                if on && !s.at.ack.is_never() {
                    self.send_ack(index, now);
                }
            }
            // In TIME-WAIT the same deadline ends the state.
            TcpSetting::KeepAlive(_) | TcpSetting::KeepIdle(_)
                if s.state.is_synchronized() && s.state != TcpState::TimeWait && !s.orphan =>
            {
                s.at.keep = if s.settings.keepalive { s.progress.heard + s.settings.keep_idle } else { Instant::NEVER };
                self.set_timer(index);
            }
            TcpSetting::Algorithm(algorithm) => s.cc.algorithm = algorithm,
            TcpSetting::NotSentLowat(_) => self.tell_of_room(index),
            TcpSetting::MaxSegment(_) if s.state.is_synchronized() => {
                self.refresh_mss(index, now);
                self.tcp_output(index, now, Hold::AsSet);
            }
            _ => {}
        }
        Ok(())
    }

    /// The settings of a listener.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_listener_options(&self, id: ListenerId) -> Result<TcpOptions> {
        let index = self.check(id)?;
        Ok(self.mem.listeners[index].settings)
    }

    /// Changes a setting of a listener, for future connections.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if the value is out of its range.
    pub fn tcp_listener_set(&mut self, id: ListenerId, setting: TcpSetting) -> Result<()> {
        let index = self.check(id)?;
        self.mem.listeners[index].settings.set(setting)
    }
}
