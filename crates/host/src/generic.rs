//! Requests to a family of generic netlink: one message with its attributes, and its answer.

use crate::error::{HostError, Result};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, and the attributes of a family's name and number.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const TIMEOUT_S: i64 = 2;

/// The flag of an attribute that consists of attributes (`NLA_F_NESTED`), and the bits that are not
/// flags.
const NESTED: u16 = 1 << 15;
const KIND: u16 = 0x3fff;

/// A connection to one family, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Generic {
    socket: Socket,
    family: u16,
    sequence: u32,
    what: &'static str,
}

impl Generic {
    /// Connects to a family. `what` describes its requests in errors: "tell what a device can do".
    ///
    /// # Errors
    /// If the socket cannot be made, or the kernel does not know the family.
    pub(crate) fn open(family: &str, what: &'static str) -> Result<Self> {
        let fail = |source| HostError::Socket { what, source };
        let mut socket = Socket::new(NETLINK_GENERIC).map_err(fail)?;
        socket.bind(&SocketAddr::new(0, 0)).map_err(fail)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(fail)?;
        setsockopt(&socket.as_fd(), sockopt::ReceiveTimeout, &TimeVal::new(TIMEOUT_S, 0))
            .map_err(|e| fail(e.into()))?;
        let mut generic = Self { socket, family: CONTROL, sequence: 0, what };
        let mut name = Attributes::default();
        name.put(FAMILY_NAME, &[family.as_bytes(), &[0]].concat());
        let answer = generic.ask(GET_FAMILY, &name)?;
        let id = attribute(&answer, FAMILY_ID).and_then(|v| v.try_into().ok()).map(u16::from_ne_bytes);
        generic.family = id.ok_or_else(|| generic.malformed("a family without number"))?;
        Ok(generic)
    }

    /// Sends a request; returns the attributes of the answer.
    ///
    /// # Errors
    /// The kernel's error, or that it does not answer.
    pub(crate) fn ask(&mut self, command: u8, attributes: &Attributes) -> Result<Vec<u8>> {
        let what = self.what;
        let fail = |source| HostError::Socket { what, source };
        self.sequence = self.sequence.wrapping_add(1);
        let request = encode(self.family, self.sequence, command, attributes);
        self.socket.send(&request, 0).map_err(fail)?;
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(errno) => return Err(fail(errno.into())),
            };
            let message = buffer.get(..length).filter(|m| m.len() >= HEADER + GENERIC_HEADER);
            let message = message.ok_or_else(|| self.malformed("shorter than a header"))?;
            let word = |at: usize| u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
            if word(8) != self.sequence {
                continue;
            }
            if u16::from_ne_bytes([message[4], message[5]]) == ERROR {
                let errno = word(HEADER).cast_signed().saturating_abs();
                return Err(HostError::Refused { what, source: io::Error::from_raw_os_error(errno) });
            }
            return Ok(message[HEADER + GENERIC_HEADER..].to_vec());
        }
    }

    fn malformed(&self, why: &str) -> HostError {
        HostError::Malformed { what: self.what, why: why.into() }
    }
}

/// Attributes in their wire format.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    /// Appends one attribute.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(4 + value.len()).unwrap_or(0);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Appends an attribute that consists of others.
    pub(crate) fn nest(&mut self, kind: u16, inner: &Self) {
        self.put(kind | NESTED, &inner.0);
    }
}

fn encode(family: u16, sequence: u32, command: u8, attributes: &Attributes) -> Vec<u8> {
    let length = HEADER + GENERIC_HEADER + attributes.0.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(0).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]); // the kernel fills in our port
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(&attributes.0);
    bytes
}

/// All attributes, each with its kind, as long as their lengths are valid.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, _) = bytes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([head[2], head[3]]) & KIND, value))
    })
}

/// The value of the first attribute of a kind.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|&(found, _)| found == kind).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_lies_about_their_length_end_the_search() {
        let mut bytes = vec![6, 0, 1, 0, 7, 7, 0, 0];
        bytes.extend([8, 0, 3, 0, 1, 2, 3, 4]);
        assert_eq!(attribute(&bytes, 1), Some(&[7, 7][..]));
        assert_eq!(attribute(&bytes, 3), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&bytes, 9), None);
        assert_eq!(attribute(&[3, 0, 9, 0, 1, 1, 1, 1], 1), None, "shorter than its header");
        assert_eq!(attribute(&[0xff, 0, 9, 0], 9), None, "longer than the message");
    }

    #[test]
    fn nested_attributes_are_read_as_they_are_written() {
        let mut inner = Attributes::default();
        inner.put(2, b"name\0");
        inner.put(3, &[]);
        let mut outer = Attributes::default();
        outer.nest(7, &inner);
        let found: Vec<_> = attributes(attribute(&outer.0, 7).unwrap()).collect();
        assert_eq!(found, [(2, &b"name\0"[..]), (3, &[][..])]);
    }
}
