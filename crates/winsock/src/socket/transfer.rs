//! Sending and receiving.

use super::{Handled, Outcome, Socket, State, WinsockError};
use crate::lane::{Access, Lane, Waited, lane};
use crate::notice::record;
use crate::socket::request::send::Send;
use crate::socket::request::status;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::RecvFlags;
use tickwire_stack::udp::SendTo;
use tickwire_stack::{Ready, StackError, TcpId, UdpId};

/// What a call that receives asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveFlags {
    /// `MSG_PEEK`.
    pub(crate) is_peek: bool,
    /// `MSG_WAITALL`.
    pub(crate) is_all: bool,
    /// `MSG_OOB`.
    pub(crate) is_urgent: bool,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes that are in the buffer.
    pub(crate) length: usize,
    /// The sender of a datagram.
    pub(crate) from: Option<Endpoint>,
    /// The datagram was longer than the buffer.
    pub(crate) is_cut: bool,
}

/// Whether datagrams to a destination are the kernel's to send.
pub(crate) fn is_of_kernel(to: &Endpoint) -> bool {
    to.address.is_loopback() || to.address.is_multicast() || to.address.is_limited_broadcast()
}

impl Socket {
    /// Waits for a call on the lane, unless the socket does not block.
    pub(super) fn wait<T>(
        &self,
        lane: &Lane,
        until: Option<Instant>,
        mut call: impl FnMut(&mut Access<'_>) -> Result<T, StackError>,
    ) -> Result<T, WinsockError> {
        let once = |access: &mut Access<'_>| match call(access) {
            Err(StackError::WouldBlock) => None,
            done => Some(done),
        };
        let mut once = once;
        if lane.is_lost() {
            return Err(WinsockError::NETWORK_DOWN);
        }
        if self.is_nonblocking() {
            return lane.enter(once).ok_or(WinsockError::WOULD_BLOCK)?.map_err(WinsockError::from);
        }
        match lane.wait(until, &mut once) {
            Waited::Done(result) => result.map_err(WinsockError::from),
            Waited::TimedOut => Err(WinsockError::TIMED_OUT),
            Waited::Lost => Err(WinsockError::NETWORK_DOWN),
        }
    }

    /// Sends, to a destination if one is named. Returns how many bytes.
    pub(crate) fn send(&self, data: &[u8], to: Option<Endpoint>) -> Outcome<usize> {
        self.after_send(data.len(), self.try_send(data, to))
    }

    /// Sends bytes of which the last is urgent (`MSG_OOB`). Returns how many.
    pub(crate) fn send_urgent(&self, data: &[u8]) -> Outcome<usize> {
        let sent = match self.state() {
            State::Idle | State::Kernel { .. } => Ok(Handled::Kernel),
            State::Tcp { id, .. } => {
                let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
                let send = |access: &mut Access<'_>| access.stack.tcp_send_urgent(id, access.now, &mut &data[..]);
                self.wait(lane, self.send_until(), send).map(Handled::Ours)
            }
            State::Udp { .. } => Err(WinsockError::NOT_SUPPORTED),
            State::Listener { .. } => Err(WinsockError::NOT_CONNECTED),
        };
        self.after_send(data.len(), sent)
    }

    /// What a sending call leaves to be told. One that did not have room for all is followed by an
    /// event as soon as there is.
    fn after_send(&self, wanted: usize, sent: Outcome<usize>) -> Outcome<usize> {
        match sent {
            Err(WinsockError::WOULD_BLOCK) => self.enable_events(record::WRITE),
            Ok(Handled::Ours(count)) if count < wanted => self.enable_events(record::WRITE),
            Err(error) => self.note_failure(error),
            Ok(_) => (),
        }
        sent
    }

    fn try_send(&self, data: &[u8], to: Option<Endpoint>) -> Outcome<usize> {
        if to.is_some() {
            self.open_for_sending()?;
        }
        match self.state() {
            State::Idle | State::Kernel { .. } => Ok(Handled::Kernel),
            State::Udp { id, .. } => self.send_datagram(id, data, to),
            State::Tcp { id, .. } => self.send_stream(id, data).map(Handled::Ours),
            State::Listener { .. } => Err(WinsockError::NOT_CONNECTED),
        }
    }

    /// A datagram is about to be sent: a socket that is not bound comes to the lane.
    pub(crate) fn open_for_sending(&self) -> Result<(), WinsockError> {
        if matches!(self.state(), State::Idle) && self.kind == super::Kind::Datagram {
            // The kernel binds it, as it would.
            self.open_datagram()?;
        }
        Ok(())
    }

    fn send_stream(&self, id: TcpId, data: &[u8]) -> Result<usize, WinsockError> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let until = self.send_until();
        let mut sent = 0;
        // A blocking call returns when the stack has all of it.
        loop {
            let result =
                self.wait(lane, until, |access| access.stack.tcp_send(id, access.now, false, &mut &data[sent..]));
            match self.remember(result) {
                Ok(count) => sent += count,
                Err(_) if sent > 0 => return Ok(sent),
                Err(error) => return Err(error),
            }
            if sent >= data.len() || self.is_nonblocking() {
                return Ok(sent);
            }
        }
    }

    /// Sends all of it.
    pub(crate) fn send_all(&self, send: &mut Send) -> Result<(), WinsockError> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let until = self.send_until();
        loop {
            if let Some(ended) = send.attempt(self, lane) {
                return status::error(ended.status).map_or(Ok(()), Err);
            }
            let State::Tcp { id, .. } = self.state() else { return Err(WinsockError::NOT_CONNECTED) };
            self.wait(lane, until, |access| match access.stack.readiness(id.into())? {
                ready if ready.0 & (Ready::OUT.0 | Ready::ERR.0 | Ready::HUP.0) != 0 => Ok(()),
                _ => Err(StackError::WouldBlock),
            })?;
        }
    }

    fn send_datagram(&self, id: UdpId, data: &[u8], to: Option<Endpoint>) -> Outcome<usize> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        if to.as_ref().is_some_and(is_of_kernel) {
            return Ok(Handled::Kernel);
        }
        let to = SendTo { destination: to, ..SendTo::default() };
        let once = |access: &mut Access<'_>| access.stack.udp_send(id, access.now, &to, &mut &data[..]);
        // Windows reports a port that is not there as a reset, unless the program does not want to
        // know.
        let send = |access: &mut Access<'_>| match once(access) {
            Err(StackError::Refused) if self.reports_unreachable() => Err(StackError::Reset),
            Err(StackError::Refused) => once(access),
            done => done,
        };
        match self.wait(lane, self.send_until(), send) {
            Err(error) if error == StackError::NeedPath.into() || error == StackError::NoPath.into() => {
                let query = lane.enter(|access| access.stack.udp_query(id, &to))?;
                if lane.resolve(query).is_err() {
                    // By another way than the accelerated card: the kernel's socket has the port.
                    return Ok(Handled::Kernel);
                }
                // While the neighbour is being resolved the stack keeps the datagram.
                self.wait(lane, self.send_until(), send).map(Handled::Ours)
            }
            done => done.map(Handled::Ours),
        }
    }

    /// Receives.
    pub(crate) fn receive(&self, buffer: &mut [u8], flags: ReceiveFlags) -> Outcome<Received> {
        let received = self.try_receive(buffer, flags);
        if let Err(error) = received
            && error != WinsockError::WOULD_BLOCK
        {
            self.note_failure(error);
        }
        // What the kernel does for its half is still to come.
        if received != Ok(Handled::Kernel) {
            self.enable_events(if flags.is_urgent { record::URGENT } else { record::READ });
        }
        received
    }

    fn try_receive(&self, buffer: &mut [u8], flags: ReceiveFlags) -> Outcome<Received> {
        match self.state() {
            State::Idle => Ok(Handled::Kernel),
            State::Kernel { .. } if flags.is_urgent => Ok(Handled::Kernel),
            State::Kernel { row, .. } => self.poll_kernel(row).map(|()| Handled::Kernel),
            _ if self.is_receive_shut() => Err(WinsockError::SHUT),
            State::Udp { id, .. } => match self.receive_datagram(id, buffer, flags) {
                Err(_) if self.has_left() => Ok(Handled::Kernel),
                received => received.map(|received| received.map_or(Handled::Kernel, Handled::Ours)),
            },
            State::Tcp { id, .. } if flags.is_urgent => self.receive_urgent(id, buffer, flags).map(Handled::Ours),
            State::Tcp { id, .. } => self.receive_stream(id, buffer, flags).map(Handled::Ours),
            State::Listener { .. } => Err(WinsockError::NOT_CONNECTED),
        }
    }

    /// Keeps the error by which a connection has ended: Windows repeats it at each call, where the
    /// stack tells it once.
    pub(crate) fn remember(&self, result: Result<usize, WinsockError>) -> Result<usize, WinsockError> {
        match (result, WinsockError(self.failure.load(Relaxed))) {
            (Err(error @ (WinsockError::RESET | WinsockError::ABORTED)), _) => {
                self.failure.store(error.0, Relaxed);
                Err(error)
            }
            (Err(WinsockError::SHUT), known) if known.0 != 0 => Err(known),
            // It was not the program that has ended it.
            (Err(WinsockError::SHUT), _) if !self.is_send_shut.load(Relaxed) => {
                self.failure.store(WinsockError::RESET.0, Relaxed);
                Err(WinsockError::RESET)
            }
            (Ok(0), known) if known.0 != 0 => Err(known),
            (result, _) => result,
        }
    }

    /// Takes the urgent byte. Windows waits for one that is not announced.
    pub(crate) fn take_urgent(&self, access: &mut Access<'_>, id: TcpId, is_peek: bool) -> Result<u8, StackError> {
        match access.stack.tcp_recv_urgent(id, is_peek) {
            Err(StackError::Invalid) if !self.is_urgent_inline() => match access.stack.readiness(id.into()) {
                Ok(ready) if ready.0 & (Ready::ERR.0 | Ready::HUP.0 | Ready::RDHUP.0) == 0 => {
                    Err(StackError::WouldBlock)
                }
                _ => Err(StackError::Invalid),
            },
            done => done,
        }
    }

    /// Receives the urgent byte.
    fn receive_urgent(&self, id: TcpId, buffer: &mut [u8], flags: ReceiveFlags) -> Result<Received, WinsockError> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let Some(first) = buffer.first_mut() else {
            return Ok(Received { length: 0, from: None, is_cut: false });
        };
        let receive = |access: &mut Access<'_>| self.take_urgent(access, id, flags.is_peek);
        *first = self.wait(lane, self.receive_until(), receive)?;
        Ok(Received { length: 1, from: None, is_cut: false })
    }

    fn receive_stream(&self, id: TcpId, buffer: &mut [u8], flags: ReceiveFlags) -> Result<Received, WinsockError> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let until = self.receive_until();
        let wanted = RecvFlags { peek: flags.is_peek };
        let mut length = 0;
        loop {
            let result = self
                .wait(lane, until, |access| access.stack.tcp_recv(id, access.now, wanted, &mut &mut buffer[length..]));
            match self.remember(result) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(_) if length > 0 => break,
                Err(error) => return Err(error),
            }
            let is_enough = !flags.is_all || flags.is_peek || self.is_nonblocking();
            if length >= buffer.len() || is_enough {
                break;
            }
        }
        Ok(Received { length, from: None, is_cut: false })
    }

    /// Receives a datagram. `None`: the kernel has one for its half.
    fn receive_datagram(
        &self,
        id: UdpId,
        buffer: &mut [u8],
        flags: ReceiveFlags,
    ) -> Result<Option<Received>, WinsockError> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let result = self.wait_with_half(lane, (id.into(), self.receive_until()), |access| {
            let datagram = match access.stack.udp_recv(id, flags.is_peek, &mut &mut *buffer) {
                Err(StackError::Refused) if !self.reports_unreachable() => {
                    access.stack.udp_recv(id, flags.is_peek, &mut &mut *buffer)?
                }
                done => done?,
            };
            let is_cut = datagram.len > datagram.copied;
            Ok(Received { length: datagram.copied, from: Some(datagram.source), is_cut })
        });
        // Windows reports a port that is not there as a reset.
        result.map_err(|error| if error == StackError::Refused.into() { StackError::Reset.into() } else { error })
    }
}
