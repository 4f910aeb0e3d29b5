//! A TCP connection that another stack has had, as a socket of the kernel's (`TCP_REPAIR`).
//!
//! In repair mode a socket is put into the state of a connection without a packet, and closing it
//! tells the peer nothing. So until [`Repair::finish`] nothing has happened, whatever fails.

use crate::sys::answer;
use crate::sys_socket::{option_of, set_option as set, tcp_state};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use tickwire_linux_abi::option::{SO_BINDTOIFINDEX, SO_BUF_LOCK};
use tickwire_linux_abi::sockaddr;
use tickwire_linux_abi::tcp_info;
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::tcp::{Leaving, TcpState};

/// Values of `TCP_REPAIR`.
const REPAIR_ON: libc::c_int = 1;
const REPAIR_OFF: libc::c_int = 0;

/// Queues, as `TCP_REPAIR_QUEUE` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
enum Queue {
    Receive = 1,
    Send = 2,
}

/// Options, as `TCP_REPAIR_OPTIONS` numbers them: the kinds of RFC 9293 §3.2 and RFC 7323.
#[repr(C)]
struct RepairOption {
    kind: u32,
    value: u32,
}

const MSS: u32 = 2;
const WINDOW_SCALE: u32 = 3;
const SACK_PERMITTED: u32 = 4;
const TIMESTAMPS: u32 = 8;

/// `struct tcp_repair_window`.
#[repr(C)]
struct RepairWindow {
    send_seq: u32,
    send: u32,
    largest: u32,
    receive: u32,
    receive_from: u32,
}

/// The values that `TCP_MAXSEG` accepts.
const LEAST_MSS: u16 = 88;
const MOST_MSS: u16 = 32_767;

/// So much of a queue is written at a time: each write is one buffer of the kernel's.
const CHUNK: usize = 32 << 10;

/// The kernel charges a buffer with the memory that it takes, a multiple of the data that it holds.
const OVERHEAD: u64 = 4;
const LEAST_BUFFER: u64 = 256 << 10;

/// A connection in repair mode.
#[derive(Debug)]
pub struct Repair {
    socket: OwnedFd,
    /// The default size of its send buffer.
    send_buffer: libc::c_int,
}

impl Repair {
    /// Makes a connection from the state that another stack reports: its numbers, the bytes that
    /// the program has not read, and those that were sent and are not acknowledged. `v6`: the
    /// socket is one of IPv6, also if the connection is of IPv4.
    ///
    /// # Errors
    /// If this process lacks the right (`CAP_NET_ADMIN`), there is such a connection, or the kernel
    /// refuses a number.
    pub fn new(state: &Leaving, v6: bool, unread: &[u8], in_flight: &[u8]) -> io::Result<Self> {
        let domain = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the call takes numbers only.
        let fd = answer(unsafe { libc::socket(domain, kind, 0) }.into())?;
        // SAFETY: the descriptor was just made and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let fd = socket.as_fd();
        set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, &REPAIR_ON)?;
        let send_buffer = option_of(fd, libc::SOL_SOCKET, libc::SO_SNDBUF)?;
        let queued = u64::from(state.in_flight) + u64::from(state.unsent);
        let promised = u64::from(state.unread) + u64::from(state.receive_window);
        set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room(queued))?;
        set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room(promised))?;
        if state.interface != 0 {
            set(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX, &state.interface)?;
        }
        if state.tos != 0 {
            // The route that the kernel takes when it connects may depend on it.
            let (level, option) = match state.remote.address.to_v4() {
                Some(_) => (libc::IPPROTO_IP, libc::IP_TOS),
                None => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            set(fd, level, option, &libc::c_int::from(state.tos))?;
        }
        for (queue, first) in
            [(Queue::Send, state.send_una), (Queue::Receive, state.receive_next.wrapping_sub(state.unread))]
        {
            set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &(queue as i32))?;
            set(fd, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, &first)?;
        }
        if v6 {
            // Whatever the default of new sockets is (`net.ipv6.bindv6only`).
            let only = i32::from(state.local.address.to_v4().is_none());
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &only)?;
        }
        // The length that the peer accepts: the kernel computes the length of its segments when it
        // connects, and without this takes the minimum for all hosts.
        set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &libc::c_int::from(state.peer_mss.clamp(LEAST_MSS, MOST_MSS)))?;
        let (local, len) = name(state.local, v6, state.interface);
        // SAFETY: `local` is alive and has `len` bytes.
        answer(unsafe { libc::bind(fd.as_raw_fd(), (&raw const local).cast(), len) }.into())?;
        let (remote, len) = name(state.remote, v6, state.interface);
        // SAFETY: `remote` is alive and has `len` bytes.
        answer(unsafe { libc::connect(fd.as_raw_fd(), (&raw const remote).cast(), len) }.into())?;
        set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &0_i32)?;
        options(fd, state)?;
        put(fd, Queue::Receive, unread)?;
        put(fd, Queue::Send, in_flight)?;
        let window = RepairWindow {
            send_seq: earlier(state.window_seq, state.receive_next),
            send: state.send_window,
            largest: state.largest_window.max(state.send_window),
            receive: state.receive_window,
            receive_from: state.receive_next,
        };
        set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR_WINDOW, &window)?;
        Ok(Self { socket, send_buffer })
    }

    /// Continues the connection. The peer is asked to acknowledge what it has, unless it has shut
    /// its side. Then the data that was never sent is written. If there is no room for all of it,
    /// the connection is reset, because a stream with a hole must not end like a whole one, and the
    /// inner error says why.
    ///
    /// If no process takes the socket over, closing it resets the connection, too (`SO_LINGER`):
    /// the process that does sets that option as it should be.
    ///
    /// # Errors
    /// If repair mode does not end. Then there is no connection any more, and the peer is not
    /// notified.
    pub fn finish(self, unsent: &[u8]) -> io::Result<(OwnedFd, io::Result<()>)> {
        let fd = self.socket.as_fd();
        set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, &REPAIR_OFF)?;
        let written = write(fd, unsent);
        if written.is_err() {
            disconnect(fd);
        }
        // The forced sizes were for the queues; from here on the kernel chooses. The receive buffer
        // has to hold what was promised.
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &(self.send_buffer / 2));
        let _ = set(fd, libc::SOL_SOCKET, SO_BUF_LOCK, &0_i32);
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 1, l_linger: 0 });
        Ok((self.socket, written))
    }
}

/// Ends a connection with a RST.
fn disconnect(fd: BorrowedFd<'_>) {
    // SAFETY: all-zero is a valid `sockaddr`, whose family is `AF_UNSPEC`.
    let nowhere: libc::sockaddr = unsafe { zeroed() };
    let length = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: `nowhere` is alive and as long as said.
    let _ = unsafe { libc::connect(fd.as_raw_fd(), &raw const nowhere, length) };
}

impl AsFd for Repair {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The size to set for a buffer that holds so much; the kernel doubles it.
fn room(bytes: u64) -> libc::c_int {
    libc::c_int::try_from((bytes * OVERHEAD / 2).max(LEAST_BUFFER)).unwrap_or(libc::c_int::MAX / 2)
}

/// The earlier of two sequence numbers.
fn earlier(a: u32, b: u32) -> u32 {
    if (a.wrapping_sub(b) as i32) < 0 { a } else { b }
}

/// The options that both sides negotiated when the connection was opened, and the clock of its
/// timestamps.
fn options(fd: BorrowedFd<'_>, state: &Leaving) -> io::Result<()> {
    // Also if windows are not scaled: the kernel chose a scale for its own when it connected.
    let (send, receive) = state.shifts.unwrap_or((0, 0));
    let all = [
        Some((MSS, state.peer_mss.into())),
        Some((WINDOW_SCALE, u32::from(send) | u32::from(receive) << 16)),
        state.sack.then_some((SACK_PERMITTED, 0)),
        state.timestamp.map(|_| (TIMESTAMPS, 0)),
    ];
    for (kind, value) in all.into_iter().flatten() {
        set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR_OPTIONS, &RepairOption { kind, value })?;
    }
    if let Some(now) = state.timestamp {
        // The lowest bit says since Linux 6.7 whether the clock ticks in microseconds. It must not
        // go back.
        let next = now.wrapping_add(2) & !1;
        set(fd, libc::IPPROTO_TCP, libc::TCP_TIMESTAMP, &next)?;
    }
    Ok(())
}

/// Puts bytes into a queue as if they had been received, or sent.
fn put(fd: BorrowedFd<'_>, queue: Queue, bytes: &[u8]) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &(queue as i32))?;
    bytes.chunks(CHUNK).try_for_each(|chunk| write(fd, chunk))
}

/// Writes all bytes, without blocking.
fn write(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: `bytes` is alive and as long as said.
        let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        match answer(sent as libc::c_long) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = bytes.get(sent as usize..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A socket address of a socket's family; the kernel refuses an IPv6 address for an IPv4 socket.
fn name(end: Endpoint, v6: bool, interface: u32) -> ([u8; sockaddr::MAX_NAME], libc::socklen_t) {
    let (bytes, len) = sockaddr::emit(end, v6 || end.address.family() == Family::V6, interface);
    (bytes, len as libc::socklen_t)
}

/// As Linux numbers the states of TCP.
const FIN_WAIT2: u8 = tcp_info::state(TcpState::FinWait2);
const CLOSED: u8 = tcp_info::state(TcpState::Closed);
const CLOSE_WAIT: u8 = tcp_info::state(TcpState::CloseWait);

const FIN_ACK: u8 = 0x11;
const ACK: u8 = 0x10;

/// The longest that a packet may take by the loopback interface.
const LOOPBACK: Duration = Duration::from_millis(50);

impl Repair {
    /// Shuts the sides that are shut: repair mode knows no half-closed connection. So the peer's
    /// FIN is injected once more, and so is its acknowledgement of the FIN of this side, which
    /// repair mode does not send. They are sent by the loopback interface, where the kernel does
    /// not check a packet's source.
    ///
    /// # Errors
    /// If this process may not send packets that it has made itself (`CAP_NET_RAW`), or they do not
    /// arrive.
    pub fn shut(&self, state: &Leaving) -> io::Result<()> {
        if state.fin_received {
            from_peer(state, FIN_ACK, state.receive_next, state.send_una)?;
            self.comes_to(CLOSE_WAIT)?;
        }
        if state.fin_acknowledged {
            // SAFETY: plain numbers.
            answer(unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_WR) }.into())?;
            let next = state.receive_next.wrapping_add(state.fin_received.into());
            from_peer(state, ACK, next, state.send_una.wrapping_add(1))?;
            self.comes_to(if state.fin_received { CLOSED } else { FIN_WAIT2 })?;
        }
        Ok(())
    }

    /// Waits until the connection is in this state.
    fn comes_to(&self, state: u8) -> io::Result<()> {
        let until = Instant::now() + LOOPBACK;
        while tcp_state(self.as_fd())? != state {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing comes by the loopback interface"));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

/// Injects a segment as if it came from the peer.
fn from_peer(state: &Leaving, bits: u8, seq: u32, ack: u32) -> io::Result<()> {
    let (local, remote) = (state.local, state.remote);
    let segment = segment(state, bits, seq, ack);
    let (domain, packet) = match (local.address.to_v4(), remote.address.to_v4()) {
        (Some(to), Some(from)) => (libc::AF_INET, ipv4(from, to, &segment)),
        _ => (libc::AF_INET6, ipv6(remote.address, local.address, &segment)),
    };
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let fd = answer(unsafe { libc::socket(domain, kind, libc::IPPROTO_RAW) }.into())?;
    // SAFETY: the descriptor was just made and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    if domain == libc::AF_INET6 {
        set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_HDRINCL, &1_i32)?;
    }
    // A raw socket has no port.
    let (to, len) = name(Endpoint::new(local.address, 0), domain == libc::AF_INET6, state.interface);
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `packet` and `to` are alive and as long as said.
    let sent = unsafe {
        libc::sendto(socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), flags, (&raw const to).cast(), len)
    };
    answer(sent as libc::c_long).map(drop)
}

fn segment(state: &Leaving, bits: u8, seq: u32, ack: u32) -> Vec<u8> {
    let shift = state.shifts.map_or(0, |(send, _)| send.min(14));
    let window = (state.send_window >> shift).min(0xffff) as u16;
    let mut out = Vec::with_capacity(32);
    out.extend(state.remote.port.to_be_bytes());
    out.extend(state.local.port.to_be_bytes());
    out.extend(seq.to_be_bytes());
    out.extend(ack.to_be_bytes());
    out.extend([if state.timestamp.is_some() { 0x80 } else { 0x50 }, bits]);
    out.extend(window.to_be_bytes());
    out.extend([0; 4]); // checksum, urgent pointer
    if let Some(ours) = state.timestamp {
        out.extend([1, 1, 8, 10]);
        out.extend(state.echo.to_be_bytes());
        out.extend(ours.to_be_bytes());
    }
    let sum = tickwire_stack::checksum::transport(state.remote.address, state.local.address, TCP, &out);
    out[16..18].copy_from_slice(&sum.to_be_bytes());
    out
}

const TCP: u8 = 6;

/// An IPv4 packet; the kernel fills in the checksum.
fn ipv4(from: [u8; 4], to: [u8; 4], segment: &[u8]) -> Vec<u8> {
    let total = 20 + segment.len() as u16;
    let mut out = vec![0x45, 0];
    out.extend(total.to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
    out.extend(from);
    out.extend(to);
    out.extend(segment);
    out
}

fn ipv6(from: Address, to: Address, segment: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((segment.len() as u16).to_be_bytes());
    out.extend([TCP, 64]);
    out.extend(from.0);
    out.extend(to.0);
    out.extend(segment);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};

    const ESTABLISHED: u8 = 1;

    /// The state of a connection of the kernel's as another stack would report it; the kernel
    /// forgets the connection. All that was sent has been acknowledged.
    fn left_by_kernel(stream: TcpStream, unread: u32) -> Leaving {
        let fd = stream.as_fd();
        let number = |option| option_of::<u32>(fd, libc::IPPROTO_TCP, option).unwrap();
        set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, &REPAIR_ON).unwrap();
        let [send, receive] = [Queue::Send, Queue::Receive].map(|queue| {
            set(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &(queue as i32)).unwrap();
            number(libc::TCP_QUEUE_SEQ)
        });
        Leaving {
            local: stream.local_addr().unwrap().into(),
            remote: stream.peer_addr().unwrap().into(),
            interface: 0,
            tos: 0,
            send_una: send,
            in_flight: 0,
            unsent: 0,
            receive_next: receive,
            unread,
            send_window: 60_000,
            largest_window: 60_000,
            window_seq: receive,
            receive_window: 60_000,
            peer_mss: 1460,
            shifts: Some((7, 7)),
            sack: true,
            timestamp: Some(number(libc::TCP_TIMESTAMP)),
            echo: 0,
            fin_received: false,
            fin_acknowledged: false,
        }
    }

    fn pair(address: IpAddr) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (client, server)
    }

    fn is_root() -> bool {
        // SAFETY: it takes nothing and only answers.
        let root = unsafe { libc::geteuid() } == 0;
        if !root {
            eprintln!("skipped: repair mode needs root");
        }
        root
    }

    fn finished(repair: Repair, unsent: &[u8]) -> OwnedFd {
        let (socket, done) = repair.finish(unsent).unwrap();
        done.unwrap();
        socket
    }

    /// Reads to the end.
    fn rest(mut stream: impl Read) -> Vec<u8> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn a_connection_goes_on_with_its_bytes_in_both_families() {
        for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            if !is_root() {
                return;
            }
            let (client, mut server) = pair(address);
            server.write_all(b"to be dropped").unwrap();
            let mut came = [0; 13];
            client.peek(&mut came).unwrap();
            let state = left_by_kernel(client, 13);
            // As if these had been sent before.
            let state = Leaving { in_flight: 100_000, unsent: 300_000, ..state };
            let sent: Vec<u8> = (0..400_000u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
            let unread = b"to be dropped";
            let repair = Repair::new(&state, address.is_ipv6(), unread, &sent[..100_000]).unwrap();
            let mut stream = TcpStream::from(finished(repair, &sent[100_000..]));
            let segment: libc::c_int = option_of(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG).unwrap();
            assert_eq!(segment, 1460 - 12, "as long as the peer takes, with timestamps");
            stream.set_nonblocking(false).unwrap();
            let mut got = [0; 13];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(&got, unread);
            let mut all = vec![0; sent.len()];
            server.read_exact(&mut all).unwrap();
            assert!(all == sent, "what arrives is what was sent");
            server.write_all(b"there").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(rest(&server), b"");
            drop(server);
            assert_eq!(rest(&stream), b"there");
        }
    }

    #[test]
    fn without_scaled_windows_none_is_scaled() {
        if !is_root() {
            return;
        }
        let (client, mut server) = pair(Ipv4Addr::LOCALHOST.into());
        let state = Leaving { shifts: None, ..left_by_kernel(client, 0) };
        let socket = finished(Repair::new(&state, false, b"", b"").unwrap(), b"");
        let mut info = [0_u8; 8];
        let mut length = info.len() as libc::socklen_t;
        // SAFETY: `info` is alive and `length` bytes long.
        let done = unsafe {
            let value = info.as_mut_ptr().cast();
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, value, &raw mut length)
        };
        answer(done.into()).unwrap();
        const SCALES: usize = 6;
        assert_eq!(info[SCALES], 0, "of both sides");
        // No process has taken it over.
        drop(socket);
        let error = server.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn until_it_is_finished_nothing_has_happened() {
        if !is_root() {
            return;
        }
        let (client, server) = pair(Ipv4Addr::LOCALHOST.into());
        let state = left_by_kernel(client, 0);
        let unfinished = Repair::new(&state, false, b"", b"").unwrap();
        assert_eq!(tcp_state(unfinished.as_fd()).unwrap(), ESTABLISHED);
        assert!(Repair::new(&state, false, b"", b"").is_err(), "there is such a connection");
        drop(unfinished);
        assert_eq!(tcp_state(server.as_fd()).unwrap(), ESTABLISHED, "it was told nothing");
    }

    #[test]
    fn a_connection_that_its_peer_has_shut_is_given_the_end_once_more() {
        for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            if !is_root() {
                return;
            }
            let (client, mut server) = pair(address);
            server.write_all(b"last words").unwrap();
            server.shutdown(Shutdown::Write).unwrap();
            while tcp_state(client.as_fd()).unwrap() != CLOSE_WAIT {
                std::thread::yield_now();
            }
            let state = left_by_kernel(client, 10);
            let state = Leaving { receive_next: state.receive_next.wrapping_sub(1), fin_received: true, ..state };
            let repair = Repair::new(&state, address.is_ipv6(), b"last words", b"").unwrap();
            repair.shut(&state).unwrap();
            let mut stream = TcpStream::from(finished(repair, b"and "));
            stream.set_nonblocking(false).unwrap();
            assert_eq!(rest(&stream), b"last words");
            stream.write_all(b"mine").unwrap();
            assert_eq!(tcp_state(server.as_fd()).unwrap(), FIN_WAIT2);
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(rest(&server), b"and mine");
            while tcp_state(stream.as_fd()).unwrap() != CLOSED {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_connection_that_was_shut_stays_so() {
        for (address, both) in [
            (IpAddr::from(Ipv4Addr::LOCALHOST), false),
            (Ipv6Addr::LOCALHOST.into(), false),
            (Ipv4Addr::LOCALHOST.into(), true),
        ] {
            if !is_root() {
                return;
            }
            let (client, mut server) = pair(address);
            server.write_all(b"words").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(rest(&server), b"");
            client.peek(&mut [0; 5]).unwrap();
            let state = Leaving { fin_acknowledged: true, fin_received: both, ..left_by_kernel(client, 5) };
            let state = Leaving { send_una: state.send_una.wrapping_sub(1), ..state };
            let repair = Repair::new(&state, address.is_ipv6(), b"words", b"").unwrap();
            repair.shut(&state).unwrap();
            let stream = TcpStream::from(finished(repair, b""));
            stream.set_nonblocking(false).unwrap();
            if both {
                drop(server);
                assert_eq!(tcp_state(stream.as_fd()).unwrap(), CLOSED);
                assert_eq!(rest(&stream), b"words");
                continue;
            }
            server.write_all(b" more").unwrap();
            drop(server);
            assert_eq!(rest(&stream), b"words more");
        }
    }
}
