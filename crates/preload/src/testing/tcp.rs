use super::*;
use crate::socket::descriptor;
use crate::socket::kernel;
use crate::socket::options;
use crate::sys::errno::Errno;
use crate::table::fd::{Entry, TABLE};
use crate::wait::poll;
use tickwire_stack::TcpId;

fn so_error(fd: c_int) -> i32 {
    let (bytes, _) = options::get(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap().unwrap();
    i32::from_ne_bytes(bytes.try_into().unwrap())
}

#[test]
fn a_stream_goes_there_and_back() {
    let fd = connected(7);
    assert_eq!(send(fd, b"hello", 0, None), Ok(5));
    assert_eq!(receive(fd, 2, libc::MSG_PEEK), Ok(b"he".to_vec()));
    assert_eq!(receive(fd, 5, libc::MSG_WAITALL), Ok(b"hello".to_vec()));
    assert_eq!(receive(fd, 5, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)));
    close(fd);
}

/// The receive time of the data that a call took, in nanoseconds or microseconds of the wall clock,
/// depending on the kind of the control message.
fn received_with_stamp(fd: c_int, len: usize, flags: c_int) -> (usize, Option<(c_int, i64, i64)>) {
    use crate::sys::ControlBuffer;
    let (mut place, mut data) = ([0u64; 16], [0u8; 16]);
    let iov = one(data.as_mut_ptr().cast(), len);
    // SAFETY: the data lives on.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }.unwrap();
    // SAFETY: the place lives on.
    let control = unsafe { ControlBuffer::new(place.as_mut_ptr().cast(), size_of_val(&place)) };
    let mut extras = Extras { control: Some(control), ..Extras::default() };
    let taken = ops::receive(fd, &mut buffers, flags, &mut extras).unwrap();
    let written = extras.control.as_ref().unwrap().len();
    // SAFETY: what was just written.
    let written = unsafe { ControlBuffer::new(place.as_mut_ptr().cast(), written) };
    let mut stamp = None;
    written.each(|level, kind, data| {
        assert_eq!(level, libc::SOL_SOCKET);
        let word = |at: usize| i64::from_ne_bytes(data[at..at + 8].try_into().unwrap());
        stamp = Some((kind, word(0), word(8)));
    });
    (taken, stamp)
}

#[test]
fn when_the_data_of_a_stream_came_is_told_if_the_program_wants_to_know() {
    let wall = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let fd = connected(7);
    let begin = wall();
    send(fd, b"hello", 0, None).unwrap();
    assert_eq!(received_with_stamp(fd, 1, libc::MSG_WAITALL), (1, None));
    options::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32.to_ne_bytes());
    for flags in [libc::MSG_PEEK, 0] {
        let (taken, stamp) = received_with_stamp(fd, 2, flags);
        let Some((libc::SCM_TIMESTAMPNS, seconds, ns)) = stamp else { panic!("{stamp:?}") };
        let came = seconds * 1_000_000_000 + ns;
        assert!(taken == 2 && (begin..=wall()).contains(&came), "{begin} {came}");
    }
    options::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMP, &1i32.to_ne_bytes());
    let (taken, stamp) = received_with_stamp(fd, 2, 0);
    assert!(taken == 2 && stamp.is_some_and(|(kind, _, micros)| kind == libc::SCM_TIMESTAMP && micros < 1_000_000));
    close(fd);
}

#[test]
fn half_close_ends_the_stream_in_one_direction() {
    let fd = connected(7);
    send(fd, b"last words", 0, None).unwrap();
    ops::shutdown(fd, libc::SHUT_WR).unwrap();
    assert_eq!(receive(fd, 100, libc::MSG_WAITALL), Ok(b"last words".to_vec()));
    assert_eq!(receive(fd, 100, 0), Ok(Vec::new()));
    assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::EPIPE)));
    close(fd);
}

/// On Linux a socket is closed as soon as the kernel waits in TIME-WAIT, which it does without the
/// socket.
#[test]
fn a_connection_that_both_sides_have_ended_is_none() {
    let fd = connected(7);
    ops::shutdown(fd, libc::SHUT_WR).unwrap();
    assert_eq!(receive(fd, 1, 0), Ok(Vec::new()), "the peer ends when we have");
    for how in [libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR] {
        assert_eq!(ops::shutdown(fd, how), Err(Errno(libc::ENOTCONN)));
    }
    assert_eq!(ops::socket_name(fd, true), Err(Errno(libc::ENOTCONN)));
    assert!(ops::socket_name(fd, false).unwrap().is_some());
    let (info, _) = options::get(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap().unwrap();
    assert_eq!(info[0], 7, "CLOSE");
    assert_eq!(ops::connect(fd, &address(THERE, 7)), Err(Errno(libc::EISCONN)));
    close(fd);
}

#[test]
fn names_are_those_of_the_connection() {
    let fd = connected(7);
    let (bytes, len) = ops::socket_name(fd, true).unwrap().unwrap();
    assert_eq!(bytes[..len], address(THERE, 7));
    let (bytes, len) = ops::socket_name(fd, false).unwrap().unwrap();
    assert_eq!(bytes[4..8], [10, 99, 0, 1]);
    assert_eq!(len, 16);
    close(fd);
}

#[test]
fn a_refused_connect_says_so_and_leaves_a_fresh_socket() {
    let fd = socket(libc::SOCK_STREAM);
    assert_eq!(ops::connect(fd, &address(THERE, 4444)), Err(Errno(libc::ECONNREFUSED)));
    assert_eq!(ops::connect(fd, &address(THERE, 7)), Ok(()));
    assert_eq!(ops::connect(fd, &address(THERE, 7)), Err(Errno(libc::EISCONN)));
    close(fd);
}

#[test]
fn a_nonblocking_connect_is_told_by_poll_and_so_error() {
    let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    assert_eq!(ops::connect(fd, &address(THERE, 7)), Err(Errno(libc::EINPROGRESS)));
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    assert_eq!(poll::poll(&mut fds, None, None), Ok(1));
    assert_eq!(fds[0].revents, libc::POLLOUT);
    assert_eq!(so_error(fd), 0);
    close(fd);

    let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    assert_eq!(ops::connect(fd, &address(THERE, 4444)), Err(Errno(libc::EINPROGRESS)));
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    assert_eq!(poll::poll(&mut fds, None, None), Ok(1));
    assert_ne!(fds[0].revents & (libc::POLLERR | libc::POLLHUP), 0);
    assert_eq!(so_error(fd), libc::ECONNREFUSED);
    close(fd);
}

/// As on Linux, where the call has no error left to return.
#[test]
fn a_connect_whose_failure_was_told_by_so_error_is_aborted() {
    let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    assert_eq!(ops::connect(fd, &address(THERE, 4444)), Err(Errno(libc::EINPROGRESS)));
    assert_eq!(so_error(fd), libc::ECONNREFUSED);
    assert_eq!(ops::connect(fd, &address(THERE, 4444)), Err(Errno(libc::ECONNABORTED)));
    assert_eq!(ops::connect(fd, &address(THERE, 7)), Err(Errno(libc::EINPROGRESS)));
    close(fd);
}

#[test]
fn an_unconnected_socket_has_linux_errors() {
    let fd = socket(libc::SOCK_STREAM);
    assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ENOTCONN)));
    assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::EPIPE)));
    assert_eq!(receive(fd, 1, libc::MSG_OOB), Err(Errno(libc::EINVAL)));
    assert_eq!(ops::shutdown(fd, libc::SHUT_WR), Err(Errno(libc::ENOTCONN)));
    assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ENOTCONN)));
    close(fd);
}

/// As on Linux (`inet_shutdown`): an unconnected socket is shut down all the same, and still is
/// after it has been connected.
#[test]
fn a_socket_that_is_shut_before_it_is_connected_stays_so() {
    let theirs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let near = address(Address::v4([127, 0, 0, 1]), theirs.local_addr().unwrap().port());
    let told = |fd| {
        let mut fds = [libc::pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 }];
        poll::poll(&mut fds, Some(tickwire_stack::time::Span::ZERO), None).unwrap();
        fds[0].revents
    };
    let fd = socket(libc::SOCK_STREAM);
    assert_eq!(told(fd), libc::POLLHUP);
    assert_eq!(ops::shutdown(fd, 7), Err(Errno(libc::EINVAL)));
    assert_eq!(ops::shutdown(fd, libc::SHUT_RDWR), Err(Errno(libc::ENOTCONN)));
    let shut = libc::POLLIN | libc::POLLRDHUP | libc::POLLHUP;
    assert_eq!((told(fd), receive(fd, 1, 0)), (shut, Ok(Vec::new())));
    ops::connect(fd, &near).unwrap();
    assert_eq!((told(fd), receive(fd, 1, 0)), (shut, Ok(Vec::new())));
    assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::EPIPE)));
    close(fd);
}

/// The kernel's listener is non-blocking while it is ours; afterwards the socket has the mode that
/// the program set.
#[test]
fn a_listener_that_was_shut_is_a_fresh_socket() {
    let fd = socket(libc::SOCK_STREAM);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    ops::listen(fd, 8).unwrap();
    ops::shutdown(fd, libc::SHUT_RD).unwrap();
    assert_eq!(sys::fcntl(fd, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK, 0);
    assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ENOTCONN)));
    assert_eq!(ops::shutdown(fd, libc::SHUT_RD), Err(Errno(libc::ENOTCONN)));
    assert_eq!(receive(fd, 1, 0), Ok(Vec::new()));
    close(fd);
}

/// Makes a bound socket listen, and the peer connect to it. Returns the port, and the socket by
/// which the peer got the request.
fn dialled(listener: c_int) -> (u16, c_int) {
    ops::listen(listener, 8).unwrap();
    let port = sys::socket_name(listener, false).unwrap().port;
    let dialler = socket(libc::SOCK_DGRAM);
    send(dialler, format!("dial {port}").as_bytes(), 0, Some((THERE, 7))).unwrap();
    (port, dialler)
}

#[test]
fn a_listener_accepts_from_the_lane_and_from_the_kernel() {
    let listener = socket(libc::SOCK_STREAM);
    ops::bind(listener, &address(Address::ANY_V4, 0)).unwrap();
    let (port, dialler) = dialled(listener);
    let (fd, name, len) = ops::accept(listener, libc::SOCK_CLOEXEC).unwrap();
    assert!(matches!(SocketName::parse(&name[..len]), SocketName::Inet { endpoint, .. } if endpoint.address == THERE));
    assert_eq!(receive(fd, 5, libc::MSG_WAITALL), Ok(b"hello".to_vec()));

    let local = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (kernels, ..) = ops::accept(listener, 0).unwrap();
    assert!(!crate::table::fd::TABLE.get(kernels).is_socket(), "the kernel's connection is the kernel's");
    assert_eq!(descriptor::flags(listener).unwrap() & libc::O_NONBLOCK, 0, "the program's flags are as it set them");
    descriptor::set_nonblocking(listener, true).unwrap();
    assert!(matches!(ops::accept(listener, 0), Err(Errno(libc::EAGAIN))));
    drop(local);
    close(kernels);
    close(listener);
    // The accepted connection outlives its listener.
    send(fd, b"more", 0, None).unwrap();
    assert_eq!(receive(fd, 4, libc::MSG_WAITALL), Ok(b"more".to_vec()));
    close(fd);
    close(dialler);
}

#[test]
fn a_full_send_buffer_stops_a_nonblocking_sender_with_a_part() {
    let fd = connected(9);
    let data = vec![7; 16 << 20];
    let n = send(fd, &data, libc::MSG_DONTWAIT, None).unwrap();
    assert!(n > 0 && n < data.len());
    let mut more = Ok(0);
    for _ in 0..1000 {
        more = send(fd, &data, libc::MSG_DONTWAIT, None);
        if more.is_err() {
            break;
        }
    }
    assert_eq!(more, Err(Errno(libc::EAGAIN)));
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    assert_eq!(poll::poll(&mut fds, Some(tickwire_stack::time::Span::ZERO), None), Ok(0));
    close(fd);
}

#[test]
fn options_are_kept_on_both_sides() {
    let fd = socket(libc::SOCK_STREAM);
    let before = |name, value: i32| {
        let kernel = || sys::set_option(fd, libc::IPPROTO_TCP, name, &value);
        options::program_sets(fd, libc::IPPROTO_TCP, name, &value.to_ne_bytes(), kernel).unwrap();
    };
    before(libc::TCP_NODELAY, 1);
    ops::connect(fd, &address(THERE, 7)).unwrap();
    let read = |name| {
        let (bytes, _) = options::get(fd, libc::IPPROTO_TCP, name).unwrap().unwrap();
        i32::from_ne_bytes(bytes[..4].try_into().unwrap())
    };
    assert_eq!(read(libc::TCP_NODELAY), 1, "set before the connection was ours");
    options::set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &77i32.to_ne_bytes());
    assert_eq!(read(libc::TCP_KEEPIDLE), 77);
    let (info, len) = options::get(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap().unwrap();
    assert_eq!((info[0], len), (1, tickwire_linux_abi::tcp_info::LEN), "ESTABLISHED");
    close(fd);
}

#[test]
fn what_waits_to_be_read_is_counted() {
    let fd = connected(7);
    send(fd, b"12345", 0, None).unwrap();
    let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    poll::poll(&mut fds, None, None).unwrap();
    assert_eq!(descriptor::figure(fd, libc::FIONREAD), Ok(Some(5)));
    close(fd);
}

#[test]
fn a_peer_that_cannot_be_reached_is_told_as_such_and_not_as_the_end_of_a_wait() {
    let timeout = 50u32.to_ne_bytes();
    let fd = socket(libc::SOCK_STREAM);
    let kernel = || sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &50u32);
    options::program_sets(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &timeout, kernel).unwrap();
    assert_eq!(ops::connect(fd, &address(THERE, 13)), Err(Errno(libc::ETIMEDOUT)));
    close(fd);

    let fd = connected(15);
    options::set(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &timeout);
    send(fd, b"lost", 0, None).unwrap();
    assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ETIMEDOUT)));
    assert_eq!(receive(fd, 1, 0), Ok(Vec::new()), "told once");
    close(fd);
}

#[test]
fn a_connection_whose_address_goes_fails_and_is_told_like_any_other_failure() {
    use crate::wait::epoll;
    use crate::wait::epoll_wait;
    let (fd, other) = (connected(7), connected(7));
    let epfd = sys::epoll_create(0).unwrap();
    epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, (libc::EPOLLIN | libc::EPOLLET) as u32, 1).unwrap();
    sever(fd);

    let Entry::Epoll(set) = TABLE.get(epfd) else { panic!("an instance with a set") };
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
    assert_eq!(epoll_wait::wait(epfd, set, &mut events, None, None), Ok(1));
    let told = events[0].events;
    assert_eq!(told, (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) as u32);
    let pollin = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [pollin(fd), pollin(other)];
    assert_eq!(poll::poll(&mut fds, None, None), Ok(1));
    assert_eq!(fds[1].revents, 0);
    assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ECONNABORTED)));
    assert_eq!(receive(fd, 1, 0), Ok(Vec::new()));
    send(other, b"goes on", 0, None).unwrap();
    assert_eq!(receive(other, 7, libc::MSG_WAITALL), Ok(b"goes on".to_vec()));
    [fd, other, epfd].into_iter().for_each(close);
}

/// Ends a connection with an error, as when its address is removed.
fn sever(fd: c_int) {
    let Entry::Tcp(index) = TABLE.get(fd) else { panic!("a connection") };
    let claim = lane().with(|access| Ok(*access.descriptions().get(index).claim())).unwrap();
    kernel::claim_lost(lane(), claim, tickwire_lane::control::Reason::Address);
}

#[test]
fn a_port_whose_address_went_with_closed_connections_can_be_used_for_the_next() {
    let from = |port| {
        let fd = socket(libc::SOCK_STREAM);
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32).unwrap();
        ops::bind(fd, &address(HERE, port)).unwrap();
        let connected = ops::connect(fd, &address(THERE, 7));
        (fd, connected)
    };
    let (fd, connected) = from(0);
    connected.unwrap();
    let port = sys::socket_name(fd, false).unwrap().port;
    let index = TABLE.get(fd).description().unwrap();
    let claim = lane().with(|access| Ok(*access.descriptions().get(index).claim())).unwrap();
    close(fd);
    // It is in TIME-WAIT, or about to be, and no other connection gets its port while the claim
    // lasts.
    kernel::claim_lost(lane(), claim, tickwire_lane::control::Reason::Address);
    let (fd, connected) = from(port);
    assert_eq!(connected, Ok(()));
    send(fd, b"anew", 0, None).unwrap();
    assert_eq!(receive(fd, 4, libc::MSG_WAITALL), Ok(b"anew".to_vec()));
    close(fd);
}

#[test]
fn an_error_after_a_part_of_the_data_is_told_by_the_next_call() {
    let fd = connected(7);
    send(fd, b"part", 0, None).unwrap();
    let reader = std::thread::spawn(move || receive(fd, 10, libc::MSG_WAITALL));
    std::thread::sleep(std::time::Duration::from_millis(50));
    sever(fd);
    assert_eq!(reader.join().unwrap(), Ok(b"part".to_vec()));
    assert_eq!(receive(fd, 10, 0), Err(Errno(libc::ECONNABORTED)), "not the end of the stream");
    close(fd);

    let fd = connected(9);
    let index = TABLE.get(fd).description().unwrap();
    let writer = std::thread::spawn(move || send(fd, &vec![7; 64 << 20], 0, None));
    let sent = || {
        let sent = lane().with(|access| {
            let socket = access.descriptions().get(index).socket();
            Ok(access.stack.socket_row(socket)?.tx_bytes.get())
        });
        sent.unwrap()
    };
    while sent() == 0 {
        std::thread::yield_now();
    }
    sever(fd);
    assert!(writer.join().unwrap().is_ok_and(|n| n > 0 && n < 64 << 20));
    assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::ECONNABORTED)));
    assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::EPIPE)));
    close(fd);
}

#[test]
fn an_accepted_connection_has_its_listeners_timeouts() {
    let listener = socket(libc::SOCK_STREAM);
    ops::bind(listener, &address(Address::ANY_V4, 0)).unwrap();
    let timeval = [0i64.to_ne_bytes(), 20_000i64.to_ne_bytes()].concat();
    options::set(listener, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeval);
    let (_, dialler) = dialled(listener);
    let (fd, ..) = ops::accept(listener, 0).unwrap();
    assert_eq!(receive(fd, 5, libc::MSG_WAITALL), Ok(b"hello".to_vec()));
    assert_eq!(receive(fd, 1, 0), Err(Errno(libc::EAGAIN)), "it does not wait for ever");
    [fd, dialler, listener].into_iter().for_each(close);
}

#[test]
fn a_peek_that_waits_for_all_sees_all() {
    let fd = connected(7);
    send(fd, b"ab", 0, None).unwrap();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        send(fd, b"cde", 0, None)
    });
    assert_eq!(receive(fd, 5, libc::MSG_PEEK | libc::MSG_WAITALL), Ok(b"abcde".to_vec()));
    writer.join().unwrap().unwrap();
    let now = libc::MSG_PEEK | libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    assert_eq!(receive(fd, 9, now), Ok(b"abcde".to_vec()), "what there is");
    ops::shutdown(fd, libc::SHUT_WR).unwrap();
    assert_eq!(receive(fd, 9, libc::MSG_PEEK | libc::MSG_WAITALL), Ok(b"abcde".to_vec()), "no more will come");
    close(fd);
}

/// The error of a call, if it failed.
fn told(answer: isize) -> i32 {
    if answer < 0 { crate::sys::errno::get() } else { 0 }
}

/// `recvfrom` as in the kernel (`move_addr_to_user`): a name of length 0 is returned if there is
/// room for it, and a negative room is an error.
#[test]
fn a_stream_tells_no_name_and_refuses_a_place_of_negative_length() {
    let fd = connected(7);
    send(fd, b"abc", 0, None).unwrap();
    let (mut byte, mut name) = (0u8, [0u8; 16]);
    let mut take = |len: &mut libc::socklen_t, named: bool| {
        let address = if named { name.as_mut_ptr().cast() } else { core::ptr::null_mut() };
        // SAFETY: buffers of our own, as long as said or with a length that is refused.
        told(unsafe { crate::exports::data::recvfrom(fd, (&raw mut byte).cast(), 1, 0, address, len) })
    };
    for (said, named, error, left) in
        [(16, true, 0, 0), (u32::MAX, true, libc::EINVAL, u32::MAX), (u32::MAX, false, 0, u32::MAX)]
    {
        let mut len = said;
        assert_eq!((take(&mut len, named), len), (error, left), "{said} {named}");
    }
    assert_eq!(receive(fd, 1, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)), "what came with an error is taken, too");
    close(fd);
}

/// As in the kernel: the connection was accepted before its peer's name turned out not to be
/// storable, and is lost then.
#[test]
fn a_connection_whose_peer_cannot_be_told_is_lost_and_its_descriptor_is_not() {
    let listener = socket(libc::SOCK_STREAM);
    ops::bind(listener, &address(Address::ANY_V4, 0)).unwrap();
    let (port, dialler) = dialled(listener);
    let (mut name, mut len) = ([0u8; 16], u32::MAX);
    // SAFETY: a buffer of our own, with a length that is refused.
    let answer = unsafe { crate::exports::socket::accept(listener, name.as_mut_ptr().cast(), &raw mut len) };
    assert_eq!(told(answer as isize), libc::EINVAL);
    // What the descriptors of the process refer to.
    let open = lane().with(|access| {
        let sockets: Vec<_> = (0..access.descriptions().used())
            .filter_map(|index| TcpId::try_from(access.descriptions().get(index).socket()).ok())
            .collect();
        Ok(sockets
            .into_iter()
            .filter_map(|id| access.stack.tcp_endpoints(id).ok())
            .any(|(local, _)| local.port == port))
    });
    assert_eq!(open, Ok(false), "the connection has no owner");
    [dialler, listener].into_iter().for_each(close);
}
