//! Functions that POSIX allows in a signal handler must not use the allocator: the handler may have
//! interrupted it.

use super::*;
use crate::socket::tcp::Stage;
use crate::wait::epoll;

/// A listener with connections that it has accepted.
fn listener(port: u16, connections: u32) -> (c_int, Vec<c_int>) {
    let listener = socket(libc::SOCK_STREAM);
    ops::bind(listener, &address(HERE, port)).unwrap();
    ops::listen(listener, 10).unwrap();
    let dialler = socket(libc::SOCK_DGRAM);
    let accepted = (0..connections).map(|_| {
        send(dialler, format!("dial {port}").as_bytes(), 0, Some((THERE, 7))).unwrap();
        ops::accept(listener, 0).unwrap().0
    });
    let accepted = accepted.collect();
    close(dialler);
    (listener, accepted)
}

#[test]
fn close_does_not_allocate() {
    let epfd = sys::epoll_create(0).unwrap();
    let fd = connected(7);
    epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN as u32, 1).unwrap();
    let (listener, accepted) = listener(7701, 40);
    close(accepted[0]);
    for fd in [fd, epfd, listener, accepted[1]] {
        assert_eq!(counting::uses(|| close(fd)), 0, "{fd}");
    }
    // They continue without their listener.
    let lane = lane();
    for &fd in &accepted[2..] {
        let Some(index) = crate::table::fd::TABLE.get(fd).description() else { panic!("not ours") };
        let kept = lane.with(|access| {
            let converted = access.descriptions().get(index).has(crate::table::desc::flag::CONVERTED);
            Ok((converted, matches!(crate::socket::tcp::stage(access, index)?.0, Stage::Connection(_))))
        });
        assert_eq!(kept, Ok((true, true)));
        close(fd);
    }
}
