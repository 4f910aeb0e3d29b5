//! A server's socket: many messages with each system call, with the kernel's stamps, and answers
//! from the address that was asked.

use crate::packet::HEADER;
use crate::socket::address;
use crate::stamping::{self, Departure};
use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockFlag, SockType,
    SockaddrStorage, TimestampingFlag, Timestamps, bind, getsockname, recvmmsg, sendmmsg, setsockopt, socket, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How many messages one system call takes.
pub const BATCH: usize = 64;
/// Room for what comes while answers are made, in bytes of the kernel's reckoning: a thousand
/// messages.
const ROOM: usize = 1 << 20;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Arrival {
    bytes: [u8; HEADER],
    length: usize,
    from: SockaddrStorage,
    local: Local,
    /// The kernel's stamp, in ns of CLOCK_REALTIME.
    pub stamp: Option<i64>,
}

/// The address of this host that a request was sent to, and by which interface it came if that
/// matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Local {
    /// An address of IPv4.
    V4(Ipv4Addr),
    /// An address of IPv6, and its interface's index; 0: any.
    V6(Ipv6Addr, u32),
}

impl Arrival {
    /// Its header; what follows it is not looked at.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Who sent it.
    #[must_use]
    pub fn from(&self) -> Option<SocketAddr> {
        address(&self.from)
    }

    /// To which address.
    #[must_use]
    pub const fn local(&self) -> Local {
        self.local
    }
}

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// Whether departures are stamped now.
    stamped: bool,
    /// The number by which the kernel will name the next departure that it stamps.
    next: u32,
}

impl Listener {
    /// Binds a socket. An IPv6 socket hears IPv6 only, so that both can have one port.
    ///
    /// # Errors
    /// What the system says.
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
        // As much as the system allows.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &ROOM);
        let mut listener = Self { socket, stamped: false, next: 0 };
        // A kernel without stamps serves, too, a little less well.
        let _ = listener.renumber();
        bind(listener.socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(listener)
    }

    /// Where it is bound.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        getsockname::<SockaddrStorage>(self.socket.as_raw_fd()).ok().and_then(|name| address(&name))
    }

    /// Takes in what has come, at most a [`BATCH`]; `true`: there may be more. What was sent to
    /// many (broadcast, multicast) is dropped: all of them would answer.
    pub fn receive(&self, arrivals: &mut Vec<Arrival>) -> bool {
        arrivals.clear();
        let mut bytes = [[0; HEADER]; BATCH];
        let mut slices: Vec<_> = bytes.iter_mut().map(|bytes| [IoSliceMut::new(bytes)]).collect();
        // Made anew each time: the kernel writes into the headers how much of them it has used.
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
            let mut arrival =
                Arrival { bytes: [0; HEADER], length: 0, from, local, stamp: stamping::arrival(&message).stamp };
            for part in message.iovs() {
                arrival.length = part.len().min(HEADER);
                arrival.bytes[..arrival.length].copy_from_slice(&part[..arrival.length]);
            }
            arrivals.push(arrival);
        }
        all == BATCH
    }

    /// Sends answers to those arrivals, which came to one address; `stamped`: the kernel is to say
    /// when each leaves. Returns how many were sent, and the number by which [`Self::departures`]
    /// names the first of them.
    ///
    /// # Errors
    /// Why the first was not sent.
    pub fn send(&mut self, answers: &[(&Arrival, [u8; HEADER])], stamped: bool) -> nix::Result<(usize, u32)> {
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

    /// Takes from the error queue what has left: number, and ns of CLOCK_REALTIME. At most a
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
            if let Departure { number: Some(number), stamp: Some(stamp), .. } = stamping::departed(&message) {
                left(number, stamp);
            }
        }
        all == BATCH
    }

    /// Begins to number departures anew: after an error nobody knows whether the kernel has counted
    /// the message.
    ///
    /// # Errors
    /// This kernel has no stamps.
    pub fn renumber(&mut self) -> nix::Result<()> {
        while self.departures(|_, _| ()) {}
        // The kernel begins at 0 when numbers are asked for that were not before.
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

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn arrivals_only() -> TimestampingFlag {
    TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
}

/// The address that a message was sent to, if it is one host's.
fn local(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<Local> {
    message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            // The address to answer from; another one than that in the header, if this is no
            // host's.
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
