//! A server's socket: many messages per system call, with the kernel's timestamps, and replies from
//! the address that received the request.

use crate::packet::HEADER;
use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockFlag, SockType,
    SockaddrStorage, TimestampingFlag, Timestamps, bind, getsockname, recvmmsg, sendmmsg, setsockopt, socket, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tickwire_stamping::socket_stamps::{self, TxTimestamps};

/// Messages per system call.
pub const BATCH: usize = 64;
/// Receive buffer for requests that arrive while replies are made, in bytes as the kernel accounts
/// them: a thousand messages.
const ROOM: usize = 1 << 20;

/// A received request.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    bytes: [u8; HEADER],
    length: usize,
    from: SockaddrStorage,
    local: Local,
    /// The kernel's receive timestamp, in ns of CLOCK_REALTIME.
    pub stamp: Option<i64>,
}

/// The local address that received a request, and the interface if it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Local {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address, and its interface's index; 0: any.
    V6(Ipv6Addr, u32),
}

impl ReceivedRequest {
    /// Its header; bytes beyond it are ignored.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The sender's address and port.
    #[must_use]
    pub fn from(&self) -> Option<SocketAddr> {
        address(&self.from)
    }

    /// The local address that received it.
    #[must_use]
    pub const fn local(&self) -> Local {
        self.local
    }
}

/// A bound socket.
#[derive(Debug)]
pub struct NtpListener {
    socket: OwnedFd,
    /// Whether the kernel timestamps departures now.
    stamped: bool,
    /// The number that the kernel gives the next timestamped departure.
    next: u32,
}

impl NtpListener {
    /// Binds a socket. An IPv6 socket receives IPv6 only, so that both families can share one port.
    ///
    /// # Errors
    /// The system's error.
    pub fn bind(to: SocketAddr) -> nix::Result<Self> {
        let v4 = to.is_ipv4();
        let family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
        if v4 {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        // Capped by the system's limit (rmem_max).
        let _ = setsockopt(&socket, sockopt::RcvBuf, &ROOM);
        let mut listener = Self { socket, stamped: false, next: 0 };
        // A kernel without timestamps still serves, with less accuracy.
        let _ = listener.renumber();
        bind(listener.socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(listener)
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        getsockname::<SockaddrStorage>(self.socket.as_raw_fd()).ok().and_then(|name| address(&name))
    }

    /// Receives at most a [`BATCH`] of requests; `true`: there may be more. Broadcast and multicast
    /// requests are dropped: all their receivers would reply.
    pub fn receive(&self, arrivals: &mut Vec<ReceivedRequest>) -> bool {
        arrivals.clear();
        let mut bytes = [[0; HEADER]; BATCH];
        let mut slices: Vec<_> = bytes.iter_mut().map(|bytes| [IoSliceMut::new(bytes)]).collect();
        // Allocated for each call: the kernel overwrites the headers' lengths.
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(
            BATCH,
            Some(cmsg_space!(Timestamps, libc::in6_pktinfo, libc::in_pktinfo)),
        );
        let fd = self.socket.as_raw_fd();
        let Ok(messages) = recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) else {
            return false;
        };
        let mut all = 0;
        for message in messages {
            all += 1;
            let Some(from) = message.address else { continue };
            let Some(local) = local(&message) else { continue };
            let mut arrival = ReceivedRequest {
                bytes: [0; HEADER],
                length: 0,
                from,
                local,
                stamp: socket_stamps::arrival(&message).stamp,
            };
            for part in message.iovs() {
                arrival.length = part.len().min(HEADER);
                arrival.bytes[..arrival.length].copy_from_slice(&part[..arrival.length]);
            }
            arrivals.push(arrival);
        }
        all == BATCH
    }

    /// Sends replies to requests that arrived at one local address; `stamped`: the kernel
    /// timestamps each departure. Returns how many were sent, and the number that
    /// [`Self::departures`] gives the first of them.
    ///
    /// # Errors
    /// Why the first was not sent.
    pub fn send(&mut self, answers: &[(&ReceivedRequest, [u8; HEADER])], stamped: bool) -> nix::Result<(usize, u32)> {
        let Some(((first, _), _)) = answers.split_first() else { return Ok((0, self.next)) };
        if stamped != self.stamped {
            self.stamp(stamped)?;
        }
        let slices: Vec<_> = answers.iter().map(|(_, bytes)| [IoSlice::new(bytes)]).collect();
        let addresses: Vec<_> = answers.iter().map(|(arrival, _)| Some(arrival.from)).collect();
        let fd = self.socket.as_raw_fd();
        let sent = match first.local {
            Local::V4(address) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let mut headers = MultiHeaders::preallocate(answers.len(), Some(cmsg_space!(libc::in_pktinfo)));
                let control = [ControlMessage::Ipv4PacketInfo(&info)];
                sendmmsg(fd, &mut headers, &slices, &addresses, control, MsgFlags::MSG_DONTWAIT).map(Iterator::count)
            }
            Local::V6(address, interface) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: address.octets() },
                    ipi6_ifindex: interface,
                };
                let mut headers = MultiHeaders::preallocate(answers.len(), Some(cmsg_space!(libc::in6_pktinfo)));
                let control = [ControlMessage::Ipv6PacketInfo(&info)];
                sendmmsg(fd, &mut headers, &slices, &addresses, control, MsgFlags::MSG_DONTWAIT).map(Iterator::count)
            }
        }?;
        let number = self.next;
        if stamped {
            self.next = self.next.wrapping_add(sent as u32);
        }
        Ok((sent, number))
    }

    /// Takes transmit timestamps from the error queue: number, and ns of CLOCK_REALTIME. At most a
    /// [`BATCH`]; `true`: there may be more.
    pub fn departures(&self, mut left: impl FnMut(u32, i64)) -> bool {
        let mut none = [[0; 4]; BATCH];
        let mut slices: Vec<_> = none.iter_mut().map(|none| [IoSliceMut::new(none)]).collect();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(cmsg_space!(Timestamps, [u8; 128])));
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let Ok(messages) = recvmmsg(self.socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None) else {
            return false;
        };
        let mut all = 0;
        for message in messages {
            all += 1;
            if let TxTimestamps { number: Some(number), stamp: Some(stamp), .. } = socket_stamps::departed(&message) {
                left(number, stamp);
            }
        }
        all == BATCH
    }

    /// Restarts the numbering of departures: after an error it is unknown whether the kernel has
    /// counted the message.
    ///
    /// # Errors
    /// This kernel has no timestamps.
    pub fn renumber(&mut self) -> nix::Result<()> {
        while self.departures(|_, _| ()) {}
        // The kernel starts at 0 when OPT_ID changes from off to on.
        setsockopt(&self.socket, sockopt::Timestamping, &arrivals_only())?;
        self.next = 0;
        self.stamp(false)
    }

    fn stamp(&mut self, departures: bool) -> nix::Result<()> {
        let mut flags =
            arrivals_only() | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
        flags.set(TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE, departures);
        setsockopt(&self.socket, sockopt::Timestamping, &flags)?;
        self.stamped = departures;
        Ok(())
    }
}

impl AsFd for NtpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket's name as IP address and port.
fn address(name: &SockaddrStorage) -> Option<SocketAddr> {
    match (name.as_sockaddr_in(), name.as_sockaddr_in6()) {
        (Some(v4), _) => Some((*v4).into()),
        (None, Some(v6)) => Some((*v6).into()),
        (None, None) => None,
    }
}

fn arrivals_only() -> TimestampingFlag {
    TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
}

/// The address that a message was sent to, if it is a unicast address.
fn local(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<Local> {
    message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            // `ipi_spec_dst` is the address to reply from; it differs from the header's destination
            // if that is not unicast.
            let [ours, meant] = [info.ipi_spec_dst, info.ipi_addr].map(|address| address.s_addr);
            (ours == meant).then(|| Local::V4(Ipv4Addr::from(ours.to_ne_bytes())))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
            let interface = if address.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
            (!address.is_multicast()).then_some(Local::V6(address, interface))
        }
        _ => None,
    })
}
