use super::*;
use crate::epoll;
use crate::errno::Errno;
use crate::fd::{Entry, TABLE};
use libc::epoll_event;
use tickwire_stack::time::Span;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

fn add(epfd: c_int, fd: c_int, events: u32, data: u64) {
    if epoll::concerns(fd) {
        epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, events, data).unwrap();
    } else {
        sys::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, events, data).unwrap();
        epoll::kernel_added(epfd);
    }
}

/// What an instance reports within a few milliseconds.
fn ready(epfd: c_int) -> Vec<(u64, u32)> {
    let Entry::Epoll(index) = TABLE.get(epfd) else { panic!("an instance with a set") };
    let mut events = [epoll_event { events: 0, u64: 0 }; 8];
    let n = epoll::wait(epfd, index, &mut events, Some(Span::from_millis(5)), None).unwrap();
    let mut told: Vec<(u64, u32)> = events[..n].iter().map(|e| (e.u64, e.events)).collect();
    told.sort_unstable();
    told
}

#[test]
fn level_edge_and_oneshot_have_their_meaning() {
    let epfd = sys::epoll_create(0).unwrap();
    let [level, edge, once] = [(); 3].map(|()| connected(7));
    add(epfd, level, IN, 1);
    add(epfd, edge, IN | libc::EPOLLET as u32, 2);
    add(epfd, once, IN | libc::EPOLLONESHOT as u32, 3);
    assert_eq!(ready(epfd), []);
    for fd in [level, edge, once] {
        send(fd, b"x", 0, None).unwrap();
    }
    let mut seen = ready(epfd);
    seen.extend(ready(epfd));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [(1, IN), (2, IN), (3, IN)]);
    assert_eq!(ready(epfd), [(1, IN)], "only the level is told again");
    epoll::control(epfd, libc::EPOLL_CTL_MOD, once, IN, 30).unwrap();
    assert_eq!(ready(epfd), [(1, IN), (30, IN)]);
    assert_eq!(epoll::control(epfd, libc::EPOLL_CTL_ADD, once, IN, 0), Err(Errno(libc::EEXIST)));
    epoll::control(epfd, libc::EPOLL_CTL_DEL, level, 0, 0).unwrap();
    assert_eq!(ready(epfd), [(30, IN)]);
    [level, edge, once, epfd].into_iter().for_each(close);
}

#[test]
fn kernel_descriptors_and_ours_share_an_instance() {
    let epfd = sys::epoll_create(0).unwrap();
    let bell = sys::eventfd().unwrap();
    let fd = connected(7);
    add(epfd, bell, IN, 1);
    add(epfd, fd, IN | OUT, 2);
    assert_eq!(ready(epfd), [(2, OUT)]);
    sys::ring(bell);
    assert_eq!(ready(epfd), [(1, IN), (2, OUT)]);
    [fd, bell, epfd].into_iter().for_each(close);
}

#[test]
fn a_socket_may_be_added_before_it_is_connected() {
    let epfd = sys::epoll_create(0).unwrap();
    let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    add(epfd, fd, OUT, 5);
    assert_eq!(ops::connect(fd, &address(THERE, 7)), Err(Errno(libc::EINPROGRESS)));
    assert_eq!(ready(epfd), [(5, OUT)]);
    [fd, epfd].into_iter().for_each(close);
}

#[test]
fn udp_is_told_from_both_sides() {
    let epfd = sys::epoll_create(0).unwrap();
    let fd = socket(libc::SOCK_DGRAM);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    let port = sys::socket_name(fd, false).unwrap().port;
    add(epfd, fd, IN, 9);
    assert_eq!(ready(epfd), []);
    send(fd, b"far", 0, Some((THERE, 7))).unwrap();
    assert_eq!(ready(epfd), [(9, IN)]);
    receive(fd, 10, 0).unwrap();
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(b"near", ("127.0.0.1", port)).unwrap();
    assert_eq!(ready(epfd), [(9, IN)]);
    assert_eq!(receive(fd, 10, libc::MSG_DONTWAIT), Ok(b"near".to_vec()));
    [fd, epfd].into_iter().for_each(close);
}

#[test]
fn instances_can_be_nested() {
    let (outer, inner) = (sys::epoll_create(0).unwrap(), sys::epoll_create(0).unwrap());
    let fd = connected(7);
    add(inner, fd, IN, 1);
    add(outer, inner, IN, 2);
    assert_eq!(ready(outer), []);
    send(fd, b"x", 0, None).unwrap();
    assert_eq!(ready(outer), [(2, IN)]);
    assert_eq!(ready(inner), [(1, IN)]);
    receive(fd, 1, 0).unwrap();
    assert_eq!(ready(outer), []);
    [fd, inner, outer].into_iter().for_each(close);
}
