use super::*;
use crate::exports::data;
use crate::sys::errno::{self, Errno};
use crate::table::fd::{Entry, TABLE};
use std::fs::File;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use tickwire_stack::tcp::Leaving;
use tickwire_stack::time::Span;

/// Passes a descriptor over a Unix socket as programs do.
fn pass(over: &UnixStream, fd: c_int) -> Result<()> {
    let iov = one(c"x".as_ptr().cast(), 1);
    let mut place = [0u64; 4];
    // SAFETY: pure arithmetic; the message and what it points to are ours.
    let sent = unsafe {
        let mut control = sys::ControlBuffer::new(place.as_mut_ptr().cast(), size_of_val(&place));
        assert!(control.push(libc::SOL_SOCKET, libc::SCM_RIGHTS, &fd.to_ne_bytes()));
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = iov.as_ptr().cast_mut();
        message.msg_iovlen = 1;
        message.msg_control = place.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_LEN(4) as _;
        data::sendmsg(over.as_raw_fd(), &raw const message, 0)
    };
    if sent == 1 { Ok(()) } else { Err(Errno(errno::get())) }
}

#[test]
fn listeners_and_datagram_sockets_are_the_kernels_before_they_are_passed() {
    let (here, _there) = UnixStream::pair().unwrap();
    let listener = socket(libc::SOCK_STREAM);
    ops::bind(listener, &address(Address::ANY_V4, 0)).unwrap();
    ops::listen(listener, 8).unwrap();
    let datagrams = socket(libc::SOCK_DGRAM);
    ops::bind(datagrams, &address(Address::ANY_V4, 0)).unwrap();
    let fresh = socket(libc::SOCK_STREAM);
    for fd in [listener, datagrams, fresh] {
        assert!(TABLE.get(fd).is_socket());
        assert_eq!(pass(&here, fd), Ok(()));
        assert!(matches!(TABLE.get(fd), Entry::Kernel(_)), "{:?}", TABLE.get(fd));
        // Again, as the kernel socket that it is now.
        assert_eq!(pass(&here, fd), Ok(()));
    }
    assert_eq!(sys::fcntl(listener, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK, 0);
    [listener, datagrams, fresh].into_iter().for_each(close);
}

/// Two connected kernel sockets.
fn kernels() -> (TcpStream, TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

/// Checks that it echoes.
fn works(fd: c_int) {
    assert_eq!(send(fd, b"hello", 0, None), Ok(5));
    assert_eq!(receive(fd, 5, libc::MSG_WAITALL), Ok(b"hello".to_vec()));
}

#[test]
fn a_connection_that_the_service_refuses_is_not_passed_and_works_on() {
    let (here, there) = UnixStream::pair().unwrap();
    let fd = connected(7);
    assert_eq!(service::taking_over(|_, _| None, || pass(&here, fd)), Err(Errno(libc::EOPNOTSUPP)));
    there.set_nonblocking(true).unwrap();
    assert!(std::io::Read::read(&mut &there, &mut [0]).is_err(), "nothing was sent");
    works(fd);
    // It may be tried again.
    assert_eq!(service::taking_over(|_, _| None, || pass(&here, fd)), Err(Errno(libc::EOPNOTSUPP)));
    works(fd);
    close(fd);
    assert_eq!(pass(&here, here.as_raw_fd()), Ok(()));
}

#[test]
fn a_connection_that_another_process_has_too_is_not_passed_and_works_on() {
    let (here, _there) = UnixStream::pair().unwrap();
    let fd = connected(7);
    let index = TABLE.get(fd).description().unwrap();
    let other = |has: bool| {
        let done = lane().with(|access| {
            let bit = 1 << (access.slot + 1);
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            *description.holders() = if has { *description.holders() | bit } else { *description.holders() & !bit };
            Ok(())
        });
        done.unwrap();
    };
    other(true);
    let asked = || service::taking_over(|_, _| panic!("it was asked"), || pass(&here, fd));
    assert_eq!(asked(), Err(Errno(libc::EOPNOTSUPP)));
    other(false);
    works(fd);
    close(fd);
}

#[test]
fn all_descriptors_of_a_connection_that_is_taken_over_are_the_kernels() {
    use std::io::{Read, Write};
    let (here, there) = UnixStream::pair().unwrap();
    let (ours, mut peer) = kernels();
    let fd = connected(7);
    assert_eq!(send(fd, b"unread", 0, None), Ok(6));
    assert_eq!(receive(fd, 6, libc::MSG_PEEK | libc::MSG_WAITALL), Ok(b"unread".to_vec()));
    sys::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC).unwrap();
    let copy = sys::fcntl(fd, libc::F_DUPFD, 0).unwrap();
    open::duplicated(fd, copy);
    crate::socket::options::program_sets(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32.to_ne_bytes(), || {
        sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)
    })
    .unwrap();
    crate::socket::descriptor::set_flags(fd, libc::O_NONBLOCK).unwrap();
    let mut given = Some(OwnedFd::from(ours));
    let takes = move |state: &Leaving, file: &File| {
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((state.unread, state.in_flight, state.unsent, &bytes), (6, 0, 0, b"unread"));
        given.take()
    };
    assert_eq!(service::taking_over(takes, || pass(&here, fd)), Ok(()));
    assert_ne!(sys::fcntl(copy, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK, 0);
    assert_eq!(sys::fcntl(copy, libc::F_SETFL, 0), Ok(0));
    for fd in [fd, copy] {
        assert!(matches!(TABLE.get(fd), Entry::Kernel(_)), "{:?}", TABLE.get(fd));
        assert_eq!(sys::option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(1));
        peer.write_all(b"x").unwrap();
        assert_eq!(receive(fd, 1, 0), Ok(b"x".to_vec()));
        assert_eq!(send(fd, b"y", 0, None), Ok(1));
        peer.read_exact(&mut [0]).unwrap();
    }
    assert_eq!([fd, copy].map(|fd| sys::fcntl(fd, libc::F_GETFD, 0).unwrap()), [libc::FD_CLOEXEC, 0]);
    assert_eq!(pass(&here, fd), Ok(()), "again, as what it is now");
    [fd, copy].into_iter().for_each(close);
    // The passed descriptor is in flight.
    drop((here, there));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0, "no other process has it");
}

#[test]
fn what_an_instance_has_told_once_of_a_connection_it_does_not_tell_again_when_that_is_taken_over() {
    use crate::wait::epoll;
    use std::io::Write;
    const ONCE: u32 = libc::EPOLLIN as u32 | libc::EPOLLONESHOT as u32;
    let (here, _there) = UnixStream::pair().unwrap();
    let (ours, mut peer) = kernels();
    let fd = connected(7);
    let epfd = sys::epoll_create(0).unwrap();
    let ready = || {
        let Entry::Epoll(index) = TABLE.get(epfd) else { panic!("an instance with a set") };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        crate::wait::epoll_wait::wait(epfd, index, &mut events, Some(Span::from_millis(20)), None).unwrap()
    };
    epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, ONCE, 1).unwrap();
    assert_eq!(send(fd, b"unread", 0, None), Ok(6));
    assert_eq!(receive(fd, 6, libc::MSG_WAITALL), Ok(b"unread".to_vec()));
    assert_eq!(send(fd, b"more", 0, None), Ok(4));
    while ready() == 0 {}
    let mut given = Some(OwnedFd::from(ours));
    assert_eq!(service::taking_over(move |_: &Leaving, _: &File| given.take(), || pass(&here, fd)), Ok(()));
    peer.write_all(b"x").unwrap();
    assert_eq!(ready(), 0, "it was told");
    sys::epoll_ctl(epfd, libc::EPOLL_CTL_MOD, fd, ONCE, 1).unwrap();
    assert_eq!(ready(), 1);
    [fd, epfd].into_iter().for_each(close);
}

#[test]
fn a_connection_may_be_shut_or_closed_while_it_is_handed_over() {
    use std::io::Read;
    for closed in [false, true] {
        let (here, _there) = UnixStream::pair().unwrap();
        let (ours, mut peer) = kernels();
        let fd = connected(7);
        let mut given = Some(OwnedFd::from(ours));
        let (closes, closing) = std::sync::mpsc::channel();
        let takes = move |_: &Leaving, _: &File| {
            if closed {
                // Not on this thread, which would answer if that sent the service a request.
                closes.send(std::thread::spawn(move || close(fd))).unwrap();
                while TABLE.get(fd).description().is_some() {
                    std::thread::yield_now();
                }
            } else {
                ops::shutdown(fd, libc::SHUT_WR).unwrap();
            }
            given.take()
        };
        let passed = service::taking_over(takes, || pass(&here, fd));
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the kernel's has heard of it");
        if closed {
            closing.recv().unwrap().join().unwrap();
            let fd = connected(7);
            works(fd);
            close(fd);
        } else {
            assert_eq!(passed, Ok(()));
            assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::EPIPE)));
            close(fd);
        }
    }
}
