use super::*;
use crate::socket::kernel;
use crate::socket::open;
use crate::sys::errno::Errno;
use crate::table::fd::{Entry, TABLE};
use crate::wait::epoll;
use crate::wait::epoll_wait;
use libc::epoll_event;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
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
    let n = epoll_wait::wait(epfd, index, &mut events, Some(Span::from_millis(5)), None).unwrap();
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

/// The data of the events of `waits` waits that take `at_a_time` events each.
fn told_in_turn(epfd: c_int, waits: usize, at_a_time: usize) -> Vec<u64> {
    let Entry::Epoll(index) = TABLE.get(epfd) else { panic!("an instance with a set") };
    let mut events = vec![epoll_event { events: 0, u64: 0 }; at_a_time];
    let mut wait = || {
        let n = epoll_wait::wait(epfd, index, &mut events, Some(Span::from_millis(5)), None).unwrap();
        events[..n].iter().map(|event| event.u64).collect::<Vec<_>>()
    };
    (0..waits).flat_map(|_| wait()).collect()
}

#[test]
fn whatever_is_ready_has_its_turn_however_few_events_are_taken_at_a_time() {
    let epfd = sys::epoll_create(0).unwrap();
    let bells = [(); 3].map(|()| sys::eventfd().unwrap());
    let fds = [(); 2].map(|()| connected(7));
    bells.iter().zip(1..).for_each(|(&bell, data)| add(epfd, bell, IN, data));
    fds.iter().zip(11..).for_each(|(&fd, data)| add(epfd, fd, IN, data));
    bells.into_iter().for_each(sys::ring);
    fds.into_iter().for_each(|fd| assert_eq!(send(fd, b"x", 0, None), Ok(1)));
    assert_eq!(ready(epfd).len(), 5);
    for at_a_time in 1..=5 {
        let told = told_in_turn(epfd, 30, at_a_time);
        let times = |data: u64| told.iter().filter(|&&told| told == data).count();
        let each = [1, 2, 3, 11, 12].map(times);
        assert!(each.iter().all(|&times| times >= 5 * at_a_time.min(3)), "{at_a_time} at a time: {each:?}");
    }
    // Without kernel events, the others are reported as often as there is room for.
    bells.into_iter().for_each(sys::drain);
    assert_eq!(told_in_turn(epfd, 4, 1).len(), 4);
    [&fds[..], &bells, &[epfd]].concat().into_iter().for_each(close);
}

#[test]
fn exclusive_interest_is_for_adding_alone() {
    let epfd = sys::epoll_create(0).unwrap();
    let fd = connected(7);
    let (exclusive, invalid) = (IN | libc::EPOLLEXCLUSIVE as u32, Err(Errno(libc::EINVAL)));
    let control = |op, events| epoll::control(epfd, op, fd, events, 0);
    assert_eq!(control(libc::EPOLL_CTL_ADD, exclusive | libc::EPOLLONESHOT as u32), invalid);
    assert_eq!(control(libc::EPOLL_CTL_ADD, exclusive | libc::EPOLLET as u32), Ok(()));
    assert_eq!(control(libc::EPOLL_CTL_MOD, IN), invalid, "it was added so");
    assert_eq!(control(libc::EPOLL_CTL_DEL, 0), Ok(()));
    assert_eq!(control(libc::EPOLL_CTL_ADD, IN), Ok(()));
    assert_eq!(control(libc::EPOLL_CTL_MOD, exclusive), invalid);
    let outer = sys::epoll_create(0).unwrap();
    assert_eq!(epoll::control(outer, libc::EPOLL_CTL_ADD, epfd, exclusive, 0), invalid, "it is an instance");
    [fd, outer, epfd].into_iter().for_each(close);
}

#[test]
fn instances_do_not_contain_each_other() {
    let circle = Err(Errno(libc::ELOOP));
    for ours_in in [[true, false], [false, true], [true, true], [false, false]] {
        for mode in [0, libc::EPOLLET as u32] {
            let both = [(); 2].map(|()| create());
            let fds = ours_in.map(|ours| ours.then(|| connected(7)));
            both.iter().zip(fds).for_each(|(&epfd, fd)| fd.into_iter().for_each(|fd| add(epfd, fd, IN, 1)));
            let [a, b] = both;
            let contain = |outer, inner| epoll::control(outer, libc::EPOLL_CTL_ADD, inner, IN | mode, 2);
            assert_eq!(contain(a, b), Ok(()), "{ours_in:?}");
            assert_eq!(contain(b, a), circle, "{ours_in:?}");
            // It has left nothing behind: the reverse is allowed when the first is undone.
            assert_eq!(epoll::control(a, libc::EPOLL_CTL_DEL, b, 0, 0), Ok(()), "{ours_in:?}");
            assert_eq!(contain(b, a), Ok(()), "{ours_in:?}");
            fds.into_iter().flatten().chain(both).for_each(close);
        }
    }
}

#[test]
fn a_thread_that_polls_an_instance_hears_of_a_socket_that_is_added_meanwhile() {
    // SAFETY: a plain number.
    let epfd = unsafe { crate::exports::waiting::epoll_create1(0) };
    let fd = connected(7);
    let (polls, ends) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| {
            let mut fds = [libc::pollfd { fd: epfd, events: libc::POLLIN, revents: 0 }];
            polls.store(sys::thread(), SeqCst);
            // SAFETY: a list of one.
            let told = unsafe { crate::exports::waiting::poll(fds.as_mut_ptr(), 1, 10_000) };
            ends.store(true, SeqCst);
            (told, fds[0].revents)
        });
        until_it_sleeps(&polls, || ends.load(SeqCst));
        add(epfd, fd, IN, 1);
        send(fd, b"x", 0, None).unwrap();
        assert_eq!(polling.join().unwrap(), (1, libc::POLLIN));
    });
    [fd, epfd].into_iter().for_each(close);
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
fn a_udp_socket_that_is_ready_on_both_sides_is_one_event() {
    let epfd = sys::epoll_create(0).unwrap();
    let fd = socket(libc::SOCK_DGRAM);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    let port = sys::socket_name(fd, false).unwrap().port;
    add(epfd, fd, IN | OUT, 9);
    send(fd, b"far", 0, Some((THERE, 7))).unwrap();
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(b"near", ("127.0.0.1", port)).unwrap();
    for _ in 0..3 {
        assert_eq!(ready(epfd), [(9, IN | OUT)], "one event with what both sides have");
    }
    let mut got = [(); 2].map(|()| receive(fd, 10, libc::MSG_DONTWAIT).unwrap());
    got.sort();
    assert_eq!(got, [b"far".to_vec(), b"near".to_vec()]);
    assert_eq!(ready(epfd), [(9, OUT)]);
    [fd, epfd].into_iter().for_each(close);
}

#[test]
fn a_udp_socket_that_is_ready_on_both_sides_at_different_times_is_told_once_where_once_was_asked_for() {
    const ONCE: u32 = IN | libc::EPOLLONESHOT as u32;
    let epfd = sys::epoll_create(0).unwrap();
    let fd = socket(libc::SOCK_DGRAM);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    let port = sys::socket_name(fd, false).unwrap().port;
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let near = || assert_eq!(other.send_to(b"near", ("127.0.0.1", port)).unwrap(), 4);
    let far = || assert_eq!(send(fd, b"far", 0, Some((THERE, 7))), Ok(3));
    let both = || {
        let mut got = [(); 2].map(|()| receive(fd, 10, libc::MSG_DONTWAIT).unwrap());
        got.sort();
        assert_eq!(got, [b"far".to_vec(), b"near".to_vec()]);
    };
    add(epfd, fd, ONCE, 9);
    far();
    assert_eq!(ready(epfd), [(9, IN)]);
    near();
    assert_eq!(ready(epfd), [], "the lane's side was told");
    both();
    epoll::control(epfd, libc::EPOLL_CTL_MOD, fd, ONCE, 10).unwrap();
    assert_eq!(ready(epfd), []);
    near();
    assert_eq!(ready(epfd), [(10, IN)]);
    far();
    assert_eq!(ready(epfd), [], "the kernel's side was told");
    epoll::control(epfd, libc::EPOLL_CTL_MOD, fd, ONCE, 11).unwrap();
    assert_eq!(ready(epfd), [(11, IN)], "both sides are ready still");
    both();
    epoll::control(epfd, libc::EPOLL_CTL_MOD, fd, IN | libc::EPOLLET as u32, 12).unwrap();
    assert_eq!(ready(epfd), []);
    far();
    assert_eq!(ready(epfd), [(12, IN)]);
    near();
    assert_eq!(ready(epfd), [(12, IN)], "each is an edge");
    assert_eq!(ready(epfd), []);
    both();
    [fd, epfd].into_iter().for_each(close);
}

/// While the stack has the socket, the kernel's registration carries this library's data, and
/// otherwise the program's.
#[test]
fn a_socket_that_becomes_the_kernels_is_told_with_the_programs_data() {
    let epfd = sys::epoll_create(0).unwrap();
    let (stays, goes) = (socket(libc::SOCK_DGRAM), socket(libc::SOCK_DGRAM));
    let copy = sys::fcntl(goes, libc::F_DUPFD_CLOEXEC, 3).unwrap();
    open::duplicated(goes, copy);
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for (fd, data) in [(stays, 1), (goes, 2), (copy, 3)] {
        add(epfd, fd, IN, data);
    }
    for fd in [stays, goes] {
        ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
        other.send_to(b"near", ("127.0.0.1", sys::socket_name(fd, false).unwrap().port)).unwrap();
    }
    assert_eq!(ready(epfd), [(1, IN), (2, IN), (3, IN)]);
    let index = TABLE.get(goes).description().unwrap();
    let socket = lane().with(|access| crate::wait::Same::of(access, goes, index)).unwrap();
    kernel::demote(lane(), &socket, tickwire_lane::control::Reason::Option);
    assert_eq!(ready(epfd), [(1, IN), (2, IN), (3, IN)]);
    [stays, goes, copy, epfd].into_iter().for_each(close);
}

/// Gives a socket to the kernel as another process of the lane would; this one notices it only by
/// its events.
fn demoted_elsewhere(fd: c_int) {
    let index = TABLE.get(fd).description().unwrap();
    let closed = lane().with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        let socket = description.socket();
        description.set(crate::table::desc::flag::KERNEL, true);
        description.set_socket(tickwire_stack::SocketId::default());
        Ok(access.stack.udp_close(socket.try_into()?)?)
    });
    assert_eq!(closed, Ok(()));
}

#[test]
fn no_event_of_sockets_that_another_process_gave_to_the_kernel_is_lost() {
    let epfd = sys::epoll_create(0).unwrap();
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let [edge, once, stays] = [(); 3].map(|()| {
        let fd = socket(libc::SOCK_DGRAM);
        ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
        fd
    });
    add(epfd, edge, IN | libc::EPOLLET as u32, 1);
    add(epfd, once, IN | libc::EPOLLONESHOT as u32, 2);
    add(epfd, stays, IN, 3);
    assert_eq!(ready(epfd), []);
    [edge, once].into_iter().for_each(demoted_elsewhere);
    for fd in [edge, once, stays] {
        other.send_to(b"near", ("127.0.0.1", sys::socket_name(fd, false).unwrap().port)).unwrap();
    }
    let mut seen = ready(epfd);
    seen.extend(ready(epfd));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [(1, IN), (2, IN), (3, IN)]);
    assert_eq!(ready(epfd), [(3, IN)], "only the level is told again");
    for fd in [edge, once] {
        assert!(matches!(TABLE.get(fd), Entry::Kernel(_)));
    }
    [edge, once, stays, epfd].into_iter().for_each(close);
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

#[test]
fn an_edge_from_the_kernel_is_followed_by_its_data_at_once() {
    let epfd = sys::epoll_create(0).unwrap();
    let fd = socket(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK);
    ops::bind(fd, &address(Address::ANY_V4, 0)).unwrap();
    let port = sys::socket_name(fd, false).unwrap().port;
    add(epfd, fd, IN | libc::EPOLLET as u32, 9);
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..100 {
        assert_eq!(receive(fd, 10, 0), Err(Errno(libc::EAGAIN)));
        other.send_to(b"near", ("127.0.0.1", port)).unwrap();
        assert_eq!(ready(epfd), [(9, IN)]);
        assert_eq!(receive(fd, 10, 0), Ok(b"near".to_vec()), "the edge is not told again");
    }
    // Through a socket of ours, without asking for events at all.
    let neighbour = socket(libc::SOCK_DGRAM);
    for _ in 0..100 {
        assert_eq!(receive(fd, 10, 0), Err(Errno(libc::EAGAIN)));
        send(neighbour, b"near", 0, Some((Address::v4([127, 0, 0, 1]), port))).unwrap();
        assert_eq!(receive(fd, 10, 0), Ok(b"near".to_vec()));
    }
    [fd, neighbour, epfd].into_iter().for_each(close);
}

/// An instance as the program makes it.
fn create() -> c_int {
    // SAFETY: a plain number.
    unsafe { crate::exports::waiting::epoll_create1(libc::EPOLL_CLOEXEC) }
}

/// `epoll_wait` as the program calls it.
fn wait_for(epfd: c_int, timeout: c_int) -> Vec<(u64, u32)> {
    let mut events = [epoll_event { events: 0, u64: 0 }; 8];
    // SAFETY: as many as said.
    let n = unsafe { crate::exports::waiting::epoll_wait(epfd, events.as_mut_ptr(), 8, timeout) };
    events[..usize::try_from(n).unwrap()].iter().map(|e| (e.u64, e.events)).collect()
}

#[test]
fn threads_asleep_in_an_instance_hear_of_the_first_socket_that_is_added() {
    for epfd in [create(), sys::epoll_create(0).unwrap()] {
        let bell = sys::eventfd().unwrap();
        add(epfd, bell, IN, 1);
        let waiters = [(); 3].map(|()| std::thread::spawn(move || wait_for(epfd, -1)));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let fd = connected(7);
        add(epfd, fd, IN, 2);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "nothing has been told");
        send(fd, b"x", 0, None).unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), [(2, IN)]);
        }
        sys::ring(bell);
        assert_eq!(ready(epfd), [(1, IN), (2, IN)]);
        receive(fd, 1, 0).unwrap();
        [fd, bell, epfd].into_iter().for_each(close);
    }
}

#[test]
fn the_time_of_a_wait_goes_on_when_it_becomes_ours() {
    let epfd = create();
    let begin = std::time::Instant::now();
    let sleeper = std::thread::spawn(move || wait_for(epfd, 150));
    std::thread::sleep(std::time::Duration::from_millis(50));
    let fd = connected(7);
    add(epfd, fd, IN, 2);
    assert_eq!(sleeper.join().unwrap(), []);
    assert!(begin.elapsed().as_millis() >= 150);
    [fd, epfd].into_iter().for_each(close);
}

#[test]
fn duplicates_of_an_instance_are_one_instance() {
    // As mio does: it waits on one descriptor and registers with another.
    let epfd = create();
    let copy = sys::fcntl(epfd, libc::F_DUPFD_CLOEXEC, 3).unwrap();
    open::duplicated(epfd, copy);
    let fd = connected(7);
    add(copy, fd, IN, 2);
    assert_eq!(wait_for(epfd, 0), []);
    send(fd, b"x", 0, None).unwrap();
    assert_eq!(wait_for(epfd, 1000), [(2, IN)]);
    epoll::control(epfd, libc::EPOLL_CTL_MOD, fd, IN, 3).unwrap();
    assert_eq!(epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, IN, 4), Err(Errno(libc::EEXIST)));
    close(copy);
    assert_eq!(wait_for(epfd, 1000), [(3, IN)]);
    epoll::control(epfd, libc::EPOLL_CTL_DEL, fd, 0, 0).unwrap();
    assert_eq!(wait_for(epfd, 0), []);
    [fd, epfd].into_iter().for_each(close);
}

#[test]
fn instances_that_were_nested_before_either_had_a_socket_of_ours_tell_of_it() {
    let (outer, middle, inner) = (create(), create(), create());
    add(middle, inner, IN, 3);
    add(outer, middle, IN, 2);
    let sleeper = std::thread::spawn(move || wait_for(outer, -1));
    std::thread::sleep(std::time::Duration::from_millis(30));
    let fd = connected(7);
    add(inner, fd, IN, 1);
    assert_eq!(wait_for(outer, 0), []);
    send(fd, b"x", 0, None).unwrap();
    assert_eq!(sleeper.join().unwrap(), [(2, IN)]);
    assert_eq!(wait_for(middle, 1000), [(3, IN)]);
    assert_eq!(wait_for(inner, 1000), [(1, IN)]);
    [fd, inner, middle, outer].into_iter().for_each(close);
}

#[test]
fn what_is_no_instance_is_refused_by_the_kernels_word() {
    let fd = connected(7);
    let other = connected(7);
    assert_eq!(epoll::control(other, libc::EPOLL_CTL_ADD, fd, IN, 0), Err(Errno(libc::EINVAL)));
    assert_eq!(epoll::control(-1, libc::EPOLL_CTL_ADD, fd, IN, 0), Err(Errno(libc::EBADF)));
    send(other, b"x", 0, None).unwrap();
    [fd, other].into_iter().for_each(close);
}

#[test]
fn what_dup3_refuses_stays_registered() {
    let (epfd, fd, other) = (sys::epoll_create(0).unwrap(), connected(7), socket(libc::SOCK_STREAM));
    add(epfd, fd, IN, 1);
    // SAFETY: plain numbers.
    assert_eq!(unsafe { crate::exports::descriptor::dup3(other, fd, -1) }, -1);
    assert_eq!(epoll::control(epfd, libc::EPOLL_CTL_MOD, fd, OUT, 2), Ok(()));
    assert_eq!(ready(epfd), [(2, OUT)]);
    // SAFETY: plain numbers.
    assert_eq!(unsafe { crate::exports::descriptor::dup3(other, fd, 0) }, fd);
    add(epfd, fd, IN, 3);
    [fd, other, epfd].into_iter().for_each(close);
}

/// A thread that registers waits for the registry, and reads under it what the descriptor refers to
/// by then.
#[test]
fn what_another_thread_closes_first_is_not_registered() {
    let (epfd, fd) = (sys::epoll_create(0).unwrap(), connected(7));
    let entry = TABLE.get(fd);
    let meanwhile = |meant: Entry| {
        let adds = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let held = epoll::registry();
            let adding = scope.spawn(|| {
                adds.store(sys::thread(), SeqCst);
                epoll::control(epfd, libc::EPOLL_CTL_ADD, fd, IN, 1)
            });
            until_it_sleeps(&adds, || adding.is_finished());
            TABLE.set(fd, meant);
            drop(held);
            let said = adding.join().unwrap();
            TABLE.set(fd, entry);
            said
        })
    };
    assert_eq!(meanwhile(Entry::CLOSING), Err(Errno(libc::EBADF)));
    assert_eq!(meanwhile(Entry::Unlisted(0)), Ok(()), "the kernel's has it");
    sys::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, 0, 0).unwrap();
    add(epfd, fd, OUT, 2);
    assert_eq!(ready(epfd), [(2, OUT)]);
    [fd, epfd].into_iter().for_each(close);
}

/// A description's index is reused when it is closed. (On Linux the wait would continue on an
/// instance that only the call itself still references.)
#[test]
fn a_wait_on_an_instance_that_is_closed_does_not_go_on_with_the_next_in_its_place() {
    let (epfd, fd) = (sys::epoll_create(0).unwrap(), connected(7));
    add(epfd, fd, IN, 1);
    let index = TABLE.get(epfd).description().unwrap();
    let waits = AtomicU32::new(0);
    let wait = || {
        waits.store(sys::thread(), SeqCst);
        let mut events = [epoll_event { events: 0, u64: 0 }; 8];
        epoll_wait::wait(epfd, index, &mut events, Some(Span::from_millis(200)), None)
    };
    let replace = |set| {
        let replaced = lane().with(|access| {
            let mut descriptions = access.descriptions();
            let before = descriptions.get(index).socket();
            descriptions.get(index).set_socket(set);
            Ok(before)
        });
        replaced.unwrap()
    };
    let next = lane().with(|access| access.stack.set_create().map_err(Errno::from)).unwrap();
    let said = std::thread::scope(|scope| {
        let waiting = scope.spawn(wait);
        until_it_sleeps(&waits, || waiting.is_finished());
        let before = replace(next.into());
        let said = waiting.join().unwrap();
        replace(before);
        said
    });
    assert_eq!(said, Err(Errno(libc::EBADF)));
    // Nor does a wait that comes too late begin with it.
    let entry = TABLE.set(epfd, Entry::CLOSING);
    assert_eq!(wait(), Err(Errno(libc::EBADF)));
    TABLE.set(epfd, entry);
    lane().with(|access| access.stack.set_destroy(next).map_err(Errno::from)).unwrap();
    [fd, epfd].into_iter().for_each(close);
}
