//! Connections that the kernel takes over from a lane, and what is no lane's to give away.

mod common;

use common::{Client, LaneOf, PEER, World, connecting, now, skipped, within};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use tickwire_lane::control::{Claim, Reason, Reply, Request};
use tickwire_service::Attach;
use tickwire_stack::Stack;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::ids::{ListenerId, TcpId};
use tickwire_stack::tcp::{Leaving, RecvFlags};

const PORT: u16 = 8080;

/// A program that listens.
struct Server {
    client: Client,
    lane: LaneOf,
    stack: Stack<'static>,
    claim: Claim,
    listener: ListenerId,
    socket: TcpListener,
}

impl Server {
    fn new(world: &World, port: u16) -> Self {
        let (mut client, lane, mut stack) = world.program();
        stack.path_set(client.path(PEER), now());
        let listener = stack.tcp_listen(&stack.tcp_defaults(), world.a(port).into(), 64).unwrap();
        let socket = within(&world.pair.a, || TcpListener::bind(world.a(port)).unwrap());
        let claim = client.claim_bound(&socket).unwrap();
        Self { client, lane, stack, claim, listener, socket }
    }

    /// A connection: its peer, and itself.
    fn accept(&mut self, world: &World) -> (TcpStream, TcpId) {
        let peer = connecting(world, 0, PORT);
        let id = self.lane.accept(&mut self.stack, self.listener);
        peer.set_nonblocking(false).unwrap();
        peer.set_read_timeout(Some(common::TIMEOUT)).unwrap();
        (peer, id)
    }

    /// Where a connection stands, which it does from now on, and its bytes.
    fn suspend(&mut self, id: TcpId) -> (Leaving, Vec<u8>) {
        let state = self.stack.tcp_suspend(id, now()).unwrap();
        let mut bytes = Vec::new();
        self.stack.tcp_leaving_bytes(id, |some| bytes.extend_from_slice(some)).unwrap();
        (state, bytes)
    }

    fn take_over(&mut self, claim: Claim, state: Leaving, file: &OwnedFd) -> Result<TcpStream, Reason> {
        match self.client.request(&Request::TakeOver { claim, v6: false, state }, &[file.as_fd()]) {
            (Reply::TakenOver, mut descriptors) => {
                let stream = TcpStream::from(descriptors.take(0).unwrap());
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(common::TIMEOUT)).unwrap();
                Ok(stream)
            }
            (Reply::Refused { reason, .. }, _) => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    /// What a peer sends reaches a connection of the lane.
    fn hears(&mut self, peer: &mut TcpStream, id: TcpId) {
        peer.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        self.lane.turn_until(&mut self.stack, "it hears its peer", |stack| {
            let mut room = &mut got[..];
            stack.tcp_recv(id, now(), RecvFlags::default(), &mut room).is_ok_and(|n| n == 4)
        });
    }
}

/// A memory file with these bytes.
fn sealed(bytes: &[u8]) -> OwnedFd {
    let made = memfd_create(c"bytes", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    File::from(made.try_clone().unwrap()).write_all(bytes).unwrap();
    fcntl(&made, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
    made
}

#[test]
fn the_kernel_goes_on_with_a_connection_and_the_lane_with_the_others() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut server = Server::new(&world, PORT);
    let ((mut peer, id), (mut other, of_other)) = (server.accept(&world), server.accept(&world));
    server.hears(&mut peer, id);
    peer.write_all(b"unread").unwrap();
    server.lane.turn_until(&mut server.stack, "it has come", |stack| stack.tcp_info(id, now()).unwrap().unread == 6);
    let (state, bytes) = server.suspend(id);
    let mut stream = server.take_over(server.claim, state, &sealed(&bytes)).unwrap();
    server.stack.tcp_leave(id).unwrap();
    peer.write_all(b" and more").unwrap();
    let mut got = [0; 15];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"unread and more");
    stream.write_all(b"answer").unwrap();
    peer.read_exact(&mut got[..6]).unwrap();
    assert_eq!(&got[..6], b"answer");
    server.hears(&mut other, of_other);
    // Once more the kernel has it, and the lane no connection to name.
    assert!(server.take_over(server.claim, state, &sealed(&bytes)).is_err());
    // The listener closes: the kernel's connection continues.
    let remote = other.local_addr().unwrap();
    assert_eq!(server.client.convert(server.claim, &[remote], false), None);
    peer.write_all(b"still there").unwrap();
    stream.read_exact(&mut got[..11]).unwrap();
    server.hears(&mut other, of_other);
    // The last one of a closed listener takes the claim with it.
    let (state, bytes) = server.suspend(of_other);
    let mut last = server.take_over(server.claim, state, &sealed(&bytes)).unwrap();
    assert_eq!(server.take_over(server.claim, state, &sealed(&bytes)).err(), Some(Reason::BadRequest));
    other.write_all(b"too").unwrap();
    last.read_exact(&mut got[..3]).unwrap();
    assert_eq!(&got[..3], b"too");
}

#[test]
fn a_lane_gives_away_only_what_it_could_have() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut server, mut stranger) = (Server::new(&world, PORT), Server::new(&world, 8081));
    let (mut peer, id) = server.accept(&world);
    let (state, bytes) = server.suspend(id);
    let file = sealed(&bytes);
    let end = |last: [u8; 4], port| Endpoint::new(Address::v4(last), port);
    let (here, there) = (state.local, state.remote);
    assert_eq!(stranger.take_over(server.claim, state, &file).err(), Some(Reason::BadRequest), "another's claim");
    assert_eq!(stranger.take_over(stranger.claim, state, &file).err(), Some(Reason::BadRequest), "another's port");
    let v6 = Endpoint::new(Address([0xfd; 16]), 80);
    for (what, local, remote) in [
        ("another port", Endpoint::new(here.address, 22), there),
        ("another host's address", end([192, 0, 2, 1], PORT), there),
        ("loopback", end([127, 0, 0, 1], PORT), there),
        ("a peer on this host", here, Endpoint::new(here.address, 22)),
        ("a peer of the loopback interface", here, end([127, 0, 0, 1], 22)),
        ("a peer without port", here, Endpoint::new(there.address, 0)),
        ("a broadcast", here, end([10, 77, 0, 255], 80)),
        ("a group", here, end([239, 1, 1, 1], 80)),
        ("no peer", here, end([0, 0, 0, 0], 80)),
        ("another family", here, v6),
    ] {
        let refused = server.take_over(server.claim, Leaving { local, remote, ..state }, &file);
        assert!(refused.is_err(), "{what}");
    }
    let numbers = Leaving { unread: u32::MAX, in_flight: u32::MAX, unsent: u32::MAX, ..state };
    assert!(server.take_over(server.claim, numbers, &file).is_err(), "bytes that are not there");
    let null: OwnedFd = File::open("/dev/zero").unwrap().into();
    assert!(server.take_over(server.claim, state, &null).is_err(), "no memory file");
    assert!(server.take_over(server.claim, Leaving { interface: 9999, ..state }, &file).is_err(), "no interface");
    // After all that it continues by the lane.
    server.stack.tcp_resume(id, now()).unwrap();
    server.hears(&mut peer, id);
    assert!(server.socket.local_addr().is_ok());
}
