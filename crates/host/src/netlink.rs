//! One request and its answer over a netlink socket.

use crate::error::{HostError, Result};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The kernel never fills more than 32 KiB into one datagram of a dump.
const BUFFER: usize = 64 * 1024;

/// The kernel answers within the call; this bounds the wait if an answer is lost.
const TIMEOUT_S: i64 = 2;

/// A dump that was disturbed by a change (`NLM_F_DUMP_INTR`) is repeated this often.
const DUMP_ATTEMPTS: usize = 4;

const NLM_F_DUMP_INTR: u16 = 16;

/// A netlink socket for requests (not for events, see [`crate::Monitor`]).
pub(crate) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").field("fd", &self.socket.as_raw_fd()).finish_non_exhaustive()
    }
}

/// Opens and binds a routing netlink socket that receives the events of `groups` (a bit mask).
pub(crate) fn open_socket(groups: u32) -> Result<Socket> {
    let fail = |what| move |source| HostError::Socket { what, source };
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(fail("opening a socket"))?;
    socket.bind(&SocketAddr::new(0, groups)).map_err(fail("binding the socket"))?;
    Ok(socket)
}

impl Netlink {
    pub(crate) fn open() -> Result<Self> {
        let fail = |what| move |source| HostError::Socket { what, source };
        let socket = open_socket(0)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(fail("connecting to the kernel"))?;
        setsockopt(&socket.as_fd(), sockopt::ReceiveTimeout, &TimeVal::new(TIMEOUT_S, 0))
            .map_err(|e| HostError::Socket { what: "setting the receive timeout", source: e.into() })?;
        Ok(Self { socket, buffer: vec![0; BUFFER], sequence: 0 })
    }

    /// Sends a command and waits for the kernel's acknowledgement.
    pub(crate) fn order(&mut self, what: &'static str, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
        self.exchange(what, message, NLM_F_ACK | flags).map(drop)
    }

    /// Requests one object. Answers are collected until the kernel's acknowledgement.
    pub(crate) fn ask(&mut self, what: &'static str, message: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>> {
        self.exchange(what, message, NLM_F_ACK).map(|(answers, _)| answers)
    }

    /// Requests a whole table (of links or addresses).
    pub(crate) fn dump(
        &mut self,
        what: &'static str,
        message: &RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        for _ in 1..DUMP_ATTEMPTS {
            let (answers, disturbed) = self.exchange(what, message.clone(), NLM_F_DUMP)?;
            if !disturbed {
                return Ok(answers);
            }
        }
        self.exchange(what, message.clone(), NLM_F_DUMP).map(|(answers, _)| answers)
    }

    fn exchange(
        &mut self,
        what: &'static str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(Vec<RouteNetlinkMessage>, bool)> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(|source| HostError::Socket { what, source })?;
        self.collect(what)
    }

    fn collect(&mut self, what: &'static str) -> Result<(Vec<RouteNetlinkMessage>, bool)> {
        let mut answers = Vec::new();
        let mut disturbed = false;
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(errno) => return Err(HostError::Socket { what, source: errno.into() }),
            };
            let mut rest = &self.buffer[..length];
            while let Some((one, after)) = split(rest) {
                rest = after;
                if sequence_of(one) != self.sequence {
                    continue; // late answer to an earlier, timed-out question
                }
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(one);
                // A message that the decoder does not know is skipped instead of failing the whole
                // table: new kernels add kinds of devices.
                let Ok(message) = message else { continue };
                disturbed |= message.header.flags & NLM_F_DUMP_INTR != 0;
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok((answers, disturbed)),
                    NetlinkPayload::Error(error) => {
                        if error.code.is_none() {
                            return Ok((answers, disturbed));
                        }
                        let errno = error.raw_code().saturating_abs();
                        return Err(HostError::Refused { what, source: io::Error::from_raw_os_error(errno) });
                    }
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    _ => {}
                }
            }
        }
    }
}

/// The messages of one datagram of events; those that cannot be decoded are skipped.
pub(crate) fn decode_all(mut rest: &[u8]) -> Vec<RouteNetlinkMessage> {
    let mut found = Vec::new();
    while let Some((one, after)) = split(rest) {
        rest = after;
        if let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(one)
            && let NetlinkPayload::InnerMessage(inner) = message.payload
        {
            found.push(inner);
        }
    }
    found
}

/// Splits the first message from a datagram: its bytes, and what follows it at the next multiple of
/// four.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    if length < 16 || length > bytes.len() {
        return None;
    }
    let next = length.next_multiple_of(4).min(bytes.len());
    Some((&bytes[..length], &bytes[next..]))
}

fn sequence_of(message: &[u8]) -> u32 {
    message.get(8..12).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_cut_at_message_borders_and_lies_about_length_end_it() {
        let mut bytes = vec![0u8; 44];
        bytes[0] = 18; // padded to 20
        bytes[20] = 24;
        let (first, rest) = split(&bytes).unwrap();
        assert_eq!((first.len(), rest.len()), (18, 24));
        let (second, rest) = split(rest).unwrap();
        assert_eq!((second.len(), rest.len()), (24, 0));
        assert!(split(rest).is_none());
        assert!(split(&[200, 0, 0, 0, 0]).is_none(), "longer than the datagram");
        assert!(split(&[4, 0, 0, 0, 0]).is_none(), "shorter than a header would loop for ever");
        assert!(decode_all(&[16, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).is_empty());
    }
}
