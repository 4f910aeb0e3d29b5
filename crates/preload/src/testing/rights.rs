use super::*;
use crate::base::errno::{self, Errno};
use crate::c::data;
use crate::table::fd::{Entry, TABLE};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Passes a descriptor over a Unix socket as programs do.
fn pass(over: &UnixStream, fd: c_int) -> Result<()> {
    let iov = one(c"x".as_ptr().cast(), 1);
    let mut place = [0u64; 4];
    // SAFETY: pure arithmetic; the message and what it points to are ours.
    let sent = unsafe {
        let mut control = sys::Control::new(place.as_mut_ptr().cast(), size_of_val(&place));
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
        // Again, as what it is now.
        assert_eq!(pass(&here, fd), Ok(()));
    }
    assert_eq!(sys::fcntl(listener, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK, 0);
    [listener, datagrams, fresh].into_iter().for_each(close);
}

#[test]
fn a_connection_is_not_passed_and_works_on() {
    let (here, there) = UnixStream::pair().unwrap();
    let fd = connected(7);
    assert_eq!(pass(&here, fd), Err(Errno(libc::EOPNOTSUPP)));
    there.set_nonblocking(true).unwrap();
    assert!(std::io::Read::read(&mut &there, &mut [0]).is_err(), "nothing was sent");
    assert_eq!(send(fd, b"hello", 0, None), Ok(5));
    assert_eq!(receive(fd, 5, libc::MSG_WAITALL), Ok(b"hello".to_vec()));
    close(fd);
    assert_eq!(pass(&here, here.as_raw_fd()), Ok(()));
}
