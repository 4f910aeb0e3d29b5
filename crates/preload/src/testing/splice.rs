use super::*;
use crate::exports::splice::splice;
use crate::sys::errno::{self, Errno};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;

/// As a program calls it.
fn spliced(from: c_int, to: c_int, len: usize, flags: u32) -> Result<usize> {
    let none = core::ptr::null_mut();
    // SAFETY: plain numbers, and no offsets.
    let moved = unsafe { splice(from, none, to, none, len, flags) };
    usize::try_from(moved).map_err(|_| Errno(errno::get()))
}

fn pipe() -> (PipeReader, PipeWriter) {
    std::io::pipe().unwrap()
}

#[test]
fn bytes_go_from_a_pipe_into_a_connection_and_back_into_a_pipe() {
    let fd = connected(7);
    let ((from, mut source), (mut sink, to)) = (pipe(), pipe());
    let data: Vec<u8> = (0..50_000u32).map(|i| (i * 7) as u8).collect();
    source.write_all(&data).unwrap();
    let mut sent = 0;
    while sent < data.len() {
        sent += spliced(from.as_raw_fd(), fd, 1 << 20, libc::SPLICE_F_MOVE).unwrap();
    }
    let mut back = Vec::new();
    while back.len() < data.len() {
        let n = spliced(fd, to.as_raw_fd(), 1 << 20, libc::SPLICE_F_MOVE).unwrap();
        assert!(n > 0, "the stream has not ended");
        let begin = back.len();
        back.resize(begin + n, 0);
        sink.read_exact(&mut back[begin..]).unwrap();
    }
    assert!(back == data);
    drop(source);
    assert_eq!(spliced(from.as_raw_fd(), fd, 10, 0), Ok(0), "the end of the pipe");
    ops::shutdown(fd, libc::SHUT_WR).unwrap();
    assert_eq!(spliced(fd, to.as_raw_fd(), 10, 0), Ok(0), "the end of the stream");
    close(fd);
}

#[test]
fn what_a_pipe_has_no_room_for_stays_in_the_connection() {
    let fd = connected(7);
    let (mut sink, mut to) = pipe();
    sys::fcntl(to.as_raw_fd(), libc::F_SETPIPE_SZ, 4096).unwrap();
    to.write_all(&[0; 4096]).unwrap();
    send(fd, &[1; 6000], 0, None).unwrap();
    while receive(fd, 6000, libc::MSG_PEEK).unwrap().len() < 6000 {}
    assert_eq!(spliced(fd, to.as_raw_fd(), 6000, libc::SPLICE_F_NONBLOCK), Err(Errno(libc::EAGAIN)));
    sink.read_exact(&mut [0; 4096]).unwrap();
    assert_eq!(spliced(fd, to.as_raw_fd(), 6000, libc::SPLICE_F_NONBLOCK), Ok(4096));
    assert_eq!(receive(fd, 6000, 0), Ok(vec![1; 1904]));
    close(fd);
}

#[test]
fn what_a_connection_has_no_room_for_stays_in_the_pipe() {
    // The peer does not read on that port.
    let fd = connected(9);
    crate::socket::options::set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &10_000i32.to_ne_bytes());
    let (mut from, mut source) = pipe();
    let mut taken = 0usize;
    let rest = loop {
        source.write_all(&[3; 30_000]).unwrap();
        match spliced(from.as_raw_fd(), fd, 30_000, libc::SPLICE_F_NONBLOCK) {
            Ok(30_000) => taken += 30_000,
            Ok(n) => break 30_000 - n,
            Err(error) => {
                assert_eq!(error, Errno(libc::EAGAIN));
                break 30_000;
            }
        }
        assert!(taken < 1 << 30, "a socket takes only so much");
    };
    drop(source);
    let mut left = Vec::new();
    from.read_to_end(&mut left).unwrap();
    assert_eq!(left, vec![3; rest]);
    close(fd);
}

#[test]
fn what_cannot_be_spliced_is_told_as_linux_does() {
    let (stream, datagrams) = (connected(7), socket(libc::SOCK_DGRAM));
    let (from, to) = pipe();
    assert_eq!(spliced(stream, datagrams, 10, 0), Err(Errno(libc::EINVAL)));
    assert_eq!(spliced(datagrams, to.as_raw_fd(), 10, 0), Err(Errno(libc::EINVAL)));
    assert_eq!(spliced(from.as_raw_fd(), stream, 0, 0), Ok(0));
    assert_eq!(spliced(from.as_raw_fd(), stream, 10, libc::SPLICE_F_NONBLOCK), Err(Errno(libc::EAGAIN)));
    let none = core::ptr::null_mut();
    for (of_pipe, of_stream, error) in [(true, false, libc::ESPIPE), (false, true, libc::EINVAL)] {
        let mut offset = 0;
        let offset = &raw mut offset;
        let place = |given| if given { offset } else { none };
        // SAFETY: the offset is ours.
        let moved = unsafe { splice(from.as_raw_fd(), place(of_pipe), stream, place(of_stream), 10, 0) };
        assert_eq!((moved, errno::get()), (-1, error));
    }
    assert_eq!(spliced(stream, from.as_raw_fd(), 10, 0), Err(Errno(libc::EBADF)), "the end to read from");
    assert_eq!(spliced(to.as_raw_fd(), stream, 10, 0), Err(Errno(libc::EBADF)), "the end to write to");
    assert_eq!(spliced(from.as_raw_fd(), stream, 10, 1 << 6), Err(Errno(libc::EINVAL)), "no such flag");
    [stream, datagrams].into_iter().for_each(close);
}

/// Runs something in another thread as soon as the calling one sleeps.
fn when_this_sleeps<T>(then: impl FnOnce() + Send, call: impl FnOnce() -> T) -> T {
    let this = AtomicU32::new(sys::thread());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until_it_sleeps(&this, || false);
            then();
        });
        call()
    })
}

#[test]
fn a_call_that_may_wait_does_so_for_the_pipe() {
    let fd = connected(7);
    let ((from, mut source), (mut sink, mut to)) = (pipe(), pipe());
    let sent = when_this_sleeps(|| source.write_all(b"some").unwrap(), || spliced(from.as_raw_fd(), fd, 100, 0));
    assert_eq!(sent, Ok(4));
    sys::fcntl(to.as_raw_fd(), libc::F_SETPIPE_SZ, 4096).unwrap();
    to.write_all(&[0; 4096]).unwrap();
    let read = || sink.read_exact(&mut [0; 4096]).unwrap();
    assert_eq!(when_this_sleeps(read, || spliced(fd, to.as_raw_fd(), 100, 0)), Ok(4));
    let mut back = [0; 4];
    sink.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"some");
    sys::fcntl(to.as_raw_fd(), libc::F_SETFL, libc::O_WRONLY | libc::O_NONBLOCK).unwrap();
    to.write_all(&[0; 4096]).unwrap();
    send(fd, b"more", 0, None).unwrap();
    assert_eq!(spliced(fd, to.as_raw_fd(), 100, 0), Err(Errno(libc::EAGAIN)), "the pipe is not to be waited for");
    drop(source);
    assert_eq!(spliced(from.as_raw_fd(), fd, 100, 0), Ok(0));
    close(fd);
}
