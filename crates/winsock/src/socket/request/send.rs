//! Requests that send: memory, and parts of files.

use super::file::FileRange;
use super::{Attempt, Ended, Parts};
use crate::hook::boundary::WinsockError;
use crate::lane::Lane;
use crate::real;
use crate::socket::{Socket, State, is_of_kernel};
use std::collections::VecDeque;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::Shutdown;
use tickwire_stack::udp::SendTo;
use tickwire_stack::{SendSource, StackError, TcpId, UdpId};

/// A piece of what is sent.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The program's memory.
    Memory(Parts),
    /// A part of a file.
    File(FileRange),
}

/// A request that sends.
#[derive(Debug)]
pub(crate) struct Send {
    /// What is left, in its order.
    pub(crate) pieces: VecDeque<Piece>,
    /// The destination of a datagram.
    pub(crate) to: Option<Endpoint>,
    /// The last byte is urgent (`MSG_OOB`).
    pub(crate) is_urgent: bool,
    /// The connection is ended afterwards (`TF_DISCONNECT`).
    pub(crate) ends: bool,
    sent: usize,
}

impl Send {
    /// A request that sends these pieces.
    pub(crate) fn new(pieces: impl IntoIterator<Item = Piece>, to: Option<Endpoint>, ends: bool) -> Self {
        Self { pieces: pieces.into_iter().collect(), to, is_urgent: false, ends, sent: 0 }
    }

    /// The last byte is urgent, or not.
    pub(crate) fn urgent(self, is_urgent: bool) -> Self {
        Self { is_urgent, ..self }
    }

    /// Tries it.
    pub(crate) fn attempt(&mut self, socket: &Socket, lane: &Lane) -> Option<Ended> {
        let result = match socket.state() {
            State::Tcp { id, .. } => self.stream(id, lane).map(|result| socket.remember(result)),
            State::Udp { id, .. } => self.datagram(id, socket, lane),
            _ => Some(Err(WinsockError::NOT_CONNECTED)),
        };
        result.map(|result| result.map_or_else(Ended::failed, Ended::done))
    }

    /// Sends as much as there is room for.
    pub(super) fn stream(&mut self, id: TcpId, lane: &Lane) -> Attempt {
        while let Some(piece) = self.pieces.front_mut() {
            let parts = match piece {
                Piece::Memory(parts) => parts,
                Piece::File(range) => match range.chunk() {
                    Ok(chunk) => chunk,
                    Err(error) => return Some(Err(error)),
                },
            };
            let before = parts.done();
            while parts.left() > 0 {
                let is_urgent = self.is_urgent;
                match lane.enter(|access| match is_urgent {
                    true => access.stack.tcp_send_urgent(id, access.now, parts),
                    false => access.stack.tcp_send(id, access.now, false, parts),
                }) {
                    Ok(_) => {}
                    Err(StackError::WouldBlock) => {
                        self.sent += parts.done() - before;
                        return None;
                    }
                    Err(error) => return Some(Err(error.into())),
                }
            }
            self.sent += parts.done() - before;
            let is_over = match piece {
                Piece::Memory(_) => true,
                Piece::File(range) => range.is_over(),
            };
            if is_over {
                self.pieces.pop_front();
            }
        }
        if self.ends {
            let _ = lane.enter(|access| access.stack.tcp_shutdown(id, access.now, Shutdown::Both));
        }
        Some(Ok(self.sent))
    }

    fn datagram(&mut self, id: UdpId, socket: &Socket, lane: &Lane) -> Attempt {
        let Some(Piece::Memory(parts)) = self.pieces.front() else { return Some(Err(WinsockError::INVALID)) };
        let to = SendTo { destination: self.to, ..SendTo::default() };
        let send = || lane.enter(|access| access.stack.udp_send(id, access.now, &to, &mut parts.clone()));
        let mut result = if self.to.as_ref().is_some_and(is_of_kernel) { Err(StackError::NoPath) } else { send() };
        if let Err(StackError::NeedPath) = result {
            let query = lane.enter(|access| access.stack.udp_query(id, &to));
            let is_found = query.is_ok_and(|query| lane.resolve(query).is_ok());
            result = if is_found { send() } else { Err(StackError::NoPath) };
        }
        match result {
            Err(StackError::WouldBlock) => None,
            // By another way than the accelerated card: the kernel's socket has the port.
            Err(StackError::NoPath) => {
                let mut data = vec![0; parts.left()];
                parts.clone().read(&mut data);
                Some(real::send_to(socket.handle, socket.family, &data, self.to))
            }
            result => Some(result.map_err(WinsockError::from)),
        }
    }
}
