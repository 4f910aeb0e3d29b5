//! What differs between operating systems. Each has the same functions and types.
//!
//! | module | purpose |
//! |---|---|
//! | `linux` | Linux |
//! | `windows` | Windows, by calls of Winsock that block, calls that do not, and `WSAPoll` |
//!
//! | in each | purpose |
//! |---|---|
//! | `readiness` | which sockets have something to receive |
//! | `receiving` | one receive call, and for how long the packet had waited |
//! | `sending` | connections, and calls that end after some time |
//! | `groups` | interfaces by which groups are joined and sent to |
//! | `process` | the host's name, limits, processor time |

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
#[expect(unsafe_code, reason = "calls of Windows")]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(windows)]
pub(crate) use windows::*;

use std::time::Duration;

/// The data of one receive call.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    /// How many bytes.
    pub length: usize,
    /// The clock, read right after the call.
    pub now: T,
    /// How long its last packet had waited in this host, if it had a timestamp.
    pub waited_ns: Option<u64>,
}

/// Processor time since a process began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorTime {
    /// User time.
    pub user: Duration,
    /// System time.
    pub system: Duration,
    /// How long the calling thread was runnable without a processor, if the system says so.
    pub ready: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn sockets_are_ready_while_there_is_something_to_receive() {
        let mut readiness = Readiness::new().unwrap();
        let mut ready = vec![77];
        readiness.wait(Duration::from_millis(1), &mut ready).unwrap();
        assert!(ready.is_empty(), "there is no socket");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        readiness.add(&listener, 5).unwrap();
        readiness.add(&datagrams, 6).unwrap();
        readiness.wait(Duration::ZERO, &mut ready).unwrap();
        assert!(ready.is_empty());

        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[1, 2, 3], datagrams.local_addr().unwrap()).unwrap();
        for _ in 0..2 {
            readiness.wait(LONG, &mut ready).unwrap();
            assert_eq!(ready, [6], "as long as nothing is received");
        }
        let mut buffer = [0; 10];
        let taken = receive(&datagrams, &mut buffer, || "then").unwrap();
        assert_eq!((taken.length, taken.now, &buffer[..3]), (3, "then", &[1, 2, 3][..]));
        assert_eq!(receive(&datagrams, &mut buffer, || ()).unwrap_err().kind(), ErrorKind::WouldBlock);

        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        readiness.wait(LONG, &mut ready).unwrap();
        assert_eq!(ready, [5]);
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        readiness.remove(&listener).unwrap();
        readiness.add(&stream, 7).unwrap();
        client.write_all(&[9]).unwrap();
        readiness.wait(LONG, &mut ready).unwrap();
        assert_eq!(ready, [7]);
        assert_eq!(receive(&stream, &mut buffer, || ()).unwrap().length, 1);
        drop(client);
        readiness.wait(LONG, &mut ready).unwrap();
        assert_eq!(ready, [7], "the end of a stream is something to receive");
        assert_eq!(receive(&stream, &mut buffer, || ()).unwrap().length, 0);
    }

    #[test]
    fn a_send_that_finds_no_room_ends_after_some_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut stream = connected(address, address.ip(), Instant::now() + LONG).unwrap();
        let _deaf = listener.accept().unwrap();
        let nap = Duration::from_millis(10);
        limit_stream(&stream, nap).unwrap();
        let data = vec![0; 1 << 20];
        let error = std::iter::repeat_with(|| stream.write(&data)).find_map(Result::err).unwrap();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        wait_for_room(&stream, nap).unwrap();
    }

    #[test]
    fn a_connection_that_is_refused_is_an_error() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = connected(address, address.ip(), Instant::now() + LONG).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn an_address_of_this_host_has_an_interface_and_others_have_none() {
        assert!(interface_index("127.0.0.1".parse().unwrap()).unwrap() > 0);
        assert!(interface_index("2001:db8::1".parse().unwrap()).is_err());
    }

    #[test]
    fn the_host_has_a_name() {
        assert_ne!(host_name(), "");
    }
}
