//! TCP connections of the kernel's own stack, read through its socket diagnostics (`sock_diag(7)`).
//!
//! A port that an accelerated program claims may still have kernel connections: of a server that
//! ran before, or accepted just before the claim. They must stay with the kernel.

use crate::error::{HostError, Result};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use tickwire_stack::addr::{Address, Endpoint};

const WHAT: &str = "list its TCP connections";

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `TCPDIAG_GETSOCK`: the older request, the only one that dumps both families in one walk through
/// the kernel's table. That walk visits all buckets, also the empty ones: 2 to 3 ms on a host with
/// 24 GiB of memory.
const BOTH_FAMILIES: u16 = 18;
const REQUEST_AND_DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const TCP: u8 = 6;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_req`, of `struct inet_diag_req_v2` and of `struct inet_diag_msg`.
const DUMP_REQUEST: usize = 60;
const REQUEST: usize = 56;
const ANSWER: usize = 72;
const TIMEOUT_S: i64 = 2;

/// In a request: connections of all ports.
const ANY_PORT: u16 = 0;

/// ESTABLISHED, SYN-SENT, SYN-RECEIVED, FIN-WAIT-1, FIN-WAIT-2, CLOSE-WAIT, LAST-ACK, CLOSING, and
/// a handshake in progress (`TCP_NEW_SYN_RECV`), as Linux numbers them: states with data or state
/// to lose. A connection in TIME-WAIT has none.
const LIVE: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11 | 1 << 12;

/// A connection to the kernel's socket diagnostics, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Connections {
    socket: Socket,
    sequence: u32,
}

/// Both ends of a connection: the local one, and the peer's.
pub type Ends = (Endpoint, Endpoint);

impl Connections {
    /// Opens the connection.
    ///
    /// # Errors
    /// If the socket cannot be made, or the kernel has no socket diagnostics (of TCP).
    pub fn open() -> Result<Self> {
        let fail = |source| HostError::Socket { what: WHAT, source };
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(fail)?;
        socket.bind(&SocketAddr::new(0, 0)).map_err(fail)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(fail)?;
        setsockopt(&socket.as_fd(), sockopt::ReceiveTimeout, &TimeVal::new(TIMEOUT_S, 0))
            .map_err(|e| fail(e.into()))?;
        let mut connections = Self { socket, sequence: 0 };
        // The kernel returns the same error for a connection that it does not have and for missing
        // diagnostics, but not for this request.
        connections.of_port(1)?;
        Ok(connections)
    }

    /// The live connections of the kernel's stack whose local port is `port`.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn of_port(&mut self, port: u16) -> Result<Vec<Ends>> {
        let fail = |source| HostError::Socket { what: WHAT, source };
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&request(port, self.sequence), 0).map_err(fail)?;
        let (mut found, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(fail(errno.into())),
            };
            let mut rest = &buffer[..length];
            while let Some((kind, sequence, body, after)) = split(rest) {
                rest = after;
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    // The end of the dump also carries an error.
                    DONE | ERROR => {
                        let code = body.first_chunk().map_or(0, |c| i32::from_ne_bytes(*c).saturating_abs());
                        if kind == DONE && code == 0 {
                            return Ok(found);
                        }
                        let source = io::Error::from(Errno::from_raw(code));
                        return Err(HostError::Refused { what: WHAT, source });
                    }
                    BOTH_FAMILIES => {
                        found.extend(ends(body).filter(|(local, _)| port == ANY_PORT || local.port == port));
                    }
                    _ => {}
                }
            }
        }
    }

    /// All live connections of the kernel's stack.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn all(&mut self) -> Result<Vec<Ends>> {
        self.of_port(ANY_PORT)
    }

    /// Whether the kernel's stack has a live connection between these ends, the local one first,
    /// for packets received on `interface`.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn has(&mut self, ends: &Ends, interface: u32) -> Result<bool> {
        let fail = |source| HostError::Socket { what: WHAT, source };
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&exact_request(ends, interface, self.sequence), 0).map_err(fail)?;
        let mut buffer = [0; 4096];
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(fail(errno.into())),
            };
            match split(&buffer[..length]) {
                Some((_, sequence, ..)) if sequence != self.sequence => {}
                // If there is no connection, the kernel returns the listener.
                Some((BY_FAMILY, _, body, _)) => {
                    let live = body.get(1).is_some_and(|&state| state < 32 && LIVE >> state & 1 != 0);
                    return Ok(live && self::ends(body).as_ref() == Some(ends));
                }
                Some((ERROR, _, body, _)) => {
                    let code = body.first_chunk().map_or(0, |c| i32::from_ne_bytes(*c).saturating_abs());
                    return match Errno::from_raw(code) {
                        Errno::ENOENT => Ok(false),
                        errno => Err(HostError::Refused { what: WHAT, source: io::Error::from(errno) }),
                    };
                }
                _ => {}
            }
        }
    }
}

fn request(port: u16, sequence: u32) -> Vec<u8> {
    let length = HEADER + DUMP_REQUEST;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(0).to_ne_bytes());
    bytes.extend(BOTH_FAMILIES.to_ne_bytes());
    bytes.extend(REQUEST_AND_DUMP.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([0; 4]); // family, lengths of prefixes and extensions: none
    bytes.extend(port.to_be_bytes()); // the kernel filters by the local port
    bytes.resize(length - 16, 0);
    bytes.extend([0xff; 8]); // no cookie
    bytes.extend(LIVE.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// A request for one socket: the kernel looks it up as it does for a packet.
fn exact_request((local, remote): &Ends, interface: u32, sequence: u32) -> Vec<u8> {
    let length = HEADER + REQUEST;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(0).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(1u16.to_ne_bytes()); // NLM_F_REQUEST
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([if local.address.to_v4().is_some() { IPV4 } else { IPV6 }, TCP, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port.to_be_bytes());
    bytes.extend(remote.port.to_be_bytes());
    for address in [local.address, remote.address] {
        let mut field = [0; 16];
        match address.to_v4() {
            Some(v4) => field[..4].copy_from_slice(&v4),
            None => field = address.0,
        }
        bytes.extend(field);
    }
    bytes.extend(interface.to_ne_bytes());
    bytes.extend([0xff; 8]); // no cookie
    bytes
}

/// Kind, sequence number and body of the first message, and what follows it.
fn split(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let message = bytes.get(..length)?;
    let body = message.get(HEADER..)?;
    let kind = u16::from_ne_bytes([message[4], message[5]]);
    let sequence = u32::from_ne_bytes([message[8], message[9], message[10], message[11]]);
    Some((kind, sequence, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The ends in a `struct inet_diag_msg`.
fn ends(body: &[u8]) -> Option<Ends> {
    let body = body.get(..ANSWER)?;
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let address = |at: usize| -> Option<Address> {
        match body[0] {
            IPV4 => Some(Address::v4(body[at..at + 4].try_into().ok()?)),
            IPV6 => Some(Address(body[at..at + 16].try_into().ok()?)),
            _ => None,
        }
    };
    Some((Endpoint::new(address(8)?, port(4)), Endpoint::new(address(24)?, port(6))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_of_a_port_are_found_and_listeners_are_not() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let here = listener.local_addr().unwrap();
            let mut connections = Connections::open().unwrap();
            assert_eq!(connections.of_port(here.port()).unwrap(), []);
            let client = TcpStream::connect(here).unwrap();
            let found = connections.of_port(here.port()).unwrap();
            let there = client.local_addr().unwrap();
            assert_eq!(found, [(here.into(), there.into())]);
            let all = connections.all().unwrap();
            assert!(all.contains(&(here.into(), there.into())) && all.contains(&(there.into(), here.into())));
            assert!(connections.has(&(here.into(), there.into()), 1).unwrap());
            assert!(connections.has(&(there.into(), here.into()), 1).unwrap());
            let other = Endpoint::new(there.ip().into(), there.port() ^ 1);
            assert!(!connections.has(&(here.into(), other), 1).unwrap(), "the listener is no connection");
            assert!(!connections.has(&(other, here.into()), 1).unwrap());
        }
    }

    #[test]
    fn broken_answers_are_no_connections() {
        assert_eq!(ends(&[0; 71]), None);
        assert_eq!(ends(&[77; 72]), None, "unknown family");
        assert!(split(&[0; 15]).is_none() && split(&[8, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(split(&[255, 255, 0, 0]).is_none());
    }
}
