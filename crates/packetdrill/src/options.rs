//! Socket options, `fcntl` and `ioctl`.

use crate::errno::{Errno, Result};
use crate::machine::Machine;
use crate::table::Kind;
use tickwire_stack::tcp::{Algorithm, Setting, State, TcpInfo, TcpOptions};
use tickwire_stack::time::Span;

/// `TCP_INQ`, and the control message of the same number.
pub(crate) const TCP_INQ: i32 = 36;
/// Figures of the congestion control (`TCP_CC_INFO`); this stack has none.
const TCP_CC_INFO: i32 = 26;
/// Bytes queued that were not sent yet.
const SIOCOUTQNSD: u64 = 0x894B;

/// The stack's setting of a socket option.
fn setting(level: i32, name: i32, value: &[u8]) -> Option<Setting> {
    let number = number(value)?;
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) if value.starts_with(b"reno") => {
            Some(Setting::Algorithm(Algorithm::Reno))
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) if value.starts_with(b"cubic") => {
            Some(Setting::Algorithm(Algorithm::Cubic))
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let time = value.get(4..8).and_then(self::number)?.max(0) as u64;
            Some(Setting::Linger((number != 0).then_some(Span::from_secs(time))))
        }
        _ => Setting::of_linux(level, name, number),
    }
}

/// Options without effect here: the host decides on binding conflicts, and hints may be ignored.
fn is_harmless(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => [libc::SO_REUSEADDR, libc::SO_REUSEPORT, libc::SO_PRIORITY].contains(&name),
        libc::IPPROTO_TCP => [libc::TCP_DEFER_ACCEPT, libc::TCP_FASTOPEN, libc::TCP_FASTOPEN_CONNECT].contains(&name),
        _ => false,
    }
}

/// An option's value: four bytes, or one.
fn number(value: &[u8]) -> Option<i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).or(value.first().map(|&byte| i32::from(byte)))
}

/// A `struct timeval`; zero means no timeout.
fn time_value(value: &[u8]) -> Option<Span> {
    let (seconds, micros) = value.get(..16)?.split_at(8);
    let seconds = i64::from_ne_bytes(seconds.try_into().ok()?).max(0) as u64;
    let micros = i64::from_ne_bytes(micros.try_into().ok()?).max(0) as u64;
    Some(Span::from_secs(seconds) + Span::from_micros(micros)).filter(|span| !span.is_zero())
}

impl Machine {
    /// `setsockopt`.
    pub(crate) fn set_option(&self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        self.call(|state| {
            let now = state.wire.now();
            let d = state.table.get(fd)?;
            match (level, name) {
                (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => d.receive_timeout = time_value(value),
                (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => d.send_timeout = time_value(value),
                (libc::IPPROTO_TCP, TCP_INQ) => {
                    let on = number(value).filter(|on| (0..=1).contains(on)).ok_or(Errno(libc::EINVAL))?;
                    d.tells_left = on != 0;
                }
                _ if is_harmless(level, name) => {}
                _ => {
                    let setting = setting(level, name, value).ok_or(Errno(libc::ENOPROTOOPT))?;
                    match d.kind {
                        Kind::Connection(id) => state.wire.stack().tcp_set(id, now, setting)?,
                        Kind::Listener(id) => state.wire.stack().tcp_listener_set(id, setting)?,
                        Kind::Fresh => d.options.set(setting)?,
                        Kind::Set(_) => return Err(Errno(libc::ENOTSOCK)),
                    }
                }
            }
            Ok(())
        })
    }

    /// `getsockopt`.
    pub(crate) fn option(&self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>> {
        self.call(|state| {
            let now = state.wire.now();
            let d = state.table.get(fd)?;
            let (kind, fresh, left) = (d.kind, d.options, d.tells_left);
            let mut stack = state.wire.stack();
            if (level, name) == (libc::IPPROTO_TCP, TCP_INQ) {
                return Ok(i32::from(left).to_ne_bytes().to_vec());
            }
            let (options, info) = match kind {
                Kind::Connection(id) => {
                    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
                        let error = stack.tcp_take_error(id)?.map_or(0, |error| Errno::from(error).0);
                        if stack.tcp_state(id)? != State::SynSent {
                            d.connecting = false;
                        }
                        return Ok(error.to_ne_bytes().to_vec());
                    }
                    (stack.tcp_options(id)?, Some(stack.tcp_info(id, now)?))
                }
                Kind::Listener(id) => (stack.tcp_listener_options(id)?, None),
                Kind::Fresh => (fresh, None),
                Kind::Set(_) => return Err(Errno(libc::ENOTSOCK)),
            };
            answer(&options, info.as_ref(), level, name).ok_or(Errno(libc::ENOPROTOOPT))
        })
    }

    /// `fcntl`.
    pub(crate) fn fcntl(&self, fd: i32, command: i32, value: i32) -> Result<i32> {
        self.call(|state| {
            let d = state.table.get(fd)?;
            match command {
                libc::F_GETFL => Ok(libc::O_RDWR | if d.nonblock { libc::O_NONBLOCK } else { 0 }),
                libc::F_SETFL => {
                    d.nonblock = value & libc::O_NONBLOCK != 0;
                    Ok(0)
                }
                libc::F_GETFD | libc::F_SETFD => Ok(0),
                _ => Err(Errno(libc::EINVAL)),
            }
        })
    }

    /// `ioctl`: the value read; `value` is the one to set.
    pub(crate) fn ioctl(&self, fd: i32, request: u64, value: Option<i32>) -> Result<Option<i32>> {
        self.call(|state| {
            let now = state.wire.now();
            if request == libc::FIONBIO {
                state.table.get(fd)?.nonblock = value.ok_or(Errno(libc::EFAULT))? != 0;
                return Ok(None);
            }
            let id = state.connection(fd, libc::EINVAL)?;
            let info = state.wire.stack().tcp_info(id, now)?;
            let bytes = match request {
                libc::FIONREAD => info.unread,
                libc::TIOCOUTQ => info.outstanding + info.unsent,
                SIOCOUTQNSD => info.unsent,
                _ => return Err(Errno(libc::ENOTTY)),
            };
            Ok(Some(bytes.min(i32::MAX as u32) as i32))
        })
    }
}

/// The value of an option; `info` are a connection's figures, if there is one.
fn answer(options: &TcpOptions, info: Option<&TcpInfo>, level: i32, name: i32) -> Option<Vec<u8>> {
    let number = |n: u64| Some((n.min(i32::MAX as u64) as i32).to_ne_bytes().to_vec());
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => number(0),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
            // Without a connection: the value set, or the default MSS.
            let unset = if options.max_segment == 0 { 536 } else { options.max_segment };
            number(info.map_or(unset, |info| info.send_mss).into())
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) => {
            let mut bytes = info?.to_linux().to_vec();
            bytes.resize(INFO_LEN, 0);
            Some(bytes)
        }
        (libc::IPPROTO_TCP, TCP_CC_INFO) => Some(Vec::new()),
        (libc::SOL_SOCKET, libc::SO_MEMINFO) => {
            let info = info?;
            let words = [
                info.unread,
                options.receive_buffer * 2,
                info.unsent,
                options.send_buffer * 2,
                0,
                info.unsent,
                0,
                0,
                0,
            ];
            Some(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
        (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => number(info?.path_mtu.into()),
        _ => options.to_linux(level, name).map(|number| number.to_ne_bytes().to_vec()),
    }
}

/// Assumed size of `struct tcp_info`: more than any kernel's yet.
const INFO_LEN: usize = 512;
