//! Actions of other threads on a socket while a call on it waits for the service, or `connect` for
//! the peer.

use super::service;
use super::*;
use crate::sys::errno::Errno;
use crate::table::desc::flag;
use crate::table::fd::TABLE;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The result of a call on a socket, on which `work` is done while it is being claimed, and whether
/// it is claimed afterwards.
fn during(fd: c_int, call: impl FnOnce() -> Result<()> + Send, work: impl FnOnce()) -> (Result<()>, bool) {
    let hold = service::hold(fd);
    let said = std::thread::scope(|scope| {
        let calling = scope.spawn(call);
        hold.meanwhile(work);
        calling.join().unwrap()
    });
    (said, hold.claimed())
}

fn connecting(fd: c_int, work: impl FnOnce()) -> (Result<()>, bool) {
    during(fd, || ops::connect(fd, &address(THERE, 7)), work)
}

/// Whether new sockets are fresh, and each has its own description.
fn new_sockets_are_their_own() -> bool {
    let fds = [(); 8].map(|()| socket(libc::SOCK_STREAM));
    let mut indices = fds.map(|fd| TABLE.get(fd).description().unwrap());
    indices.sort_unstable();
    let fresh = |&fd: &c_int| receive(fd, 1, libc::MSG_DONTWAIT) == Err(Errno(libc::ENOTCONN));
    let own = indices.windows(2).all(|pair| pair[0] != pair[1]) && fds.iter().all(fresh);
    fds.into_iter().for_each(close);
    own
}

#[test]
fn a_socket_that_is_shut_while_its_flow_is_claimed_is_connected_by_the_kernel() {
    let fd = socket(libc::SOCK_STREAM);
    let (said, claimed) = connecting(fd, || {
        assert_eq!(ops::shutdown(fd, libc::SHUT_RDWR), Err(Errno(libc::ENOTCONN)));
    });
    // The kernel does not have our address on the lane, or has no route there.
    assert!(matches!(said, Err(Errno(libc::EINVAL | libc::ENETUNREACH))), "{said:?}");
    assert!(!claimed);
    assert!(!TABLE.get(fd).is_socket());
    assert!(new_sockets_are_their_own());
    close(fd);
}

#[test]
fn a_socket_that_is_closed_while_its_flow_is_claimed_is_not_connected() {
    let fd = socket(libc::SOCK_STREAM);
    assert_eq!(connecting(fd, || close(fd)), (Err(Errno(libc::EBADF)), false));
    assert!(new_sockets_are_their_own());
}

#[test]
fn a_socket_in_the_place_of_the_one_whose_flow_is_claimed_is_not_connected() {
    let (fd, other) = (socket(libc::SOCK_STREAM), socket(libc::SOCK_STREAM));
    let answer = connecting(fd, || {
        // SAFETY: plain numbers.
        assert_eq!(unsafe { crate::exports::descriptor::dup2(other, fd) }, fd);
    });
    assert_eq!(answer, (Err(Errno(libc::EBADF)), false));
    assert_eq!(receive(fd, 1, libc::MSG_DONTWAIT), Err(Errno(libc::ENOTCONN)));
    assert!(new_sockets_are_their_own());
    [fd, other].into_iter().for_each(close);
}

#[test]
fn of_two_threads_that_connect_a_socket_one_does() {
    let fd = socket(libc::SOCK_STREAM);
    let (said, claimed) = connecting(fd, || {
        // The service grants claims in order: as if the other's had been granted first.
        let begun = lane().with(|access| {
            let (local, remote) = (Endpoint::new(HERE, 999), Endpoint::new(THERE, 9));
            let options = access.stack.tcp_defaults();
            let id = access.stack.tcp_connect(&options, local, remote, access.now)?;
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(TABLE.get(fd).description().unwrap());
            description.set_socket(id.into());
            description.set(flag::STARTED | flag::CONNECTING, true);
            Ok(())
        });
        begun.unwrap();
    });
    assert_eq!((said, claimed), (Ok(()), false), "it waits for what the other has begun");
    let (bytes, len) = ops::socket_name(fd, true).unwrap().unwrap();
    assert_eq!(bytes[..len], address(THERE, 9));
    close(fd);
}

#[test]
fn a_socket_that_is_shut_or_closed_while_its_port_is_claimed_does_not_listen() {
    let bound = || {
        let fd = socket(libc::SOCK_STREAM);
        ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
        fd
    };
    let fd = bound();
    let shut = || ops::shutdown(fd, libc::SHUT_RD).unwrap();
    assert_eq!(during(fd, || ops::listen(fd, 8), shut), (Ok(()), false));
    assert_eq!(sys::fcntl(fd, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK, 0);
    assert_eq!(ops::accept(fd, 0).err(), Some(Errno(libc::EINVAL)));
    close(fd);

    let fd = bound();
    // The kernel's own `listen` has succeeded by then.
    assert_eq!(during(fd, || ops::listen(fd, 8), || close(fd)), (Ok(()), false));
    assert!(new_sockets_are_their_own());
}

#[test]
fn a_listener_that_is_shut_has_the_mode_that_the_program_has_set() {
    let fd = socket(libc::SOCK_STREAM);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    ops::listen(fd, 8).unwrap();
    assert_ne!(sys::fcntl(fd, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK, 0, "behind the program's back");
    ops::shutdown(fd, libc::SHUT_RD).unwrap();
    assert_eq!(sys::fcntl(fd, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK, 0);
    close(fd);
}

#[test]
fn a_datagram_socket_that_is_closed_while_its_port_is_claimed_is_not_claimed() {
    let fd = socket(libc::SOCK_DGRAM);
    let bind = || ops::bind(fd, &address(Address::ANY_V4, 0));
    assert_eq!(during(fd, bind, || close(fd)), (Err(Errno(libc::EBADF)), false));
    assert!(new_sockets_are_their_own());
}

#[test]
fn of_two_threads_that_send_first_by_a_datagram_socket_one_claims_its_port() {
    let fd = socket(libc::SOCK_DGRAM);
    let send = || send(fd, b"x", 0, Some((THERE, 7))).map(drop);
    let answer = during(fd, send, || {
        // The service grants claims in order: as if the other's had been granted first.
        let index = TABLE.get(fd).description().unwrap();
        let claimed = lane().with(|access| {
            access.descriptions().get(index).set(flag::CLAIMED, true);
            Ok(())
        });
        claimed.unwrap();
    });
    assert_eq!(answer, (Ok(()), false));
    assert_eq!(receive(fd, 1, 0), Ok(b"x".to_vec()));
    close(fd);
}

/// The result of a `connect` to a silent peer on a socket, on which `work` is done while the call
/// sleeps.
fn sleeping(fd: c_int, work: impl FnOnce()) -> Result<()> {
    let asleep = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            asleep.store(sys::thread(), SeqCst);
            ops::connect(fd, &address(THERE, 13))
        });
        // It also sleeps until the service has answered.
        while lane().asleep() == 0 || !is_connecting(fd) {
            std::thread::yield_now();
        }
        until_it_sleeps(&asleep, || connecting.is_finished());
        work();
        connecting.join().unwrap()
    })
}

fn is_connecting(fd: c_int) -> bool {
    let index = TABLE.get(fd).description().unwrap();
    lane().with(|access| Ok(access.descriptions().get(index).has(flag::CONNECTING))).unwrap()
}

/// A name without a family.
const NOWHERE: [u8; 16] = [0; 16];

fn echoes(fd: c_int) -> bool {
    send(fd, b"anew", 0, None) == Ok(4) && receive(fd, 4, libc::MSG_WAITALL) == Ok(b"anew".to_vec())
}

/// As on Linux.
#[test]
fn an_attempt_that_another_thread_ends_fails_and_the_next_is_not_touched() {
    let fd = socket(libc::SOCK_STREAM);
    let shut = sleeping(fd, || ops::shutdown(fd, libc::SHUT_RDWR).unwrap());
    assert_eq!(shut, Err(Errno(libc::ECONNRESET)));

    let anew = sleeping(fd, || {
        ops::shutdown(fd, libc::SHUT_RDWR).unwrap();
        ops::connect(fd, &address(THERE, 7)).unwrap();
    });
    assert_eq!(anew, Err(Errno(libc::ECONNRESET)));
    assert!(echoes(fd));
    close(fd);

    let fd = socket(libc::SOCK_STREAM);
    let taken_back = sleeping(fd, || ops::connect(fd, &NOWHERE).unwrap());
    assert_eq!(taken_back, Err(Errno(libc::EPIPE)));
    let anew = sleeping(fd, || {
        ops::connect(fd, &NOWHERE).unwrap();
        ops::connect(fd, &address(THERE, 7)).unwrap();
    });
    assert_eq!(anew, Err(Errno(libc::EPIPE)));
    assert!(echoes(fd));
    close(fd);
}

/// On Linux it would wait until the orphaned socket is connected.
#[test]
fn an_attempt_whose_socket_is_closed_ends() {
    let fd = socket(libc::SOCK_STREAM);
    assert_eq!(sleeping(fd, || close(fd)), Err(Errno(libc::EBADF)));
}
