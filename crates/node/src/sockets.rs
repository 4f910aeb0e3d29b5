//! The sockets of streams: plain ones, as a program without knowledge of the underlying stack opens
//! them.

use crate::error::NodeError;
use crate::os;
use crate::protocol::StreamDestination;
use crate::stream::Transport;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
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
    match &socket {
        Socket::Listener(listener) => os::stamp_arrivals(listener),
        Socket::Stream(stream) => os::stamp_arrivals(stream),
        Socket::Datagrams(socket) => os::stamp_arrivals(socket),
    }
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
            socket.join_multicast_v6(&group_address, os::interface_index(address)?)?;
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
        let stream =
            os::connected(channel.to, address, until).map_err(|source| failed(channel, "connect to", source))?;
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
        socket.set_multicast_ttl_v4(1)?;
        socket.set_multicast_loop_v4(false)?;
    } else {
        // One hop is IPv6's default (RFC 3493, 5.2).
        socket.set_multicast_loop_v6(false)?;
    }
    os::send_to_groups_by(socket, address)
}

fn failed(channel: &StreamDestination, what: &'static str, source: io::Error) -> NodeError {
    NodeError::Socket { stream: channel.stream.id, what, to: channel.to, source }
}
