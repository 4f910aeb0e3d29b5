use super::*;
use crate::exports::data;
use crate::sys::errno::{self, Errno};
use crate::table::desc::flag;
use crate::table::fd::TABLE;

#[test]
fn datagrams_go_by_the_lane_and_come_back_with_their_sender() {
    let fd = socket(libc::SOCK_DGRAM);
    assert_eq!(send(fd, b"ping", 0, Some((THERE, 7))), Ok(4));
    let (data, _, extras) = receive_all(fd, 100, 0).unwrap();
    assert_eq!(data, b"ping");
    let from = SocketName::parse(&extras.name[..extras.name_len]);
    assert_eq!(from, SocketName::Inet { endpoint: Endpoint::new(THERE, 7), scope: 0, v6: false });
    close(fd);
}

#[test]
fn a_peek_leaves_the_datagram_and_a_short_buffer_is_told() {
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"0123456789", 0, Some((THERE, 7))).unwrap();
    assert_eq!(receive(fd, 4, libc::MSG_PEEK), Ok(b"0123".to_vec()));
    let (data, n, extras) = receive_all(fd, 4, libc::MSG_TRUNC).unwrap();
    assert_eq!((data.as_slice(), n), (&b"0123"[..], 10));
    assert_eq!(extras.flags & libc::MSG_TRUNC, libc::MSG_TRUNC);
    assert_eq!(receive(fd, 4, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)));
    close(fd);
}

#[test]
fn the_kernel_is_behind_the_same_descriptor() {
    let ours = socket(libc::SOCK_DGRAM);
    ops::bind(ours, &address(Address::ANY_V4, 0)).unwrap();
    let port = sys::socket_name(ours, false).unwrap().port;
    let other = socket(libc::SOCK_DGRAM);
    // The kernel handles loopback, both ways.
    send(other, b"local", 0, Some((Address::v4([127, 0, 0, 1]), port))).unwrap();
    assert_eq!(receive(ours, 100, 0), Ok(b"local".to_vec()));
    send(ours, b"far", 0, Some((THERE, 7))).unwrap();
    assert_eq!(receive(ours, 100, 0), Ok(b"far".to_vec()));
    send(other, b"again", 0, Some((Address::v4([127, 0, 0, 1]), port))).unwrap();
    assert_eq!(receive(ours, 100, 0), Ok(b"again".to_vec()));
    close(ours);
    close(other);
}

#[test]
fn where_no_route_leads_each_datagram_gets_the_kernels_own_error() {
    use tickwire_stack::path::{PathInfo, PathState, Query};
    let nowhere = Address::v4([192, 0, 2, 1]);
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"bound now", 0, Some((THERE, 9))).unwrap();
    let no_route = PathInfo { query: Query::to(nowhere), state: PathState::Unreachable, ..PathInfo::default() };
    lane()
        .with(|access| {
            access.stack.path_set(no_route, access.now);
            Ok(())
        })
        .unwrap();
    // Independent of this machine's routes: only the kernel socket is shut down, so that nothing
    // leaves.
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_shutdown, fd, libc::SHUT_WR) };
    let Err(Errno(error)) = send(fd, b"x", 0, Some((nowhere, 9))) else { panic!("the kernel socket is shut") };
    assert!([libc::EPIPE, libc::ENETUNREACH].contains(&error), "{error}");
    close(fd);
}

/// The sender gets no error, as on Linux.
#[test]
fn a_neighbour_that_did_not_answer_is_looked_for_again_by_the_next_datagram() {
    use tickwire_stack::path::{PathInfo, PathState, Query};
    // Not the peer of the other tests.
    let absent = Address::v4([10, 0, 0, 77]);
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"bound now", 0, Some((absent, 9))).unwrap();
    lane()
        .with(|access| {
            let known = access.stack.path_get(&Query::to(absent)).unwrap().info;
            access.stack.path_set(PathInfo { state: PathState::Unreachable, ..known }, access.now);
            Ok(())
        })
        .unwrap();
    assert_eq!(send(fd, b"again", 0, Some((absent, 9))), Ok(5));
    let state = lane().with(|access| Ok(access.stack.path_get(&Query::to(absent)).unwrap().info.state));
    assert_eq!(state, Ok(PathState::Ready), "the service has said so");
    close(fd);
}

/// Level, kind and data of the control messages of a datagram from the peer, with these options
/// set.
fn told_beside(domain: c_int, options: &[(c_int, c_int)]) -> Vec<(c_int, c_int, Vec<u8>)> {
    use crate::sys::ControlBuffer;
    let fd = crate::socket::open::socket(domain, libc::SOCK_DGRAM, 0).unwrap();
    for &(level, option) in options {
        crate::socket::options::set(fd, level, option, &1i32.to_ne_bytes());
    }
    let to = sockaddr::emit(Endpoint::new(THERE, 7), domain == libc::AF_INET6, 0);
    let text = one(b"x".as_ptr().cast(), 1);
    // SAFETY: the text lives on.
    let mut text = unsafe { Buffers::new(text.as_ptr(), 1) }.unwrap();
    let mut extras = Extras { name: to.0, name_len: to.1, ..Extras::default() };
    let name = SocketName::parse(&to.0[..to.1]);
    assert_eq!(ops::send(fd, &mut text, 0, Some(name), &mut extras), Ok(1));
    let mut place = [0u64; 32];
    let mut data = [0u8; 8];
    let iov = one(data.as_mut_ptr().cast(), 8);
    // SAFETY: the data lives on.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }.unwrap();
    // SAFETY: the place lives on.
    let control = unsafe { ControlBuffer::new(place.as_mut_ptr().cast(), size_of_val(&place)) };
    let mut extras = Extras { control: Some(control), ..Extras::default() };
    assert_eq!(ops::receive(fd, &mut buffers, 0, &mut extras), Ok(1));
    let written = extras.control.as_ref().unwrap().len();
    // SAFETY: what was just written.
    let written = unsafe { ControlBuffer::new(place.as_mut_ptr().cast(), written) };
    let mut seen = Vec::new();
    written.each(|level, kind, data| seen.push((level, kind, data.to_vec())));
    close(fd);
    seen
}

#[test]
fn control_messages_tell_destination_and_hops() {
    let asked = [libc::IP_PKTINFO, libc::IP_RECVTTL, libc::IP_RECVTOS].map(|option| (libc::IPPROTO_IP, option));
    let seen = told_beside(libc::AF_INET, &asked);
    let kinds: Vec<_> = seen.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [libc::IP_PKTINFO, libc::IP_TTL, libc::IP_TOS]);
    assert_eq!(seen[0].2[8..12], [10, 99, 0, 1]);
    assert_eq!(seen[1].2, 64i32.to_ne_bytes());
}

#[test]
fn each_option_tells_of_the_datagrams_of_its_own_family() {
    let v4 = |option| (libc::IPPROTO_IP, option);
    let v6 = |option| (libc::IPPROTO_IPV6, option);
    let kinds = |options: &[(c_int, c_int)]| {
        told_beside(libc::AF_INET6, options).into_iter().map(|(level, kind, _)| (level, kind)).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&[v4(libc::IP_PKTINFO)]), [v4(libc::IP_PKTINFO)]);
    assert_eq!(kinds(&[v6(libc::IPV6_RECVPKTINFO)]), [v6(libc::IPV6_PKTINFO)], "mapped");
    let both = [v4(libc::IP_PKTINFO), v6(libc::IPV6_RECVPKTINFO)];
    assert_eq!(kinds(&both), [v6(libc::IPV6_PKTINFO), v4(libc::IP_PKTINFO)]);
    assert_eq!(kinds(&[v6(libc::IPV6_RECVHOPLIMIT), v6(libc::IPV6_RECVTCLASS)]), []);
    assert_eq!(kinds(&[v4(libc::IP_RECVTTL), v4(libc::IP_RECVTOS)]), [v4(libc::IP_TTL), v4(libc::IP_TOS)]);
}

#[test]
fn how_many_datagrams_were_lost_is_told_with_those_that_were_queued_after_them() {
    use crate::sys::ControlBuffer;
    let fd = socket(libc::SOCK_DGRAM);
    let set = |name, value: i32| {
        sys::set_option(fd, libc::SOL_SOCKET, name, &value).unwrap();
        crate::socket::options::set(fd, libc::SOL_SOCKET, name, &value.to_ne_bytes());
    };
    set(libc::SO_RXQ_OVFL, 1);
    set(libc::SO_RCVBUF, 0);
    let drops = || {
        let (mut place, mut data) = ([0u64; 8], [0u8; 8]);
        let iov = one(data.as_mut_ptr().cast(), 8);
        // SAFETY: the data lives on.
        let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }.unwrap();
        // SAFETY: the place lives on.
        let control = unsafe { ControlBuffer::new(place.as_mut_ptr().cast(), size_of_val(&place)) };
        let mut extras = Extras { control: Some(control), ..Extras::default() };
        ops::receive(fd, &mut buffers, libc::MSG_DONTWAIT, &mut extras).ok()?;
        let written = extras.control.as_ref().unwrap().len();
        // SAFETY: what was just written.
        let written = unsafe { ControlBuffer::new(place.as_mut_ptr().cast(), written) };
        let mut told = 0;
        written.each(|level, kind, data| {
            assert_eq!((level, kind), (libc::SOL_SOCKET, libc::SO_RXQ_OVFL));
            told = u32::from_ne_bytes(data.try_into().unwrap());
        });
        Some(told)
    };
    let sent = 40;
    (0..sent).for_each(|_| assert_eq!(send(fd, b"x", 0, Some((THERE, 7))), Ok(1)));
    let kept: Vec<u32> = std::iter::from_fn(drops).collect();
    assert!((1..sent).contains(&kept.len()) && kept.iter().all(|&drops| drops == 0), "{kept:?}");
    send(fd, b"x", 0, Some((THERE, 7))).unwrap();
    assert_eq!(drops(), Some((sent - kept.len()) as u32));
    close(fd);
}

#[test]
fn large_datagrams_are_fragmented_and_put_together() {
    let fd = socket(libc::SOCK_DGRAM);
    let data: Vec<u8> = (0..60_000u32).map(|i| i as u8).collect();
    assert_eq!(send(fd, &data, 0, Some((THERE, 7))), Ok(data.len()));
    assert_eq!(receive(fd, 65_536, 0), Ok(data));
    let too_long = vec![0; 65_508];
    assert_eq!(send(fd, &too_long, 0, Some((THERE, 7))), Err(Errno(libc::EMSGSIZE)));
    close(fd);
}

#[test]
fn a_receive_timeout_ends_the_wait() {
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    let timeval = [0i64.to_ne_bytes(), 30_000i64.to_ne_bytes()].concat();
    crate::socket::options::set(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeval);
    let begin = std::time::Instant::now();
    assert_eq!(receive(fd, 10, 0), Err(Errno(libc::EAGAIN)));
    assert!(begin.elapsed().as_millis() >= 30);
    close(fd);
}

#[test]
fn a_duplicate_keeps_the_socket_open() {
    let fd = socket(libc::SOCK_DGRAM);
    let copy = sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3).unwrap();
    open::duplicated(fd, copy);
    close(fd);
    send(copy, b"still", 0, Some((THERE, 7))).unwrap();
    assert_eq!(receive(copy, 10, 0), Ok(b"still".to_vec()));
    close(copy);
    assert_eq!(crate::table::fd::TABLE.get(copy), crate::table::fd::Entry::Foreign);
}

/// RFC 1122 §4.1.3.3: an error ends a waiting receive, once; that of another socket continues.
#[test]
fn an_error_ends_a_receive_that_waits() {
    let [fd, other] = [0; 2].map(|_| socket(libc::SOCK_DGRAM));
    let timeout = [0i64.to_ne_bytes(), 400_000i64.to_ne_bytes()].concat();
    for fd in [fd, other] {
        crate::socket::options::set(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout);
        ops::connect(fd, &address(THERE, 7)).unwrap();
        send(fd, b"mute", 0, None).unwrap();
    }
    let [reader, undisturbed] = [fd, other].map(|fd| std::thread::spawn(move || receive(fd, 10, 0)));
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!reader.is_finished());
    send(fd, b"refuse", 0, None).unwrap();
    assert_eq!(reader.join().unwrap(), Err(Errno(libc::ECONNREFUSED)));
    assert_eq!(receive(fd, 10, 0), Err(Errno(libc::EAGAIN)), "told once");
    assert_eq!(undisturbed.join().unwrap(), Err(Errno(libc::EAGAIN)));
    [fd, other].into_iter().for_each(close);
}

/// Connects a bound socket on the lane only: the peer is not reachable from this machine's
/// addresses.
fn connect_on_lane(fd: c_int) {
    lane().reach_from_own(&tickwire_stack::path::Query::to(THERE)).unwrap();
    lane()
        .with(|access| {
            let index = TABLE.get(fd).description().unwrap();
            let id = access.descriptions().get(index).socket().try_into()?;
            access.stack.udp_connect(id, access.now, Some(Endpoint::new(THERE, 7)), 0)?;
            access.descriptions().get(index).set(flag::CONNECTED, true);
            Ok(())
        })
        .unwrap();
}

/// Independent of the kernel socket's route, which learns nothing of the lane's datagrams.
#[test]
fn the_largest_packet_is_told_of_a_connected_socket() {
    use crate::socket::options;
    let fd = socket(libc::SOCK_DGRAM);
    let told = |level, name| options::get(fd, level, name).unwrap().map(|(bytes, _)| bytes);
    assert_eq!(told(libc::IPPROTO_IP, libc::IP_MTU), None, "the kernel knows the error");
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    assert_eq!(told(libc::IPPROTO_IP, libc::IP_MTU), None);
    connect_on_lane(fd);
    assert_eq!(told(libc::IPPROTO_IP, libc::IP_MTU), Some(1500u32.to_ne_bytes().to_vec()));
    assert_eq!(told(libc::IPPROTO_IPV6, libc::IPV6_MTU), None, "it is none of IPv6");
    close(fd);
}

/// A datagram whose name the kernel refuses is not sent, not even to the connected peer.
#[test]
fn a_name_that_is_no_address_is_refused_as_the_kernel_does_it() {
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    connect_on_lane(fd);
    let to_name = |name: &[u8]| {
        // SAFETY: data and name are as long as said.
        let sent = unsafe {
            data::sendto(fd, c"x".as_ptr().cast(), 1, 0, name.as_ptr().cast(), name.len() as libc::socklen_t)
        };
        if sent < 0 { errno::get() } else { 0 }
    };
    let with_name = |name: &[u8]| {
        let mut part = one(c"x".as_ptr().cast(), 1);
        // SAFETY: all zero is a message of nothing.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        (message.msg_name, message.msg_namelen) = (name.as_ptr().cast_mut().cast(), name.len() as libc::socklen_t);
        (message.msg_iov, message.msg_iovlen) = (part.as_mut_ptr(), 1);
        // SAFETY: data and name are as long as said.
        let sent = unsafe { data::sendmsg(fd, &raw const message, 0) };
        if sent < 0 { errno::get() } else { 0 }
    };
    let (there, mut foreign) = (address(THERE, 7), address(THERE, 7));
    foreign[..2].copy_from_slice(&255u16.to_ne_bytes());
    for name in [&there[..1], &there[..8], &there[..15]] {
        assert_eq!((to_name(name), with_name(name)), (libc::EINVAL, libc::EINVAL), "{name:?}");
    }
    assert_eq!((to_name(&foreign), with_name(&foreign)), (libc::EAFNOSUPPORT, libc::EAFNOSUPPORT));
    assert_eq!(to_name(&[]), libc::EINVAL);
    assert_eq!(receive(fd, 100, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)), "nothing was sent");
    assert_eq!((with_name(&[]), to_name(&there)), (0, 0), "no name at all in a message");
    assert_eq!(receive(fd, 100, 0), Ok(b"x".to_vec()), "by the lane");
    assert_eq!(receive(fd, 100, 0), Ok(b"x".to_vec()));
    close(fd);
}

/// For an IPv4 socket no family means IPv4 (`udp_sendmsg`).
#[test]
fn an_address_without_a_family_is_one_of_ipv4() {
    let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut name = address(Address::v4([127, 0, 0, 1]), theirs.local_addr().unwrap().port());
    name[..2].copy_from_slice(&(libc::AF_UNSPEC as u16).to_ne_bytes());
    let fd = socket(libc::SOCK_DGRAM);
    // SAFETY: data and name are as long as said.
    let sent = unsafe { data::sendto(fd, c"x".as_ptr().cast(), 1, 0, name.as_ptr().cast(), 16) };
    assert_eq!(sent, 1);
    assert_eq!(theirs.recv(&mut [0; 8]).unwrap(), 1);
    close(fd);
}
