//! Urgent data as on Linux (RFC 6093 §3): the urgent pointer refers to the byte after the single
//! urgent byte. That byte is taken out of the stream unless the program wants it inline, and
//! reading stops at its position.

use crate::error::{Result, StackError};
use crate::frame::Frames;
use crate::ids::{Ready, TcpId};
use crate::tcp::connection::socket::Socket;
use crate::tcp::wire::header::{Segment, bit};
use crate::tcp::wire::seq::Seq;
use crate::{ConnectionIndex, Stack};
use zerocopy::FromZeros;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
enum Mark {
    /// There is none, or the program has read past it.
    #[default]
    None = 0,
    /// Announced; the byte itself has not arrived yet.
    Announced,
    /// The byte has arrived.
    Valid,
    /// The program has taken the byte; its position in the stream is still ahead.
    Taken,
}

shared_layout! { enum Mark { None, Announced, Valid, Taken } }

/// Urgent data of one connection, in both directions.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Urgent {
    /// SND.UP: the number after our urgent byte.
    send_end: Seq,
    /// The sequence number of the peer's urgent byte.
    at: Seq,
    sending: bool,
    mark: Mark,
    byte: u8,
}

shared_layout! { Urgent { send_end, at, sending, mark, byte } }

impl Urgent {
    pub(in crate::tcp) fn is_readable(&self) -> bool {
        self.mark == Mark::Valid
    }

    /// Whether there is urgent data in either direction. `una`: SND.UNA.
    pub(in crate::tcp) fn is_known(&self, una: Seq) -> bool {
        self.sending && self.send_end.gt(una) || self.mark != Mark::None
    }
}

impl Socket {
    /// Our urgent byte is the last one queued.
    pub(in crate::tcp) fn mark_urgent(&mut self) {
        (self.urgent.sending, self.urgent.send_end) = (true, self.send.end);
    }

    /// Adds the urgent pointer to a segment while the urgent byte is ahead.
    pub(in crate::tcp) fn urgent_pointer(&mut self, header: &mut Segment) {
        if !self.urgent.sending {
            return;
        }
        if self.urgent.send_end.le(self.send.una) {
            self.urgent.sending = false;
            return;
        }
        let distance = self.urgent.send_end.since(header.seq);
        if distance > 0 {
            header.bits |= bit::URG;
            header.urgent = distance.min(0xffff) as u16;
        }
    }

    /// The first unread sequence number.
    fn unread(&self) -> Seq {
        let fin = u32::from(self.closing.fin_received);
        self.recv.next - fin - self.recv.bytes
    }

    /// Forgets the mark once the program has read past it.
    pub(in crate::tcp) fn urgent_passed(&mut self) {
        if self.urgent.mark != Mark::None && self.unread().gt(self.urgent.at) {
            self.urgent.mark = Mark::None;
        }
    }

    /// Whether the next byte is the urgent one, which the stream's reader does not get.
    fn is_urgent_next(&self) -> bool {
        let at_head = self.urgent.mark != Mark::None && self.urgent.at == self.unread();
        at_head && !self.settings.oob_inline && self.recv.bytes > 0
    }

    /// How many unread bytes the program can read now.
    pub(in crate::tcp) fn readable(&self) -> u32 {
        self.recv.bytes - u32::from(self.is_urgent_next())
    }

    /// The value of `FIONREAD`, as in Linux's `tcp_inq`: like [`Self::readable`], but only up to an
    /// urgent byte that is ahead.
    pub(in crate::tcp) fn unread_to_mark(&self) -> u32 {
        let ahead = self.urgent.at.since(self.unread());
        match self.urgent.mark {
            Mark::None => self.recv.bytes,
            _ if self.settings.oob_inline || self.recv.bytes == 0 || ahead >= self.recv.bytes => self.recv.bytes,
            _ => ahead,
        }
    }

    /// How many bytes a peeking reader (`MSG_PEEK`) skips: the urgent byte.
    pub(in crate::tcp) fn passed_over(&self) -> usize {
        usize::from(self.is_urgent_next())
    }

    /// Prepares a read: drops the urgent byte if the program has read up to it, and returns how
    /// many bytes precede the next one.
    pub(in crate::tcp) fn limit_to_mark(&mut self, frames: &mut Frames<'_>, peek: bool) -> usize {
        if self.urgent.mark == Mark::None {
            return usize::MAX;
        }
        let distance = self.urgent.at.since(self.unread());
        if distance > 0 {
            return distance as usize;
        }
        if !self.settings.oob_inline && self.recv.bytes > 0 && !peek {
            self.recv.skip(frames, 1);
            self.urgent_passed();
        }
        usize::MAX
    }
}

impl Stack<'_> {
    /// The urgent pointer of a segment (RFC 9293 §3.10.7.4, sixth check).
    pub(in crate::tcp) fn urgent_input(&mut self, index: ConnectionIndex, segment: &Segment) {
        let s = &mut self.mem.tcp[index];
        if segment.has(bit::URG) && segment.urgent > 0 && s.state.may_receive() {
            let at = segment.seq + u32::from(segment.urgent) - 1;
            let newer = s.urgent.mark == Mark::None || at.gt(s.urgent.at);
            if at.ge(s.recv.next) && newer {
                (s.urgent.at, s.urgent.mark) = (at, Mark::Announced);
            }
        }
    }

    /// Looks for the announced byte in the received data.
    pub(in crate::tcp) fn fetch_urgent(&mut self, index: ConnectionIndex) {
        let s = &mut self.mem.tcp[index];
        if s.urgent.mark != Mark::Announced || s.recv.next.le(s.urgent.at) || s.closing.fin_received {
            return;
        }
        let mut before = s.urgent.at.since(s.unread()) as usize;
        let mut byte = None;
        s.recv.read(&mut self.mem.frames, before + 1, true, |bytes| {
            byte = bytes.get(before).copied().or(byte);
            before = before.saturating_sub(bytes.len());
            bytes.len()
        });
        if let Some(byte) = byte {
            (s.urgent.mark, s.urgent.byte) = (Mark::Valid, byte);
            let id = self.id_of(index);
            self.notify(id, Ready::PRI);
        }
    }

    /// Takes the urgent byte (`MSG_OOB`).
    ///
    /// # Errors
    /// [`StackError::WouldBlock`] if it is announced but has not arrived; [`StackError::Invalid`]
    /// if there is none, it was taken already, or it stays inline; [`StackError::Stale`].
    pub fn tcp_recv_urgent(&mut self, id: TcpId, peek: bool) -> Result<u8> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        if s.settings.oob_inline {
            return Err(StackError::Invalid);
        }
        match s.urgent.mark {
            Mark::Valid => {
                if !peek {
                    s.urgent.mark = Mark::Taken;
                }
                Ok(s.urgent.byte)
            }
            Mark::Announced => Err(StackError::WouldBlock),
            Mark::None | Mark::Taken => Err(StackError::Invalid),
        }
    }

    /// Whether the program has read up to the urgent byte (`SIOCATMARK`).
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_at_mark(&self, id: TcpId) -> Result<bool> {
        let index = self.check(id)?;
        let s = &self.mem.tcp[index];
        Ok(s.urgent.mark != Mark::None && s.urgent.at == s.unread())
    }
}
