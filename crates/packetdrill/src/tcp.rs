//! Calls on TCP sockets, from `socket` to `close`.

use crate::errno::{AGAIN, Errno, Result};
use crate::machine::{Machine, State, TimeLimit};
use crate::name;
use crate::table::{Descriptor, Kind};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::{RecvFlags, Shutdown, TcpState as Tcp};
use tickwire_stack::{ListenerId, Ready, StackError, TcpId};

/// The first ephemeral port, for sockets that are not bound.
const EPHEMERAL: u16 = 32_768;

/// The result of a receive.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// The returned length, including bytes that were discarded (`MSG_TRUNC`).
    pub(crate) len: usize,
    /// How many are left, if requested.
    pub(crate) left: Option<u32>,
    /// Flags of the message.
    pub(crate) flags: i32,
}

fn time_limit(nonblock: bool, timeout: Option<tickwire_stack::time::Span>) -> TimeLimit {
    match timeout {
        _ if nonblock => TimeLimit::None,
        Some(span) => TimeLimit::For(span),
        None => TimeLimit::Endless,
    }
}

impl State {
    /// The connection, or the error `without` if there is none.
    pub(crate) fn connection(&mut self, fd: i32, without: i32) -> Result<TcpId> {
        match self.table.get(fd)?.kind {
            Kind::Connection(id) => Ok(id),
            Kind::Set(_) => Err(Errno(libc::ENOTSOCK)),
            _ => Err(Errno(without)),
        }
    }

    fn listener(&mut self, fd: i32) -> Result<ListenerId> {
        match self.table.get(fd)?.kind {
            Kind::Listener(id) => Ok(id),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    fn begin(&mut self, fd: i32, remote: Endpoint) -> Result<()> {
        let preferred = self.wire.source_for(remote.address);
        let now = self.wire.now();
        let d = self.table.get(fd)?.clone();
        let address = if d.bound.address.is_unspecified() { preferred } else { d.bound.address };
        let port = if d.bound.port == 0 { EPHEMERAL + fd as u16 } else { d.bound.port };
        let id = self.wire.stack().tcp_connect(&d.options, Endpoint::new(address, port), remote, now)?;
        self.becomes(fd, Kind::Connection(id))?;
        self.table.get(fd)?.connecting = true;
        Ok(())
    }

    /// The result of a connect.
    fn outcome(&mut self, fd: i32) -> Result<()> {
        let id = self.connection(fd, libc::EBADF)?;
        let state = match self.wire.stack().tcp_state(id)? {
            Tcp::SynSent | Tcp::SynReceived => return Err(AGAIN),
            state => state,
        };
        self.table.get(fd)?.connecting = false;
        let error = match self.wire.stack().tcp_take_error(id)? {
            Some(error) => error.into(),
            None if state == Tcp::Closed => Errno(libc::ECONNREFUSED),
            None => return Ok(()),
        };
        // After a failed connect a socket is fresh again, as on Linux.
        self.dissolve(fd, id)?;
        Err(error)
    }

    fn dissolve(&mut self, fd: i32, id: TcpId) -> Result<()> {
        let now = self.wire.now();
        let options = self.wire.stack().tcp_options(id)?;
        self.wire.stack().tcp_abort(id, now)?;
        let d = self.table.get(fd)?;
        (d.kind, d.connecting, d.options, d.bound) = (Kind::Fresh, false, options, Endpoint::default());
        Ok(())
    }
}

impl Machine {
    /// `socket`.
    pub(crate) fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Result<i32> {
        let v6 = match domain {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        let known = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        if kind & !known != libc::SOCK_STREAM || ![0, libc::IPPROTO_TCP].contains(&protocol) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        self.call(|state| {
            let options = state.wire.stack().tcp_defaults();
            let mut descriptor = Descriptor::new(Kind::Fresh, v6, options);
            descriptor.nonblock = kind & libc::SOCK_NONBLOCK != 0;
            state.table.enter(descriptor)
        })
    }

    /// `bind`.
    pub(crate) fn bind(&self, fd: i32, address: &[u8]) -> Result<()> {
        self.call(|state| {
            let d = state.table.get(fd)?;
            let local = name::local(address, d.v6)?;
            if d.kind != Kind::Fresh || d.bound.port != 0 {
                return Err(Errno(libc::EINVAL));
            }
            d.bound = local;
            if local.port == 0 {
                d.bound.port = EPHEMERAL + fd as u16;
            }
            Ok(())
        })
    }

    /// `listen`.
    pub(crate) fn listen(&self, fd: i32, backlog: i32) -> Result<()> {
        let backlog = backlog.clamp(0, 4096) as u32;
        self.call(|state| {
            let d = state.table.get(fd)?.clone();
            match d.kind {
                Kind::Listener(id) => Ok(state.wire.stack().tcp_set_backlog(id, backlog)?),
                Kind::Fresh => {
                    let mut local = d.bound;
                    if local.port == 0 {
                        local.port = EPHEMERAL + fd as u16;
                    }
                    if local.address == Address::ANY && !d.v6 {
                        local.address = Address::ANY_V4;
                    }
                    let id = state.wire.stack().tcp_listen(&d.options, local, backlog)?;
                    state.becomes(fd, Kind::Listener(id))
                }
                _ => Err(Errno(libc::EINVAL)),
            }
        })
    }

    /// `accept`: the new descriptor and the peer's address.
    pub(crate) fn accept(&self, fd: i32) -> Result<(i32, Vec<u8>)> {
        let listener = self.call(|state| state.table.get(fd).cloned())?;
        self.wait(time_limit(listener.nonblock, listener.receive_timeout), |state| {
            let id = state.listener(fd)?;
            let id = state.wire.stack().tcp_accept(id)?;
            let options = state.wire.stack().tcp_options(id)?;
            let remote = state.wire.stack().tcp_endpoints(id)?.1;
            let mut descriptor = Descriptor::new(Kind::Connection(id), listener.v6, options);
            descriptor.tells_left = listener.tells_left;
            (descriptor.receive_timeout, descriptor.send_timeout) = (listener.receive_timeout, listener.send_timeout);
            Ok((state.table.enter(descriptor)?, name::emit(remote, listener.v6)))
        })
    }

    /// `connect`.
    pub(crate) fn connect(&self, fd: i32, address: &[u8]) -> Result<()> {
        let d = self.call(|state| state.table.get(fd).cloned())?;
        let dissolves = name::is_unspecified(address)?;
        match d.kind {
            Kind::Connection(id) if dissolves => return self.call(|state| state.dissolve(fd, id)),
            Kind::Fresh if dissolves => return Ok(()),
            Kind::Fresh => {
                let remote = name::remote(address, d.v6)?;
                self.call(|state| state.begin(fd, remote))?;
                if d.nonblock {
                    return Err(Errno(libc::EINPROGRESS));
                }
            }
            Kind::Connection(_) if d.connecting => {}
            _ => return Err(Errno(libc::EISCONN)),
        }
        match self.wait(time_limit(d.nonblock, d.send_timeout), |state| state.outcome(fd)) {
            Err(AGAIN) if d.nonblock => Err(Errno(libc::EALREADY)),
            Err(AGAIN) => Err(Errno(libc::EINPROGRESS)),
            done => done,
        }
    }

    /// `send` and its variants. With `MSG_FASTOPEN`, connects to `address` first: the data follows
    /// the handshake.
    pub(crate) fn send(&self, fd: i32, bytes: &[u8], flags: i32, address: Option<&[u8]>) -> Result<usize> {
        if flags & libc::MSG_FASTOPEN != 0
            && let Some(address) = address
        {
            self.connect(fd, address)?;
        }
        let d = self.call(|state| state.table.get(fd).cloned())?;
        let mut rest = bytes;
        let done = |rest: &[u8]| bytes.len() - rest.len();
        let nonblock = d.nonblock || flags & libc::MSG_DONTWAIT != 0;
        let end = self.wait(time_limit(nonblock, d.send_timeout), |state| {
            let id = state.connection(fd, libc::EPIPE)?;
            let now = state.wire.now();
            let mut stack = state.wire.stack();
            // A call that has sent some bytes leaves the error to the next call.
            if done(rest) > 0 && stack.readiness(id.into())?.contains(Ready::ERR) {
                return Ok(());
            }
            let taken = if flags & libc::MSG_OOB != 0 {
                stack.tcp_send_urgent(id, now, &mut rest)
            } else {
                stack.tcp_send(id, now, flags & libc::MSG_MORE != 0, &mut rest)
            };
            match taken {
                Ok(_) if rest.is_empty() => Ok(()),
                Ok(_) | Err(StackError::WouldBlock) => Err(AGAIN),
                Err(error) => Err(error.into()),
            }
        });
        match end {
            Err(error) if done(rest) == 0 => Err(error),
            _ => Ok(done(rest)),
        }
    }

    /// `recv` and its variants.
    pub(crate) fn receive(&self, fd: i32, len: usize, flags: i32) -> Result<Received> {
        let d = self.call(|state| state.table.get(fd).cloned())?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Err(AGAIN);
        }
        if flags & libc::MSG_OOB != 0 {
            return self.call(|state| {
                let id = state.connection(fd, libc::ENOTCONN)?;
                let byte = state.wire.stack().tcp_recv_urgent(id, flags & libc::MSG_PEEK != 0)?;
                Ok(Received { bytes: vec![byte], len: 1, left: None, flags: libc::MSG_OOB })
            });
        }
        let peek = flags & libc::MSG_PEEK != 0;
        let all = flags & libc::MSG_WAITALL != 0 && !peek;
        let mut got = Received::default();
        let nonblock = d.nonblock || flags & libc::MSG_DONTWAIT != 0;
        let end = self.wait(time_limit(nonblock, d.receive_timeout), |state| {
            let id = state.connection(fd, libc::ENOTCONN)?;
            let now = state.wire.now();
            loop {
                let mut buffer = vec![0; len - got.bytes.len()];
                let n = state.wire.stack().tcp_recv(id, now, RecvFlags { peek }, &mut &mut buffer[..])?;
                got.bytes.extend_from_slice(&buffer[..n]);
                if n == 0 || !all || got.bytes.len() == len {
                    got.left = Some(state.wire.stack().tcp_info(id, now)?.unread);
                    return Ok(());
                }
            }
        });
        match end {
            Err(error) if got.bytes.is_empty() => return Err(error),
            _ => {}
        }
        got.len = got.bytes.len();
        if flags & libc::MSG_TRUNC != 0 {
            got.bytes.clear();
        }
        got.left = got.left.filter(|_| d.tells_left);
        Ok(got)
    }

    /// `shutdown`.
    pub(crate) fn shutdown(&self, fd: i32, how: i32) -> Result<()> {
        let way = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno(libc::EINVAL)),
        };
        self.call(|state| {
            let now = state.wire.now();
            match state.table.get(fd)?.kind {
                Kind::Connection(id) => Ok(state.wire.stack().tcp_shutdown(id, now, way)?),
                Kind::Listener(_) if way == Shutdown::Write => Ok(()),
                Kind::Listener(id) => {
                    let options = state.wire.stack().tcp_listener_options(id)?;
                    let bound = state.wire.stack().tcp_listener_endpoint(id)?;
                    state.wire.stack().tcp_close_listener(id, now)?;
                    let d = state.table.get(fd)?;
                    (d.kind, d.options, d.bound) = (Kind::Fresh, options, bound);
                    Ok(())
                }
                _ => Err(Errno(libc::ENOTCONN)),
            }
        })
    }

    /// `close`, as far as the stack is concerned.
    pub(crate) fn close(&self, fd: i32) -> Result<()> {
        self.call(|state| {
            let now = state.wire.now();
            state.forget(fd);
            let mut stack = state.wire.stack();
            match state.table.remove(fd)?.kind {
                Kind::Connection(id) => stack.tcp_close(id, now)?,
                Kind::Listener(id) => stack.tcp_close_listener(id, now)?,
                Kind::Set(id) => stack.set_destroy(id)?,
                Kind::Fresh => {}
            }
            Ok(())
        })
    }
}
