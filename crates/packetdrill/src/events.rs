//! `poll` and `epoll`.

use crate::errno::{AGAIN, Errno, Result};
use crate::machine::{Machine, State, TimeLimit};
use crate::table::{Descriptor, Kind, Watched};
use tickwire_linux_abi::poll;
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, SocketKind};

/// Readiness of a socket that is neither connected nor listening, as on Linux.
const FRESH: Ready = Ready(Ready::OUT.0 | Ready::HUP.0);

fn time_limit(timeout_ms: i32) -> TimeLimit {
    match timeout_ms {
        0 => TimeLimit::None,
        ms if ms > 0 => TimeLimit::For(Span::from_millis(ms as u64)),
        _ => TimeLimit::Endless,
    }
}

impl State {
    /// What is reported of `events`.
    fn reported(&mut self, fd: i32, events: u32) -> Result<u32> {
        let (kind, ready) = match self.table.get(fd)?.kind.socket() {
            Some(id) => (id.kind, self.wire.stack().readiness(id)?),
            None => (SocketKind::Tcp, FRESH),
        };
        Ok(poll::reported(kind, ready, events))
    }

    /// Turns a fresh socket into one of the stack's, and keeps it in its epoll instances.
    pub(crate) fn becomes(&mut self, fd: i32, kind: Kind) -> Result<()> {
        self.table.get(fd)?.kind = kind;
        let Some(socket) = kind.socket() else { return Ok(()) };
        for d in self.table.sets() {
            let Kind::Set(set) = d.kind else { continue };
            if let Some(at) = d.watched.iter().position(|w| w.fd == fd) {
                let w = d.watched.swap_remove(at);
                self.wire.stack().item_add(set, socket, fd as u64, w.interest, w.data)?;
            }
        }
        Ok(())
    }

    /// Removes a descriptor that is being closed from all epoll instances.
    pub(crate) fn forget(&mut self, fd: i32) {
        let socket = self.table.get(fd).ok().and_then(|d| d.kind.socket());
        for d in self.table.sets() {
            d.watched.retain(|w| w.fd != fd);
            if let (Kind::Set(set), Some(socket)) = (d.kind, socket) {
                // The set need not contain it.
                let _ = self.wire.stack().item_delete(set, socket, fd as u64);
            }
        }
    }
}

impl Machine {
    /// `poll`: each descriptor's readiness. `asked`: descriptor and bits.
    pub(crate) fn poll(&self, asked: &[(i32, i16)], timeout_ms: i32) -> Result<Vec<i16>> {
        let mut answer = vec![0; asked.len()];
        let end = self.wait(time_limit(timeout_ms), |state| {
            for (&(fd, events), into) in asked.iter().zip(&mut answer) {
                let asked = events as u16 as u32;
                let ready = match fd {
                    ..0 => 0,
                    _ => state.reported(fd, asked).unwrap_or(u32::from(libc::POLLNVAL as u16)),
                };
                *into = ready as i16;
            }
            if answer.iter().any(|&ready| ready != 0) { Ok(()) } else { Err(AGAIN) }
        });
        match end {
            Ok(()) | Err(AGAIN) => Ok(answer),
            Err(error) => Err(error),
        }
    }

    /// `epoll_create`.
    pub(crate) fn epoll_create(&self, size: i32) -> Result<i32> {
        if size <= 0 {
            return Err(Errno(libc::EINVAL));
        }
        self.call(|state| {
            let id = state.wire.stack().set_create()?;
            let options = state.wire.stack().tcp_defaults();
            state.table.enter(Descriptor::new(Kind::Set(id), false, options))
        })
    }

    /// `epoll_ctl`; `event`: bits and data.
    pub(crate) fn epoll_ctl(&self, epoll: i32, operation: i32, fd: i32, event: (u32, u64)) -> Result<()> {
        let (bits, data) = event;
        let interest = poll::interest(bits);
        self.call(|state| {
            let socket = state.table.get(fd)?.kind.socket();
            let d = state.table.get(epoll)?;
            let Kind::Set(set) = d.kind else { return Err(Errno(libc::EINVAL)) };
            let key = fd as u64;
            match (operation, socket) {
                (libc::EPOLL_CTL_ADD, Some(socket)) => {
                    state.wire.stack().item_add(set, socket, key, interest, data)?;
                }
                (libc::EPOLL_CTL_MOD, Some(socket)) => {
                    state.wire.stack().item_modify(set, socket, key, interest, data)?;
                }
                (libc::EPOLL_CTL_DEL, Some(socket)) => state.wire.stack().item_delete(set, socket, key)?,
                (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => {
                    let there = d.watched.iter().any(|w| w.fd == fd);
                    match (operation == libc::EPOLL_CTL_ADD, there) {
                        (true, true) => return Err(Errno(libc::EEXIST)),
                        (false, false) => return Err(Errno(libc::ENOENT)),
                        _ => d.watched.retain(|w| w.fd != fd),
                    }
                    if operation != libc::EPOLL_CTL_DEL {
                        d.watched.push(Watched { fd, interest, data });
                    }
                }
                _ => return Err(Errno(libc::EINVAL)),
            }
            Ok(())
        })
    }

    /// `epoll_wait`: bits and data of ready items.
    pub(crate) fn epoll_wait(&self, epoll: i32, most: usize, timeout_ms: i32) -> Result<Vec<(u32, u64)>> {
        if most == 0 {
            return Err(Errno(libc::EINVAL));
        }
        let end = self.wait(time_limit(timeout_ms), |state| {
            let d = state.table.get(epoll)?;
            let Kind::Set(set) = d.kind else { return Err(Errno(libc::EINVAL)) };
            let fresh = d.watched.iter().map(|w| (w.interest.ready | Ready::HUP, w.data));
            let ready = FRESH.with_classes(SocketKind::Tcp);
            let mut events: Vec<_> = fresh.map(|(mask, data)| ((ready & mask).0, data)).take(most).collect();
            let room = most - events.len();
            state.wire.stack().set_wait(set, room, |event| events.push((event.ready.0, event.data)))?;
            if events.is_empty() { Err(AGAIN) } else { Ok(events) }
        });
        match end {
            Err(AGAIN) => Ok(Vec::new()),
            end => end,
        }
    }
}
