//! Connections, and calls that end after some time: blocking ones with a timeout.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// A connection from an address of this host, established before `until`.
pub(crate) fn connected(to: SocketAddr, from: IpAddr, until: Instant) -> io::Result<TcpStream> {
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

/// No send call of a connection blocks for longer.
pub(crate) fn limit_stream(stream: &TcpStream, time: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(time))
}

/// No send call of a UDP socket blocks for longer.
pub(crate) fn limit_datagrams(socket: &UdpSocket, time: Duration) -> io::Result<()> {
    socket.set_write_timeout(Some(time))
}

/// No receive call of a connection blocks for longer.
pub(crate) fn limit_reads(stream: &TcpStream, time: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(time))
}

/// After a send call that found no room: waits for some, for so long at most. The call itself has
/// done so.
#[expect(clippy::unnecessary_wraps, reason = "as on Windows")]
pub(crate) const fn wait_for_room(_: &impl AsFd, _: Duration) -> io::Result<()> {
    Ok(())
}
