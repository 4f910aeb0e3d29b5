//! Calls that wait on a connection that is not open yet (RFC 9293 §3.10.2, §3.10.3: they are queued
//! until it is, or fail with it).

use super::*;
use crate::socket::descriptor;
use crate::sys::errno::Errno;
use crate::table::fd::TABLE;
use crate::wait::poll;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{sleep, spawn};
use std::time::Duration;
use tickwire_stack::time::Span;

/// A connection whose SYN is in flight, and on which calls may wait.
fn opening(port: u16) -> c_int {
    let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    assert_eq!(ops::connect(fd, &address(THERE, port)), Err(Errno(libc::EINPROGRESS)));
    assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::EAGAIN)));
    assert_eq!(receive(fd, 1, 0), Err(Errno(libc::EAGAIN)));
    descriptor::set_nonblocking(fd, false).unwrap();
    fd
}

#[test]
fn what_waits_for_the_connection_goes_on_when_it_is_open() {
    let fd = opening(17);
    let reader = spawn(move || receive(fd, 11, libc::MSG_WAITALL));
    let writer = spawn(move || send(fd, b"Sample Data", 0, None));
    sleep(Duration::from_millis(100));
    assert!(!reader.is_finished() && !writer.is_finished());
    peer::AWAKE[0].store(true, Relaxed);
    assert_eq!(writer.join().unwrap(), Ok(11));
    assert_eq!(reader.join().unwrap(), Ok(b"Sample Data".to_vec()), "the peer's echo");
    close(fd);
}

#[test]
fn what_waits_for_a_connection_that_is_refused_is_told() {
    let [written, read] = [opening(19), opening(19)];
    let writer = spawn(move || send(written, b"Sample Data", 0, None));
    let reader = spawn(move || receive(read, 11, 0));
    sleep(Duration::from_millis(100));
    assert!(!reader.is_finished() && !writer.is_finished());
    peer::AWAKE[1].store(true, Relaxed);
    assert_eq!(writer.join().unwrap(), Err(Errno(libc::ECONNREFUSED)));
    assert_eq!(reader.join().unwrap(), Err(Errno(libc::ECONNREFUSED)));
    [written, read].into_iter().for_each(close);
}

/// As on Linux: it can be made to listen again, or be connected.
#[test]
fn a_listener_that_is_connected_to_nowhere_listens_no_more() {
    let fd = socket(libc::SOCK_STREAM);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    let nowhere = [0u8; 16];
    for _ in 0..3 {
        ops::listen(fd, 8).unwrap();
        let port = sys::socket_name(fd, false).unwrap().port;
        let listens = || sys::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
        assert_eq!(listens(), Ok(1));
        assert_eq!(ops::connect(fd, &nowhere), Ok(()));
        assert_eq!((ops::accept(fd, 0).err(), listens()), (Some(Errno(libc::EINVAL)), Ok(0)));
        assert_eq!(sys::socket_name(fd, false).unwrap().port, port);
    }
    close(fd);
}

/// Otherwise the service would release it when the process is gone and others have the socket.
#[test]
fn a_socket_shows_its_claim_in_its_row() {
    let [listener, datagrams] = [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(socket);
    for fd in [listener, datagrams] {
        ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    }
    ops::listen(listener, 8).unwrap();
    let connection = socket(libc::SOCK_STREAM);
    ops::connect(connection, &address(THERE, 7)).unwrap();
    for fd in [listener, datagrams, connection] {
        let index = TABLE.get(fd).description().unwrap();
        let (claim, shown) = lane()
            .with(|access| {
                let mut descriptions = access.descriptions();
                let mut description = descriptions.get(index);
                let (id, claim) = (description.socket(), *description.claim());
                Ok((claim, access.stack.socket_row(id)?.claim.get()))
            })
            .unwrap();
        assert!(claim != 0 && shown == claim, "{claim} {shown}");
        close(fd);
    }
}

/// As on Linux: it has a name, although the kernel socket of a connection may have none.
#[test]
fn a_connection_is_not_bound_anew() {
    let fd = socket(libc::SOCK_STREAM);
    assert_eq!(ops::connect(fd, &address(THERE, 7)), Ok(()));
    let name = ops::socket_name(fd, false).unwrap();
    assert_eq!(ops::bind(fd, &address(Address::ANY_V4, 0)), Err(Errno(libc::EINVAL)));
    assert_eq!(ops::socket_name(fd, false).unwrap(), name);
    close(fd);
}

fn so_error(fd: c_int) -> i32 {
    let (bytes, _) = crate::socket::options::get(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap().unwrap();
    i32::from_ne_bytes(bytes.try_into().unwrap())
}

/// As on Linux (`inet_shutdown`): another thread can end a thread's wait for a connection.
#[test]
fn an_attempt_that_is_shut_is_over_and_another_may_begin() {
    for how in [libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR] {
        let fd = socket(libc::SOCK_STREAM);
        let connecting = spawn(move || ops::connect(fd, &address(THERE, 13)));
        // The stack knows its name as soon as the SYN is sent.
        while ops::socket_name(fd, false) == Ok(None) {
            std::thread::yield_now();
        }
        assert_eq!(ops::shutdown(fd, how), Ok(()));
        assert_eq!(connecting.join().unwrap(), Err(Errno(libc::ECONNRESET)));
        assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ENOTCONN)));
        assert_eq!(ops::connect(fd, &address(THERE, 7)), Ok(()));
        close(fd);

        let fd = opening(13);
        assert_eq!(ops::socket_name(fd, true), Err(Errno(libc::ENOTCONN)));
        assert_eq!(ops::shutdown(fd, how), Ok(()));
        assert_eq!(ops::socket_name(fd, true), Err(Errno(libc::ENOTCONN)));
        assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ECONNRESET)));
        assert_eq!(ops::connect(fd, &address(THERE, 7)), Ok(()));
        assert_eq!(send(fd, b"x", 0, None), Ok(1));
        close(fd);
    }
}

/// As on Linux, where it is neither connected nor shut down.
#[test]
fn what_is_left_of_an_attempt_that_was_shut_is_as_a_fresh_socket() {
    let told = |fd| {
        let mut fds = [libc::pollfd { fd, events: libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, revents: 0 }];
        poll::poll(&mut fds, Some(Span::ZERO), None).unwrap();
        fds[0].revents
    };
    let given_up = || {
        let fd = opening(13);
        ops::shutdown(fd, libc::SHUT_RDWR).unwrap();
        assert_eq!(told(fd), libc::POLLOUT | libc::POLLERR | libc::POLLHUP);
        fd
    };
    let fresh = libc::POLLOUT | libc::POLLHUP;
    let reset = Err(Errno(libc::ECONNRESET));
    let takes: [fn(c_int) -> Result<()>; 3] = [
        |fd| receive(fd, 1, 0).map(drop),
        |fd| send(fd, b"x", 0, None).map(drop),
        |fd| match so_error(fd) {
            0 => Ok(()),
            error => Err(Errno(error)),
        },
    ];
    for take in takes {
        let fd = given_up();
        assert_eq!((take(fd), told(fd)), (reset, fresh));
        assert_eq!(receive(fd, 1, 0), Err(Errno(libc::ENOTCONN)));
        assert_eq!(send(fd, b"x", 0, None), Err(Errno(libc::EPIPE)));
        assert_eq!(so_error(fd), 0);
        assert_eq!(ops::shutdown(fd, libc::SHUT_RDWR), Err(Errno(libc::ENOTCONN)));
        assert_eq!((told(fd), receive(fd, 1, 0)), (fresh | libc::POLLIN | libc::POLLRDHUP, Ok(vec![])));
        close(fd);
    }
    for take in [false, true] {
        let fd = given_up();
        if take {
            assert_eq!(so_error(fd), libc::ECONNRESET);
        }
        assert_eq!(ops::listen(fd, 8), Ok(()));
        assert_eq!(told(fd), 0);
        descriptor::set_nonblocking(fd, true).unwrap();
        assert_eq!(ops::accept(fd, 0).err(), Some(Errno(libc::EAGAIN)));
        close(fd);
    }
}

/// As on Linux, where the port is in use, but not the address (`__inet_check_established`).
#[test]
fn a_second_connection_between_the_same_ends_is_not_available() {
    let [first, second] = [0; 2].map(|_| socket(libc::SOCK_STREAM));
    let mut port = 0;
    for fd in [first, second] {
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32).unwrap();
        ops::bind(fd, &address(HERE, port)).unwrap();
        port = sys::socket_name(fd, false).unwrap().port;
    }
    assert_eq!(ops::connect(first, &address(THERE, 7)), Ok(()));
    assert_eq!(ops::connect(second, &address(THERE, 7)), Err(Errno(libc::EADDRNOTAVAIL)));
    assert_eq!(ops::connect(second, &address(THERE, 4444)), Err(Errno(libc::ECONNREFUSED)), "another peer");
    [first, second].into_iter().for_each(close);
}
