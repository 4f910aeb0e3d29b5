//! Many messages with one call.

use super::*;
use crate::exports::data::recvmmsg;
use crate::sys::errno::{self, Errno};
use crate::wait::poll;
use libc::{iovec, mmsghdr, timespec};

/// Room for messages of up to 16 bytes.
struct Messages {
    list: Vec<mmsghdr>,
    _parts: (Vec<[u8; 16]>, Vec<iovec>),
}

impl Messages {
    fn new(count: usize) -> Self {
        let mut bytes = vec![[0u8; 16]; count];
        let mut parts: Vec<iovec> = bytes.iter_mut().map(|b| one(b.as_mut_ptr().cast(), b.len())[0]).collect();
        // SAFETY: all zero is a message of nothing.
        let mut list: Vec<mmsghdr> = (0..count).map(|_| unsafe { core::mem::zeroed() }).collect();
        for (message, part) in list.iter_mut().zip(&mut parts) {
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        }
        Self { list, _parts: (bytes, parts) }
    }

    fn receive(&mut self, fd: c_int, flags: c_int, timeout: Option<&mut timespec>) -> Result<usize> {
        let timeout = timeout.map_or(core::ptr::null_mut(), |t| t as *mut _);
        // SAFETY: the messages and all of their parts are ours and live on.
        let got = unsafe { recvmmsg(fd, self.list.as_mut_ptr(), self.list.len() as u32, flags, timeout) };
        usize::try_from(got).map_err(|_| Errno(errno::get()))
    }

    fn lengths(&self, count: usize) -> Vec<u32> {
        self.list[..count].iter().map(|message| message.msg_len).collect()
    }
}

#[test]
fn as_many_as_there_are_come_at_once_and_the_time_that_is_left_is_told() {
    let fd = socket(libc::SOCK_DGRAM);
    for bytes in [&b"1"[..], b"22", b"333"] {
        send(fd, bytes, 0, Some((THERE, 7))).unwrap();
    }
    let mut messages = Messages::new(2);
    let mut left = timespec { tv_sec: 100, tv_nsec: 0 };
    assert_eq!(messages.receive(fd, 0, Some(&mut left)), Ok(2));
    assert_eq!(messages.lengths(2), [1, 2]);
    assert!(left.tv_sec < 100 && left.tv_sec >= 0 && left.tv_nsec > 0, "{} s {} ns", left.tv_sec, left.tv_nsec);
    send(fd, b"4444", 0, Some((THERE, 7))).unwrap();
    let mut none = timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(messages.receive(fd, 0, Some(&mut none)), Ok(1), "the time is looked at after each message");
    assert_eq!((none.tv_sec, none.tv_nsec), (0, 0));
    assert_eq!(messages.receive(fd, libc::MSG_WAITFORONE, None), Ok(1));
    assert_eq!(messages.lengths(1), [4]);
    let mut odd = timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
    assert_eq!(messages.receive(fd, 0, Some(&mut odd)), Err(Errno(libc::EINVAL)));
    assert_eq!(messages.receive(fd, libc::MSG_DONTWAIT, None), Err(Errno(libc::EAGAIN)));
    close(fd);
}

/// The kernel keeps it as the socket's error (`net/socket.c`).
#[test]
fn an_error_after_the_first_message_is_for_the_next_call() {
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"hello", 0, Some((THERE, 7))).unwrap();
    let ready = || {
        let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        poll::poll(&mut fds, Some(tickwire_stack::time::Span::ZERO), None).unwrap();
        fds[0].revents
    };
    assert_eq!(ready(), libc::POLLIN);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while ready() & libc::POLLIN != 0 {
                std::thread::yield_now();
            }
            // Once the first message has been taken, an error is pending, as from an ICMP message.
            ops::keep_error(fd, Errno(libc::ECONNREFUSED));
        });
        let mut messages = Messages::new(2);
        assert_eq!(messages.receive(fd, 0, None), Ok(1));
        assert_eq!(messages.lengths(1), [5]);
    });
    assert_eq!(ready() & libc::POLLERR, libc::POLLERR);
    assert_eq!(receive(fd, 10, libc::MSG_DONTWAIT), Err(Errno(libc::ECONNREFUSED)));
    assert_eq!(receive(fd, 10, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)), "once");
    close(fd);
}
