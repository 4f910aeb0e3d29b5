//! Socket options, `fcntl` and `ioctl`.

use crate::errno::{Errno, Result};
use crate::machine::Machine;
use crate::table::Kind;
use tickwire_linux_abi::ioctl;
use tickwire_linux_abi::option::{number, tcp, timeval};
use tickwire_stack::tcp::{TcpInfo, TcpOptions, TcpState};
use tickwire_stack::time::Span;

/// Options without effect here: the host decides on binding conflicts, and hints may be ignored.
fn is_harmless(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => [libc::SO_REUSEADDR, libc::SO_REUSEPORT, libc::SO_PRIORITY].contains(&name),
        libc::IPPROTO_TCP => [libc::TCP_DEFER_ACCEPT, libc::TCP_FASTOPEN, libc::TCP_FASTOPEN_CONNECT].contains(&name),
        _ => false,
    }
}

/// A `struct timeval`; zero means no limit.
fn time_limit(value: &[u8]) -> Option<Span> {
    timeval(value).filter(|span| !span.is_zero())
}

impl Machine {
    /// `setsockopt`.
    pub(crate) fn set_option(&self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        self.call(|state| {
            let now = state.wire.now();
            let d = state.table.get(fd)?;
            match (level, name) {
                (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => d.receive_timeout = time_limit(value),
                (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => d.send_timeout = time_limit(value),
                (libc::IPPROTO_TCP, libc::TCP_INQ) => {
                    let on = number(value).filter(|on| (0..=1).contains(on)).ok_or(Errno(libc::EINVAL))?;
                    d.tells_left = on != 0;
                }
                _ if is_harmless(level, name) => {}
                _ => {
                    let setting = tcp::setting_of_bytes(level, name, value).ok_or(Errno(libc::ENOPROTOOPT))?;
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
            if (level, name) == (libc::IPPROTO_TCP, libc::TCP_INQ) {
                return Ok(i32::from(left).to_ne_bytes().to_vec());
            }
            let (options, info) = match kind {
                Kind::Connection(id) => {
                    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
                        let error = stack.tcp_take_error(id)?.map_or(0, |error| Errno::from(error).0);
                        if stack.tcp_state(id)? != TcpState::SynSent {
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
            let bytes = ioctl::tcp_bytes(&info, request).ok_or(Errno(libc::ENOTTY))?;
            Ok(Some(bytes.min(i32::MAX as u32) as i32))
        })
    }
}

/// The value of an option; `info` are a connection's figures, if there is one.
fn answer(options: &TcpOptions, info: Option<&TcpInfo>, level: i32, name: i32) -> Option<Vec<u8>> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => Some(0_i32.to_ne_bytes().to_vec()),
        // Without a connection: the value set, or the default MSS.
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if info.is_none() => {
            let unset = if options.max_segment == 0 { 536 } else { options.max_segment };
            Some(i32::from(unset).to_ne_bytes().to_vec())
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) => {
            let mut bytes = tcp::value(options, || info.copied(), level, name)?;
            bytes.resize(INFO_LEN, 0);
            Some(bytes)
        }
        // Figures of the congestion control; this stack has none.
        (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => Some(Vec::new()),
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
        _ => tcp::value(options, || info.copied(), level, name),
    }
}

/// Assumed size of `struct tcp_info`: more than any kernel's yet.
const INFO_LEN: usize = 512;
