//! Two hosts under test that exchange packets: like packetdrill, but without it.

use crate::errno::{AGAIN, Errno};
use crate::machine::Machine;
use crate::name;
use crate::setup::Setup;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::time::Span;

const V4: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const V6: [&str; 2] = ["fd00::1", "fd00::2"];

struct Pair {
    hosts: [Arc<Machine>; 2],
    v6: bool,
    server: Vec<u8>,
}

impl Pair {
    fn new(addresses: [&str; 2]) -> Self {
        let hosts = addresses.map(|a| Arc::new(Machine::new(Setup::parse(&format!("local={a}")).unwrap())));
        let address: Address = addresses[1].parse::<core::net::IpAddr>().unwrap().into();
        let v6 = address.to_v4().is_none();
        Self { hosts, v6, server: name::emit(Endpoint::new(address, 8080), v6) }
    }

    fn socket(&self, host: usize) -> i32 {
        let domain = if self.v6 { libc::AF_INET6 } else { libc::AF_INET };
        let fd = self.hosts[host].socket(domain, libc::SOCK_STREAM, libc::IPPROTO_TCP).unwrap();
        self.hosts[host].fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK).unwrap();
        fd
    }

    /// Delivers sent packets without advancing time.
    fn carry(&self) {
        loop {
            let mut any = false;
            for from in 0..2 {
                while let Some(sent) = self.hosts[from].call(|state| state.wire.take_sent()) {
                    any = true;
                    assert!(self.hosts[1 - from].call(|state| state.wire.receive(&sent.packet)));
                }
            }
            if !any {
                return;
            }
        }
    }

    /// A connection; returns both ends' descriptors.
    fn connected(&self) -> [i32; 2] {
        let [client, server] = &self.hosts;
        let listener = self.socket(1);
        server.bind(listener, &self.server).unwrap();
        server.listen(listener, 1).unwrap();
        let fd = self.socket(0);
        assert_eq!(client.connect(fd, &self.server), Err(Errno(libc::EINPROGRESS)));
        assert_eq!(client.connect(fd, &self.server), Err(Errno(libc::EALREADY)));
        self.carry();
        assert_eq!(client.connect(fd, &self.server), Ok(()));
        assert_eq!(client.connect(fd, &self.server), Err(Errno(libc::EISCONN)));
        let (accepted, peer) = server.accept(listener).unwrap();
        assert_eq!(peer.len(), if self.v6 { 28 } else { 16 });
        server.fcntl(accepted, libc::F_SETFL, libc::O_NONBLOCK).unwrap();
        [fd, accepted]
    }
}

#[test]
fn a_connection_opens_carries_data_and_closes_on_both_families() {
    for addresses in [V4, V6] {
        let pair = Pair::new(addresses);
        let [client, server] = &pair.hosts;
        let [near, far] = pair.connected();
        assert_eq!(server.receive(far, 10, 0).unwrap_err(), AGAIN);
        assert_eq!(client.send(near, b"hello", 0, None), Ok(5));
        pair.carry();
        assert_eq!(server.receive(far, 10, 0).unwrap().bytes, b"hello");
        client.close(near).unwrap();
        pair.carry();
        assert_eq!(server.receive(far, 10, 0).unwrap().len, 0);
        server.close(far).unwrap();
        pair.carry();
        assert_eq!(server.close(far), Err(Errno(libc::EBADF)));
    }
}

#[test]
fn a_lost_packet_is_looked_for_by_letting_time_pass() {
    let pair = Pair::new(V4);
    let client = &pair.hosts[0];
    let fd = pair.socket(0);
    assert_eq!(client.connect(fd, &pair.server), Err(Errno(libc::EINPROGRESS)));
    let first = client.next_sent().unwrap();
    let again = client.next_sent().unwrap();
    assert_eq!(again.packet.len(), first.packet.len());
    assert_eq!((again.at - first.at).as_millis(), 1000); // RFC 6298 §2.1
}

#[test]
fn a_call_that_blocks_returns_at_the_instant_its_data_comes() {
    let pair = Pair::new(V4);
    let [client, server] = &pair.hosts;
    let [near, far] = pair.connected();
    server.fcntl(far, libc::F_SETFL, 0).unwrap();
    let reader = {
        let server = server.clone();
        thread::spawn(move || {
            let got = server.receive(far, 10, 0).unwrap();
            (got.bytes, server.time())
        })
    };
    while server.waiting() == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    server.sleep(Span::from_millis(10));
    let then = server.call(|state| state.wire.now());
    client.send(near, b"x", 0, None).unwrap();
    pair.carry();
    server.sleep(Span::from_secs(1));
    assert_eq!(reader.join().unwrap(), (b"x".to_vec(), then));
}

#[test]
fn a_wait_ends_after_its_time_without_another_driver() {
    let pair = Pair::new(V4);
    let host = &pair.hosts[0];
    let epoll = host.epoll_create(1).unwrap();
    let begun = host.call(|state| state.wire.now());
    assert_eq!(host.epoll_wait(epoll, 1, 500), Ok(vec![]));
    assert_eq!((host.time() - begun).as_millis(), 500);
}

#[test]
fn epoll_follows_a_socket_from_before_its_connect() {
    let pair = Pair::new(V6);
    let [client, _] = &pair.hosts;
    let epoll = client.epoll_create(1).unwrap();
    let fd = pair.socket(0);
    let out = libc::EPOLLOUT as u32;
    client.epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, (out, 7)).unwrap();
    assert_eq!(client.epoll_wait(epoll, 1, 0), Ok(vec![(out | libc::EPOLLHUP as u32, 7)]));
    let listener = pair.socket(1);
    pair.hosts[1].bind(listener, &pair.server).unwrap();
    pair.hosts[1].listen(listener, 1).unwrap();
    assert_eq!(client.connect(fd, &pair.server), Err(Errno(libc::EINPROGRESS)));
    assert_eq!(client.epoll_wait(epoll, 1, 0), Ok(vec![]));
    pair.carry();
    assert_eq!(client.epoll_wait(epoll, 1, 0), Ok(vec![(out, 7)]));
}
