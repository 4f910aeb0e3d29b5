//! What a device can do with XDP, asked of the kernel's "netdev" family of generic netlink (Linux 6.3).

use crate::error::{Error, Result};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

const WHAT: &str = "tell what a device can do with XDP";

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, and the attributes of a family's name and number.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET`, and the attributes of a device's index and XDP features.
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_XDP: u16 = 3;

const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const PATIENCE_S: i64 = 2;

/// Features of a device, as bits of the kernel's `enum netdev_xdp_act`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Whether an XDP program on it may redirect what it receives to other devices.
    #[must_use]
    pub const fn redirects(self) -> bool {
        self.0 & 1 << 1 != 0
    }

    /// Whether it transmits frames that an XDP program elsewhere redirects to it. Of a veth device this depends on its far end.
    #[must_use]
    pub const fn takes_redirects(self) -> bool {
        self.0 & 1 << 2 != 0
    }

    /// Whether such frames may be longer than a page (jumbo frames).
    #[must_use]
    pub const fn takes_long_redirects(self) -> bool {
        self.0 & 1 << 6 != 0
    }
}

/// A connection to the kernel for this one question, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct XdpInfo {
    socket: Socket,
    family: u16,
    sequence: u32,
}

impl XdpInfo {
    /// Opens the connection.
    ///
    /// # Errors
    /// If the socket cannot be made, or the kernel (before 6.3) does not know the family.
    pub fn open() -> Result<Self> {
        let fail = |source| Error::Socket { what: WHAT, source };
        let mut socket = Socket::new(NETLINK_GENERIC).map_err(fail)?;
        socket.bind(&SocketAddr::new(0, 0)).map_err(fail)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(fail)?;
        setsockopt(&socket.as_fd(), sockopt::ReceiveTimeout, &TimeVal::new(PATIENCE_S, 0))
            .map_err(|e| fail(e.into()))?;
        let mut info = Self { socket, family: CONTROL, sequence: 0 };
        let answer = info.ask(GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
        let id = attribute(&answer, FAMILY_ID).and_then(|v| v.try_into().ok()).map(u16::from_ne_bytes);
        info.family = id.ok_or_else(|| malformed("a family without number"))?;
        Ok(info)
    }

    /// What a device can do.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn features(&mut self, index: u32) -> Result<XdpFeatures> {
        let answer = self.ask(GET_DEVICE, DEVICE_INDEX, &index.to_ne_bytes())?;
        let bits = attribute(&answer, DEVICE_XDP).and_then(|v| v.try_into().ok()).map(u64::from_ne_bytes);
        Ok(XdpFeatures(bits.unwrap_or(0)))
    }

    /// Asks with one attribute; the attributes of the answer.
    fn ask(&mut self, command: u8, kind: u16, value: &[u8]) -> Result<Vec<u8>> {
        let fail = |source| Error::Socket { what: WHAT, source };
        self.sequence = self.sequence.wrapping_add(1);
        let request = encode(self.family, self.sequence, command, kind, value);
        self.socket.send(&request, 0).map_err(fail)?;
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(errno) => return Err(fail(errno.into())),
            };
            let message = buffer.get(..length).filter(|m| m.len() >= HEADER + GENERIC_HEADER);
            let message = message.ok_or_else(|| malformed("shorter than a header"))?;
            let word = |at: usize| u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
            if word(8) != self.sequence {
                continue;
            }
            if u16::from_ne_bytes([message[4], message[5]]) == ERROR {
                let errno = word(HEADER).cast_signed().saturating_abs();
                return Err(Error::Refused { what: WHAT, source: io::Error::from_raw_os_error(errno) });
            }
            return Ok(message[HEADER + GENERIC_HEADER..].to_vec());
        }
    }
}

fn malformed(why: &str) -> Error {
    Error::Malformed { what: WHAT, why: why.into() }
}

fn encode(family: u16, sequence: u32, command: u8, kind: u16, value: &[u8]) -> Vec<u8> {
    let attribute_length = 4 + value.len();
    let length = HEADER + GENERIC_HEADER + attribute_length.next_multiple_of(4);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(0).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]); // the kernel fills in our port
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(u16::try_from(attribute_length).unwrap_or(0).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length, 0);
    bytes
}

/// The value of the first attribute of a kind.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let (head, _) = bytes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let found = u16::from_ne_bytes([head[2], head[3]]);
        let value = bytes.get(4..length)?;
        // The two upper bits are flags.
        if found & 0x3fff == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
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
    fn the_loopback_device_takes_no_redirects() {
        // On kernels before 6.3 there is nobody to ask.
        if let Ok(mut info) = XdpInfo::open() {
            assert!(!info.features(1).unwrap().takes_redirects());
            assert!(info.features(0x7fff_0000).is_err());
        }
    }
}
