//! Requests that receive.

use super::{Ended, Parts, status};
use crate::hook::boundary::WinsockError;
use crate::lane::Lane;
use crate::names::put;
use crate::real;
use crate::socket::{ReceiveFlags, Socket, State};
use tickwire_stack::addr::{Endpoint, Family};
use tickwire_stack::tcp::RecvFlags;
use tickwire_stack::{Ready, Sink, StackError, TcpId, UdpId};
use windows_sys::Win32::Networking::WinSock::{MSG_PARTIAL, SOCKADDR, WSAMSG};

/// Where the program wants the sender of a datagram. One that finds no room is not told.
#[derive(Debug)]
pub(crate) enum SenderPlace {
    /// `WSARecvFrom`; null: nowhere.
    Name { name: *mut SOCKADDR, len: *mut i32 },
    /// `WSARecvMsg`.
    Message(*mut WSAMSG),
}

// SAFETY: as for the program's buffers: they are the request's until it is complete.
unsafe impl Send for SenderPlace {}

/// A request that receives.
#[derive(Debug)]
pub(crate) struct Receive {
    /// The program's buffers.
    pub(crate) parts: Parts,
    /// What it asks for.
    pub(crate) flags: ReceiveFlags,
    /// For datagrams.
    pub(crate) sender: SenderPlace,
}

impl Receive {
    /// Tries it.
    pub(super) fn attempt(&mut self, socket: &Socket, lane: &Lane) -> Option<Ended> {
        let result = match socket.state() {
            State::Tcp { id, .. } => {
                let bytes = self.stream(id, socket, lane);
                socket.remember(bytes).map(Ended::done)
            }
            State::Udp { id, .. } => self.datagram(id, socket, lane)?,
            _ => Err(WinsockError::NOT_CONNECTED),
        };
        match result {
            Err(WinsockError::WOULD_BLOCK) => None,
            Err(error) => Some(Ended::failed(error)),
            Ok(ended) => Some(ended),
        }
    }

    fn stream(&mut self, id: TcpId, socket: &Socket, lane: &Lane) -> Result<usize, WinsockError> {
        let Self { parts, flags, .. } = self;
        if flags.is_urgent {
            let byte = lane.enter(|access| socket.take_urgent(access, id, flags.is_peek))?;
            return Ok(parts.write(&[byte]));
        }
        if parts.left() == 0 && parts.done() == 0 {
            // It tells when there is something to receive.
            let ready = lane.enter(|access| access.stack.readiness(id.into())).unwrap_or(Ready::ERR);
            let is_ready = ready.0 & (Ready::IN.0 | Ready::ERR.0 | Ready::HUP.0) != 0;
            return if is_ready { Ok(0) } else { Err(WinsockError::WOULD_BLOCK) };
        }
        if flags.is_peek {
            // Nothing is taken: it begins anew at each attempt.
            let mut copy = parts.clone();
            let count =
                lane.enter(|access| access.stack.tcp_recv(id, access.now, RecvFlags { peek: true }, &mut copy))?;
            return Ok(count);
        }
        loop {
            let result = lane.enter(|access| access.stack.tcp_recv(id, access.now, RecvFlags { peek: false }, parts));
            match result {
                Ok(0) => break,
                Ok(_) if flags.is_all && parts.left() > 0 => {}
                Ok(_) => break,
                Err(StackError::WouldBlock) => return Err(WinsockError::WOULD_BLOCK),
                Err(_) if parts.done() > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(parts.done())
    }

    fn datagram(&mut self, id: UdpId, socket: &Socket, lane: &Lane) -> Option<Result<Ended, WinsockError>> {
        let mut copy = self.parts.clone();
        let received = lane.enter(|access| access.stack.udp_recv(id, self.flags.is_peek, &mut copy));
        match received {
            Ok(datagram) => {
                let from = (socket.family, datagram.source);
                Some(Ok(self.received(datagram.copied, datagram.len, from)))
            }
            Err(StackError::WouldBlock) => self.of_kernel(socket),
            // Windows reports a port that is not there as a reset, unless the program does not want
            // to know.
            Err(StackError::Refused) if !socket.reports_unreachable() => self.of_kernel(socket),
            Err(StackError::Refused) => Some(Err(StackError::Reset.into())),
            Err(error) => Some(Err(error.into())),
        }
    }

    /// What the kernel has for its half of the socket.
    fn of_kernel(&mut self, socket: &Socket) -> Option<Result<Ended, WinsockError>> {
        let asked = socket.ask_kernel(|| real::receive_now(socket.handle, self.flags.is_peek))?;
        Some(asked.map(|(datagram, from)| {
            let copied = self.parts.clone().write(&datagram);
            self.received(copied, datagram.len(), (socket.family, from))
        }))
    }

    fn received(&self, copied: usize, len: usize, from: (Family, Endpoint)) -> Ended {
        let is_cut = copied < len;
        let flags = if is_cut { MSG_PARTIAL } else { 0 };
        // SAFETY: the program's places, which are the request's until it is complete.
        unsafe {
            match self.sender {
                SenderPlace::Name { name, len } => {
                    let _ = put(from, name, len);
                }
                SenderPlace::Message(message) => {
                    let name = (*message).name;
                    let _ = put(from, name, &raw mut (*message).namelen);
                    (*message).Control.len = 0;
                    (*message).dwFlags = flags;
                }
            }
        }
        let done = Ended { bytes: copied, flags, ..Ended::done(0) };
        if is_cut { Ended { status: status::of_error(WinsockError::MESSAGE_SIZE), ..done } } else { done }
    }
}
