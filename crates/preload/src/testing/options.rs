use super::*;
use crate::socket::options;
use crate::sys::errno::Errno;
use crate::table::fd::{Entry, TABLE};
use std::os::fd::AsRawFd;
use tickwire_lane::control::Reason;

const ON: i32 = 1;

/// Sets an option as a program does.
fn set(fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
    options::program_sets(fd, level, name, value, || sys::set_option_bytes(fd, level, name, value))
}

/// Why a socket is a kernel socket, as `tickwire stat` shows it; `None` if it is ours.
fn kernels(fd: c_int) -> Option<Reason> {
    let Entry::Kernel(row) = TABLE.get(fd) else { return None };
    lane().with(|access| Ok(Reason::from_code(access.stack.kernel_rows()[row as usize].reason.get()))).unwrap()
}

/// Why some packets of a socket of ours go through the kernel.
fn in_part(fd: c_int) -> Reason {
    let index = TABLE.get(fd).description().unwrap();
    let code = lane().with(|access| {
        let socket = access.descriptions().get(index).socket();
        Ok(access.stack.socket_row(socket)?.reason.get())
    });
    Reason::from_code(code.unwrap()).unwrap()
}

/// Options that only the kernel's stack has and that need neither rights nor peers.
const KERNELS: [(c_int, c_int, c_int, Reason); 4] = [
    (libc::SOCK_DGRAM, libc::IPPROTO_IP, libc::IP_RECVERR, Reason::Errors),
    (libc::SOCK_DGRAM, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, Reason::Stamps),
    (libc::SOCK_STREAM, libc::IPPROTO_IP, libc::IP_RECVERR, Reason::Errors),
    (libc::SOCK_STREAM, libc::IPPROTO_TCP, libc::TCP_SYNCNT, Reason::Option),
];

#[test]
fn a_socket_without_traffic_becomes_the_kernels_with_the_options_reason() {
    for (kind, level, name, reason) in KERNELS {
        let fd = socket(kind);
        ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
        set(fd, level, name, &0i32.to_ne_bytes()).ok();
        assert_eq!(kernels(fd), None, "switched off: level {level}, option {name}");
        set(fd, level, name, &2i32.to_ne_bytes()).unwrap();
        assert_eq!(kernels(fd), Some(reason), "level {level}, option {name}");
        assert_eq!(sys::option(fd, level, name).map(|n| n & 3 != 0), Ok(true), "the kernel socket has it");
        close(fd);
    }
}

#[test]
fn what_only_the_kernel_has_is_refused_once_there_was_traffic() {
    for (kind, level, name, _) in KERNELS {
        let fd = if kind == libc::SOCK_STREAM { connected(7) } else { socket(kind) };
        let to = (kind == libc::SOCK_DGRAM).then_some((THERE, 7));
        send(fd, b"x", 0, to).unwrap();
        assert_eq!(set(fd, level, name, &ON.to_ne_bytes()), Err(Errno(libc::ENOPROTOOPT)));
        assert_eq!(kernels(fd), None);
        assert_eq!(receive(fd, 10, 0), Ok(b"x".to_vec()), "it is none the worse for it");
        close(fd);
    }
}

#[test]
fn an_option_that_the_kernel_refuses_leaves_the_socket_where_it_is() {
    let fd = socket(libc::SOCK_DGRAM);
    assert_eq!(set(fd, libc::IPPROTO_IP, 9999, &ON.to_ne_bytes()), Err(Errno(libc::ENOPROTOOPT)));
    assert_eq!(set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &ON.to_ne_bytes()), Err(Errno(libc::ENOENT)));
    assert_eq!(kernels(fd), None);
    close(fd);
}

#[test]
fn what_makes_no_difference_leaves_the_socket_where_it_is() {
    let fd = socket(libc::SOCK_DGRAM);
    for (level, name) in [
        (libc::SOL_SOCKET, libc::SO_PRIORITY),
        (libc::SOL_SOCKET, libc::SO_NO_CHECK),
        (libc::IPPROTO_UDP, libc::UDP_GRO),
    ] {
        set(fd, level, name, &ON.to_ne_bytes()).unwrap();
    }
    send(fd, b"x", 0, Some((THERE, 7))).unwrap();
    assert_eq!((kernels(fd), in_part(fd)), (None, Reason::None));
    close(fd);
}

#[test]
fn a_congestion_control_that_the_stack_has_is_used_and_another_is_not() {
    let fd = socket(libc::SOCK_STREAM);
    set(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"reno").unwrap();
    ops::connect(fd, &address(THERE, 7)).unwrap();
    let name = || options::get(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION).unwrap().unwrap().0;
    assert!(name().starts_with(b"reno\0"));
    set(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"cubic").ok();
    // The result on another kernel socket; not every kernel has it.
    let other = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let kernels = sys::set_option_bytes(other, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"bbr");
    let refused = Err(kernels.err().unwrap_or(Errno(libc::ENOPROTOOPT)));
    assert_eq!(set(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"bbr"), refused);
    for (name, error) in [(&b"nope"[..], libc::ENOENT), (b"", libc::EINVAL)] {
        assert_eq!(set(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name), Err(Errno(error)));
    }
    assert!(name().starts_with(b"reno\0") || name().starts_with(b"cubic\0"));
    sys::close(other);
    close(fd);
}

#[test]
fn an_upper_layer_protocol_is_refused_as_the_kernel_does_it() {
    let fd = connected(7);
    send(fd, b"x", 0, None).unwrap();
    // The result on another kernel connection; not every kernel has TLS.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    for name in [&b"nope"[..], b"mptcp", b"tls"] {
        let kernels = sys::set_option_bytes(other.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_ULP, name);
        let refused = kernels.err().unwrap_or(Errno(libc::ENOPROTOOPT));
        assert_eq!(set(fd, libc::IPPROTO_TCP, libc::TCP_ULP, name), Err(refused));
    }
    assert_eq!(receive(fd, 1, 0), Ok(b"x".to_vec()));
    close(fd);
}

#[test]
fn the_largest_segment_may_be_set_before_the_connection() {
    let fd = socket(libc::SOCK_STREAM);
    set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &700i32.to_ne_bytes()).unwrap();
    ops::connect(fd, &address(THERE, 7)).unwrap();
    let (bytes, _) = options::get(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG).unwrap().unwrap();
    let mss = i32::from_ne_bytes(bytes.try_into().unwrap());
    assert!((600..=700).contains(&mss), "{mss}");
    close(fd);
}

#[test]
fn how_long_the_peers_end_is_waited_for_is_kept_whenever_it_is_set() {
    for (seconds, before) in [(5i32, true), (5, false), (-7, true), (-7, false)] {
        let fd = socket(libc::SOCK_STREAM);
        let set = || set(fd, libc::IPPROTO_TCP, libc::TCP_LINGER2, &seconds.to_ne_bytes()).unwrap();
        if before {
            set();
        }
        ops::connect(fd, &address(THERE, 7)).unwrap();
        let told = || options::get(fd, libc::IPPROTO_TCP, libc::TCP_LINGER2).unwrap();
        if !before {
            assert_eq!(told(), None, "what holds if nothing was set the kernel tells");
            set();
        }
        let (bytes, _) = told().unwrap();
        assert_eq!(i32::from_ne_bytes(bytes.try_into().unwrap()), seconds.max(-1));
        close(fd);
    }
}

#[test]
fn a_mark_of_unsent_bytes_is_kept_to_whenever_it_is_set() {
    let mark = |fd| {
        i32::from_ne_bytes(
            options::get(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).unwrap().unwrap().0.try_into().unwrap(),
        )
    };
    for before in [true, false] {
        let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
        let set = || set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &10_000i32.to_ne_bytes()).unwrap();
        if before {
            set();
        }
        // Segments with data to this port are lost, so no more than the first window is sent.
        assert_eq!(ops::connect(fd, &address(THERE, 15)), Err(Errno(libc::EINPROGRESS)));
        let open = crate::wait::poll::poll(&mut [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }], None, None);
        assert_eq!(open, Ok(1));
        if !before {
            set();
        }
        assert_eq!(mark(fd), 10_000);
        let taken = send(fd, &[0; 200_000], 0, None).unwrap();
        assert!((10_000..50_000).contains(&taken), "{taken}");
        assert_eq!(send(fd, b"more", 0, None), Err(Errno(libc::EAGAIN)));
        assert_eq!(kernels(fd), None);
        close(fd);
    }
}

#[test]
fn an_address_may_be_bound_without_a_port() {
    let fd = socket(libc::SOCK_STREAM);
    set(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &ON.to_ne_bytes()).unwrap();
    ops::bind(fd, &address(HERE, 0)).unwrap();
    ops::connect(fd, &address(THERE, 7)).unwrap();
    assert_eq!(kernels(fd), None);
    close(fd);
}

/// A datagram that is assembled in the kernel is sent whole, also when its last piece could use the
/// lane.
#[test]
fn pieces_of_a_datagram_stay_together() {
    let ours = socket(libc::SOCK_DGRAM);
    ops::bind(ours, &address(Address::ANY_V4, 0)).unwrap();
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let near = (Address::v4([127, 0, 0, 1]), other.local_addr().unwrap().port());
    let heard = || {
        let mut data = [0; 100];
        let n = other.recv(&mut data).unwrap();
        data[..n].to_vec()
    };
    send(ours, b"a", 0, Some((THERE, 7))).unwrap();
    assert_eq!(receive(ours, 10, 0), Ok(b"a".to_vec()));
    send(ours, b"one ", libc::MSG_MORE, Some(near)).unwrap();
    // The datagram has its destination from its first piece.
    send(ours, b"two", 0, Some((THERE, 7))).unwrap();
    assert_eq!(heard(), b"one two");
    assert_eq!(in_part(ours), Reason::Pieces);
    set(ours, libc::IPPROTO_UDP, libc::UDP_CORK, &ON.to_ne_bytes()).unwrap();
    send(ours, b"three ", 0, Some(near)).unwrap();
    send(ours, b"four", 0, Some((THERE, 7))).unwrap();
    set(ours, libc::IPPROTO_UDP, libc::UDP_CORK, &0i32.to_ne_bytes()).unwrap();
    assert_eq!(heard(), b"three four");
    send(ours, b"b", 0, Some((THERE, 7))).unwrap();
    assert_eq!(receive(ours, 10, 0), Ok(b"b".to_vec()), "back on the lane");
    assert_eq!(kernels(ours), None);
    close(ours);
}

/// Sends to the peer with a control message of UDP_SEGMENT.
fn send_cut(fd: c_int, data: &[u8], segment: &[u8]) -> Result<usize> {
    use crate::sys::ControlBuffer;
    let mut place = [0u64; 4];
    let room = size_of_val(&place);
    // SAFETY: the place lives on.
    let mut control = unsafe { ControlBuffer::new(place.as_mut_ptr().cast(), room) };
    assert!(control.push(libc::IPPROTO_UDP, libc::UDP_SEGMENT, segment));
    let mut extras = Extras { control: Some(control), ..Extras::default() };
    let iov = one(data.as_ptr().cast(), data.len());
    // SAFETY: the data lives on.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
    let to = named(&mut extras, THERE, 7);
    ops::send(fd, &mut buffers, 0, Some(to), &mut extras)
}

#[test]
fn one_send_is_cut_into_datagrams_as_the_socket_or_the_call_says() {
    let fd = socket(libc::SOCK_DGRAM);
    let back = || -> Vec<Vec<u8>> { std::iter::from_fn(|| receive(fd, 2000, libc::MSG_DONTWAIT).ok()).collect() };
    send(fd, b"whole", 0, Some((THERE, 7))).unwrap();
    assert_eq!(back(), [b"whole"]);
    set(fd, libc::IPPROTO_UDP, libc::UDP_SEGMENT, &4i32.to_ne_bytes()).unwrap();
    assert_eq!(send(fd, b"0123456789", 0, Some((THERE, 7))), Ok(10));
    assert_eq!(back(), [&b"0123"[..], b"4567", b"89"]);
    assert_eq!(send(fd, b"", 0, Some((THERE, 7))), Ok(0));
    assert_eq!(back(), [b""]);
    assert_eq!(send_cut(fd, b"0123456789", &6u16.to_ne_bytes()), Ok(10));
    assert_eq!(back(), [&b"012345"[..], b"6789"]);
    assert_eq!(send_cut(fd, b"0123456789", &0u16.to_ne_bytes()), Ok(10));
    assert_eq!(back(), [b"0123456789"]);
    assert_eq!(send_cut(fd, &[0; 3000], &1473u16.to_ne_bytes()), Err(Errno(libc::EMSGSIZE)));
    assert_eq!(send_cut(fd, &[0; 129], &1u16.to_ne_bytes()), Err(Errno(libc::EINVAL)));
    assert!(back().is_empty());
    assert_eq!((kernels(fd), in_part(fd)), (None, Reason::None));
    close(fd);
}

#[test]
fn a_sender_to_groups_that_loop_back_is_told_to_go_by_the_kernel() {
    let fd = socket(libc::SOCK_DGRAM);
    sys::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &u32::from_ne_bytes([127, 0, 0, 1])).unwrap();
    let group = Address::v4([239, 9, 9, 9]);
    send(fd, b"x", 0, Some((group, 9))).unwrap();
    assert_eq!(in_part(fd), Reason::MulticastLoop);
    assert_eq!(kernels(fd), None);
    close(fd);
}

#[test]
fn fast_open_connects_and_sends() {
    let fd = socket(libc::SOCK_STREAM);
    for name in [libc::TCP_FASTOPEN_CONNECT, libc::TCP_FASTOPEN_NO_COOKIE] {
        set(fd, libc::IPPROTO_TCP, name, &ON.to_ne_bytes()).ok();
    }
    assert_eq!(send(fd, b"early", libc::MSG_FASTOPEN, Some((THERE, 7))), Ok(5));
    assert_eq!(receive(fd, 10, 0), Ok(b"early".to_vec()));
    assert_eq!(send(fd, b"late", libc::MSG_FASTOPEN, Some((THERE, 7))), Err(Errno(libc::EISCONN)));
    assert_eq!(kernels(fd), None);
    close(fd);
}
