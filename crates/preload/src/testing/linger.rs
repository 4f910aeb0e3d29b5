//! `SO_LINGER`: how long `close` takes, depending on unacknowledged data (POSIX; the stack's
//! scenarios test what is sent then).

use super::*;
use crate::socket::options;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

fn linger(fd: c_int, seconds: c_int) {
    let value = [1i32.to_ne_bytes(), seconds.to_ne_bytes()].concat();
    sys::set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &value).unwrap();
    options::set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &value);
}

/// How long it takes to close a connection to a port of the peer, after `work` was done with it.
fn closing(port: u16, seconds: Option<c_int>, work: fn(c_int)) -> Duration {
    let fd = connected(port);
    if let Some(seconds) = seconds {
        linger(fd, seconds);
    }
    work(fd);
    let start = Instant::now();
    close(fd);
    start.elapsed()
}

#[test]
fn close_waits_for_what_is_not_acknowledged_as_long_as_it_is_to_linger() {
    let say: fn(c_int) = |fd| assert_eq!(send(fd, b"Sample Data", 0, None), Ok(11));
    let say_and_shut: fn(c_int) = |fd| {
        send(fd, b"Sample Data", 0, None).unwrap();
        ops::shutdown(fd, libc::SHUT_RDWR).unwrap();
    };
    // Segments with data to port 15 are lost, so neither the data nor the end of the stream is
    // acknowledged.
    for work in [say, say_and_shut] {
        let took = closing(15, Some(1), work);
        assert!((SECOND..SECOND + SHORT).contains(&took), "{took:?}");
        for seconds in [None, Some(0)] {
            let took = closing(15, seconds, work);
            assert!(took < SHORT, "{took:?} with {seconds:?}");
        }
    }
    // Data that arrives is acknowledged at once, and there is nothing to wait for.
    for work in [say, say_and_shut, |_| ()] {
        let took = closing(9, Some(30), work);
        assert!(took < SHORT, "{took:?}");
    }
}

/// There is no connection yet, or none any more.
#[test]
fn a_socket_that_is_not_connected_does_not_linger() {
    let close_in_time = |fd| {
        let start = Instant::now();
        close(fd);
        assert!(start.elapsed() < SHORT, "{:?}", start.elapsed());
    };
    let fd = socket(libc::SOCK_STREAM);
    linger(fd, 30);
    close_in_time(fd);

    let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    linger(fd, 30);
    ops::connect(fd, &address(THERE, 13)).unwrap_err();
    close_in_time(fd);

    let fd = socket(libc::SOCK_STREAM);
    linger(fd, 30);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    ops::listen(fd, 8).unwrap();
    close_in_time(fd);
}

/// On Linux its number is free at once. Here the kernel socket, which has no connection, keeps it
/// until the end, and no call may reach that.
#[test]
fn what_is_being_closed_is_closed_for_all_other_threads() {
    use crate::sys::errno::Errno;
    use crate::table::fd::{Entry, TABLE};
    let fd = connected(15);
    linger(fd, 1);
    send(fd, b"Sample Data", 0, None).unwrap();
    let copy = sys::fcntl(fd, libc::F_DUPFD, 0).unwrap();
    open::duplicated(fd, copy);
    close(copy);
    let closing = std::thread::scope(|scope| {
        let closer = scope.spawn(|| close(fd));
        while TABLE.get(fd) != Entry::CLOSING {
            std::thread::yield_now();
        }
        assert_eq!(send(fd, b"more", 0, None), Err(Errno(libc::EBADF)));
        assert_eq!(receive(fd, 8, 0), Err(Errno(libc::EBADF)));
        let mut asked = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        assert_eq!(crate::wait::poll::poll(&mut asked, None, None), Ok(1));
        assert_eq!(asked[0].revents, libc::POLLNVAL);
        assert!(!crate::socket::close::closing(fd), "one closes it");
        !closer.is_finished()
    });
    assert!(closing, "it lingers meanwhile");
    assert_eq!(TABLE.get(fd), Entry::Foreign);
}

/// Whatever the call, and whatever the kernel socket would return.
#[test]
fn every_call_on_what_is_being_closed_says_so() {
    use crate::exports::descriptor::{fcntl, ioctl};
    use crate::exports::socket::{
        accept, bind, connect, getpeername, getsockname, getsockopt, listen, setsockopt, shutdown,
    };
    use crate::exports::waiting::epoll_ctl;
    let (epfd, place) = (sys::epoll_create(0).unwrap(), [0u8; 64]);
    let name = address(Address::ANY_V4, 0);
    for fd in [connected(7), socket(libc::SOCK_STREAM), socket(libc::SOCK_DGRAM)] {
        assert!(crate::socket::close::closing(fd));
        let at = (&raw const place).cast_mut();
        let mut len = 16;
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let (nodelay, broadcast) = ((libc::IPPROTO_TCP, libc::TCP_NODELAY), (libc::SOL_SOCKET, libc::SO_BROADCAST));
        let says = |call: &mut dyn FnMut() -> c_int| {
            crate::sys::errno::set(0);
            assert_eq!((call(), crate::sys::errno::get()), (-1, libc::EBADF));
        };
        // SAFETY: names, and places that are large enough.
        unsafe {
            says(&mut || bind(fd, name.as_ptr().cast(), 16));
            says(&mut || connect(fd, name.as_ptr().cast(), 16));
            says(&mut || listen(fd, 1));
            says(&mut || accept(fd, core::ptr::null_mut(), core::ptr::null_mut()));
            says(&mut || shutdown(fd, libc::SHUT_RDWR));
            says(&mut || getsockname(fd, at.cast(), &raw mut len));
            says(&mut || getpeername(fd, at.cast(), &raw mut len));
            says(&mut || setsockopt(fd, nodelay.0, nodelay.1, at.cast(), 4));
            says(&mut || setsockopt(fd, broadcast.0, broadcast.1, at.cast(), 4));
            says(&mut || getsockopt(fd, broadcast.0, broadcast.1, at.cast(), &raw mut len));
            says(&mut || epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event));
            says(&mut || ioctl(fd, libc::FIONBIO, at as usize));
            says(&mut || fcntl(fd, libc::F_SETFL, 0));
        }
        assert!(crate::socket::close::closed(fd));
        sys::close(fd);
    }
    close(epfd);
}

/// 2 if the descriptor was closed when the handler ran, 1 if it was being closed.
static MEANT: AtomicU32 = AtomicU32::new(0);
/// That descriptor.
static CLOSES: AtomicU32 = AtomicU32::new(0);

extern "C" fn handler(_: c_int) {
    use crate::table::fd::{Entry, TABLE};
    MEANT.store(if TABLE.get(CLOSES.load(SeqCst) as c_int) == Entry::CLOSING { 1 } else { 2 }, SeqCst);
}

/// As on Linux (`sk_stream_wait_close`), whatever flags the handler is installed with. It may jump
/// away, and the descriptor is closed all the same.
#[test]
fn a_signal_ends_the_wait_and_its_handler_runs_when_the_descriptor_is_closed() {
    // A signal that no other test uses.
    let signal = libc::SIGRTMAX() - 1;
    // SAFETY: a function of ours.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(crate::exports::signal::sigaction(signal, &raw const action, core::ptr::null_mut()), 0);
    }
    let fd = connected(15);
    linger(fd, 30);
    send(fd, b"Sample Data", 0, None).unwrap();
    CLOSES.store(fd as u32, SeqCst);
    let closes = AtomicU32::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| {
            closes.store(sys::thread(), SeqCst);
            // SAFETY: a plain number.
            unsafe { crate::exports::descriptor::close(fd) }
        });
        while crate::table::fd::TABLE.get(fd) != crate::table::fd::Entry::CLOSING {
            std::thread::yield_now();
        }
        until_it_sleeps(&closes, || closer.is_finished());
        // SAFETY: plain numbers.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), closes.load(SeqCst), signal) };
        assert_eq!(closer.join().unwrap(), 0);
    });
    assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
    assert_eq!(MEANT.load(SeqCst), 2);
}
