//! The receive times of messages: the kernel's timestamps at the peer, made when the driver
//! delivers them. They do not depend on the scheduling of this program.

use crate::sender::{Message, NUMBER};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockaddrStorage, Timestamps, recvmsg, setsockopt, sockopt};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tickwire_stamping::socket_stamps::{self, RxTimestamps};

/// Receive buffer for messages that arrive while this program is not scheduled on a busy machine,
/// in bytes as the kernel counts them: enough for some seconds.
const ROOM: usize = 16 << 20;
/// How often the stop flag is checked.
const LOOK: Duration = Duration::from_millis(50);
/// The longest message.
const LONGEST: usize = 2048;

/// A socket that receives the messages of one run.
#[derive(Debug)]
pub(crate) struct Receiver {
    socket: UdpSocket,
}

impl Receiver {
    /// Binds to this address, in the network namespace of the calling thread, and to a port that
    /// the kernel chooses.
    ///
    /// # Errors
    /// The system refuses the socket, or the kernel does not support timestamps.
    pub(crate) fn open(address: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_read_timeout(Some(LOOK))?;
        socket_stamps::ask(&socket)?;
        // Exceeds the system's limit (rmem_max) if that is permitted.
        let _ =
            setsockopt(&socket, sockopt::RcvBufForce, &ROOM).or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &ROOM));
        Ok(Self { socket })
    }

    /// The local address.
    ///
    /// # Errors
    /// The system does not report it.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives messages of this length until `stop` is set. Returns their numbers and timestamps
    /// in the order of arrival.
    pub(crate) fn collect(&self, payload: usize, stop: &AtomicBool) -> Vec<(u64, i64)> {
        let mut arrivals = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            arrivals.extend(self.message(payload));
        }
        arrivals
    }

    /// The next message; `None` if none arrived in time, or another datagram did.
    fn message(&self, payload: usize) -> Option<(u64, i64)> {
        let mut bytes = [0; LONGEST];
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let mut control = nix::cmsg_space!(Timestamps);
        let received =
            recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut iov, Some(&mut control), MsgFlags::empty());
        let length = match received {
            Ok(message) => message.bytes,
            Err(Errno::EAGAIN | Errno::EINTR) => return None,
            Err(_) => {
                std::thread::sleep(LOOK);
                return None;
            }
        };
        let stamp = RxTimestamps::read(&control).stamp?;
        let number = bytes[..length].first_chunk::<NUMBER>().filter(|_| length == payload)?;
        Some((u64::from_le_bytes(*number), stamp))
    }
}

/// Enters the receive times into the messages. The first one counts for a duplicate. Numbers that
/// were not sent are ignored.
pub(crate) fn enter(messages: &mut [Message], arrivals: &[(u64, i64)]) {
    for &(number, stamp) in arrivals {
        if let Some(message) = usize::try_from(number).ok().and_then(|number| messages.get_mut(number)) {
            message.peer = message.peer.or(Some(stamp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Wait;
    use crate::sender::{Sender, payload};
    use std::net::Ipv4Addr;

    #[test]
    fn arrivals_are_entered_by_their_numbers() {
        let message = |due| Message { due, call: due, driver: None, wire: None, peer: None };
        let mut messages = vec![message(0), message(1), message(2)];
        enter(&mut messages, &[(2, 22), (0, 10), (2, 99), (3, 5), (u64::MAX, 5)]);
        assert_eq!(messages.iter().map(|one| one.peer).collect::<Vec<_>>(), [Some(10), None, Some(22)]);
    }

    #[test]
    fn what_is_sent_is_stamped_where_it_comes() {
        let receiver = Receiver::open(Ipv4Addr::LOCALHOST.into()).unwrap();
        let to = receiver.address().unwrap();
        let stop = AtomicBool::new(false);
        let (mut messages, arrivals) = std::thread::scope(|scope| {
            let collecting = scope.spawn(|| receiver.collect(payload(166, to.ip()).unwrap(), &stop));
            // Another datagram to the port is not a message.
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().send_to(&[0; 9], to).unwrap();
            let (messages, _socket) = Sender::open(to, 166).unwrap().transmit(Wait::Sleep, 20).unwrap();
            std::thread::sleep(LOOK);
            stop.store(true, Ordering::Relaxed);
            (messages, collecting.join().unwrap())
        });
        assert_eq!(arrivals.len(), messages.len());
        enter(&mut messages, &arrivals);
        for (number, message) in messages.iter().enumerate() {
            let took = message.peer.unwrap_or_else(|| panic!("{number} did not come")) - message.call;
            assert!((-1_000..1_000_000_000).contains(&took), "{number}: {message:?}");
        }
    }
}
