//! The sockets of streams: plain ones, as a program without knowledge of the underlying stack opens
//! them.

use crate::error::NodeError;
use crate::protocol::StreamDestination;
use crate::stream::Transport;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::sockopt::{BindToDevice, ReceiveTimestampns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Timeout of all connections of a producer together.
pub(crate) const CONNECTING: Duration = Duration::from_secs(10);

/// One end of a stream.
#[derive(Debug)]
pub(crate) enum Socket {
    /// A consumer's: it waits for one connection.
    Listener(TcpListener),
    /// A producer's.
    Stream(TcpStream),
    /// A producer's or the consumer's.
    Datagrams(UdpSocket),
}

/// The consumer's end, non-blocking. `address` is the consumer's, and selects the interface that
/// joins groups.
pub(crate) fn receiving(channel: &StreamDestination, address: IpAddr) -> Result<Socket, NodeError> {
    let open = || match channel.stream.transport {
        Transport::Tcp | Transport::LowLatencyTcp => {
            let listener = TcpListener::bind(channel.to)?;
            listener.set_nonblocking(true)?;
            Ok(Socket::Listener(listener))
        }
        Transport::Udp => datagrams(channel.to),
        Transport::UdpMulticast => join(channel.to, address),
    };
    let socket = open().map_err(|source| failed(channel, "receive at", source))?;
    // Accepted connections inherit it. Without timestamps, messages are still received.
    let _ = match &socket {
        Socket::Listener(listener) => setsockopt(listener, ReceiveTimestampns, &true),
        Socket::Stream(stream) => setsockopt(stream, ReceiveTimestampns, &true),
        Socket::Datagrams(socket) => setsockopt(socket, ReceiveTimestampns, &true),
    };
    Ok(socket)
}

fn datagrams(at: SocketAddr) -> io::Result<Socket> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    Ok(Socket::Datagrams(socket))
}

fn join(group: SocketAddr, address: IpAddr) -> io::Result<Socket> {
    let socket = match (group.ip(), address) {
        (IpAddr::V4(group_address), IpAddr::V4(address)) => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, group.port()))?;
            socket.join_multicast_v4(&group_address, &address)?;
            socket
        }
        (IpAddr::V6(group_address), IpAddr::V6(_)) => {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, group.port()))?;
            let index = if_nametoindex(interface(address)?.as_os_str())?;
            socket.join_multicast_v6(&group_address, index)?;
            socket
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    socket.set_nonblocking(true)?;
    Ok(Socket::Datagrams(socket))
}

/// A producer's end, blocking, bound to its own address. Connections must be established before
/// `until`.
pub(crate) fn sending(channel: &StreamDestination, address: IpAddr, until: Instant) -> Result<Socket, NodeError> {
    let transport = channel.stream.transport;
    if transport.is_tcp() {
        let stream = connected(channel.to, address, until).map_err(|source| failed(channel, "connect to", source))?;
        stream
            .set_nodelay(transport == Transport::LowLatencyTcp)
            .map_err(|source| failed(channel, "set TCP_NODELAY for", source))?;
        return Ok(Socket::Stream(stream));
    }
    let open = || {
        let socket = UdpSocket::bind((address, 0))?;
        if transport == Transport::UdpMulticast {
            to_group(&socket, address)?;
        }
        Ok(Socket::Datagrams(socket))
    };
    open().map_err(|source| failed(channel, "send to", source))
}

/// Sends through the interface with this address, and no farther than its network.
fn to_group(socket: &UdpSocket, address: IpAddr) -> io::Result<()> {
    if address.is_ipv4() {
        // Linux sends to groups through the interface with the socket's bound address, as with
        // IP_MULTICAST_IF (ip_route_output_key).
        socket.set_multicast_ttl_v4(1)?;
        socket.set_multicast_loop_v4(false)
    } else {
        // One hop is IPv6's default (RFC 3493, 5.2).
        socket.set_multicast_loop_v6(false)?;
        Ok(setsockopt(socket, BindToDevice, &interface(address)?)?)
    }
}

/// The name of the interface with an address.
fn interface(address: IpAddr) -> io::Result<OsString> {
    let is_it = |storage: &SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))) == Some(address)
    };
    getifaddrs()?
        .find(|interface| interface.address.as_ref().is_some_and(is_it))
        .map(|interface| interface.interface_name.into())
        .ok_or_else(|| Errno::EADDRNOTAVAIL.into())
}

fn connected(to: SocketAddr, from: IpAddr, until: Instant) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
    let begun = connect(socket.as_raw_fd(), &SockaddrStorage::from(to));
    let stream = TcpStream::from(socket);
    match begun {
        Err(Errno::EINPROGRESS) => writable(&stream, until)?,
        other => other?,
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Waits until a pending connection is established.
fn writable(stream: &TcpStream, until: Instant) -> io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        }
        let mut what = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut what, u16::try_from(left).unwrap_or(u16::MAX)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return stream.take_error()?.map_or(Ok(()), Err),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn failed(channel: &StreamDestination, what: &'static str, source: io::Error) -> NodeError {
    NodeError::Socket { stream: channel.stream.id, what, to: channel.to, source }
}
