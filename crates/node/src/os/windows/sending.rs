//! Connections, and calls that end after some time. These do not block: after a timeout of a
//! blocking call on Windows it is not known how much was sent (`SO_SNDTIMEO`).

use super::{AsSocket, handle, poll};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use windows_sys::Win32::Networking::WinSock::{POLLWRNORM, WSAPOLLFD};

/// A connection from an address of this host, established before `until`.
pub(crate) fn connected(to: SocketAddr, from: IpAddr, until: Instant) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    }
    socket.connect_timeout(&to.into(), left)?;
    Ok(socket.into())
}

/// No send call of a connection blocks.
pub(crate) fn limit_stream(stream: &TcpStream, _: Duration) -> io::Result<()> {
    stream.set_nonblocking(true)
}

/// No send call of a UDP socket blocks.
pub(crate) fn limit_datagrams(socket: &UdpSocket, _: Duration) -> io::Result<()> {
    socket.set_nonblocking(true)
}

/// No receive call of a connection blocks for longer.
pub(crate) fn limit_reads(stream: &TcpStream, time: Duration) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(time))
}

/// After a send call that found no room: waits for some, for so long at most.
pub(crate) fn wait_for_room(socket: &impl AsSocket, time: Duration) -> io::Result<()> {
    poll(&mut [WSAPOLLFD { fd: handle(socket), events: POLLWRNORM, revents: 0 }], time)
}
