//! What other threads do with a socket while its `connect` or `listen` waits for the service.

use super::service;
use super::*;
use crate::base::errno::Errno;
use crate::table::desc::flag;
use crate::table::fd::TABLE;

/// What a call says of a socket with which `work` is done while it is claimed, and whether it is claimed afterwards.
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

/// Whether new sockets are fresh, and none is another.
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
    // The kernel has no such address as ours on the lane, or no way there.
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
        assert_eq!(unsafe { crate::c::descriptor::dup2(other, fd) }, fd);
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
        // Claims come one after the other: as if the other's had been granted first.
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
    assert_eq!(during(fd, || ops::listen(fd, 8), || close(fd)), (Err(Errno(libc::EBADF)), false));
    assert!(new_sockets_are_their_own());
}
