//! ICMP errors about datagrams, as a program receives them: by a send, a receive, or `SO_ERROR`
//! (RFC 1122 §4.1.3.3).

mod common;

use common::{frame, icmp, open, received, send};
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::udp::MtuDiscover;
use tickwire_stack::{Ready, StackError, UdpId};

/// Two sockets of host 0 that have sent to host 1, and the first one's datagram.
struct Asked {
    pair: SimulatedPair,
    socket: UdpId,
    clean: UdpId,
    peer: Endpoint,
    quoted: Vec<u8>,
    family: usize,
}

impl Asked {
    fn new(family: usize, connected: bool) -> Self {
        let mut pair = SimulatedPair::seeded(1);
        let [own, peer] = [0, 1].map(|host| pair.host(host).addresses[family]);
        let peer = Endpoint::new(peer, 2000);
        let [socket, clean] = [1000, 1001].map(|port| open(&mut pair, 0, own, port));
        let now = pair.now();
        if connected {
            for id in [socket, clean] {
                pair.stack(0).udp_connect(id, now, Some(peer), 0).unwrap();
            }
        }
        for id in [clean, socket] {
            send(&mut pair, 0, id, peer, b"").unwrap();
        }
        let quoted = pair.host_mut(0).transmit(now).remove(1).split_off(14);
        Self { pair, socket, clean, peer, quoted, family }
    }

    /// The peer, or a router, sends an error about the first socket's datagram.
    fn complain(&mut self, (kind, code): (u8, u8)) {
        let [own, peer] = [0, 1].map(|host| self.pair.host(host).addresses[self.family]);
        let now = self.pair.now();
        let packet = frame(&icmp(peer, own, kind, code, 0, &self.quoted));
        assert!(self.pair.host_mut(0).receive(now, &packet));
    }

    fn send(&mut self, id: UdpId, to: Endpoint) -> Result<usize, StackError> {
        let sent = send(&mut self.pair, 0, id, to, b"");
        let now = self.pair.now();
        assert_eq!(self.pair.host_mut(0).transmit(now).len(), usize::from(sent.is_ok()));
        sent
    }
}

/// Errors of the peer's host and of a router: port unreachable, time exceeded; in both families.
const REFUSED: [(u8, u8); 2] = [(3, 3), (1, 4)];
const EXPIRED: [(u8, u8); 2] = [(11, 0), (3, 0)];

/// RFC 1122 §4.1.3.3: a connected socket reports its peer's refusal once, by whichever call comes
/// next; then it works again. Another socket with the same peer is not affected.
#[test]
fn a_connected_socket_is_told_once_by_whatever_is_called_next() {
    for (family, refused) in REFUSED.into_iter().enumerate() {
        let told = |asked: &mut Asked, way: usize| {
            let (id, peer) = (asked.socket, asked.peer);
            let elsewhere = Endpoint::new(peer.address, 2001);
            match way {
                0 => asked.send(id, peer).err(),
                1 => asked.send(id, elsewhere).err(),
                2 => asked.pair.stack(0).udp_recv(id, false, &mut Vec::new()).err(),
                3 => asked.pair.stack(0).udp_recv(id, true, &mut Vec::new()).err(),
                _ => asked.pair.stack(0).udp_take_error(id).unwrap(),
            }
        };
        for way in 0..5 {
            let mut asked = Asked::new(family, true);
            asked.complain(refused);
            let ready = asked.pair.stack(0).readiness(asked.socket.into()).unwrap();
            assert!(ready.contains(Ready::ERR | Ready::OUT) && !ready.contains(Ready::IN), "{ready:?}");
            assert_eq!(asked.pair.stack(0).readiness(asked.clean.into()), Ok(Ready::OUT), "not the other");
            assert_eq!(told(&mut asked, way), Some(StackError::Refused), "way {way}");
            assert_eq!(asked.pair.stack(0).readiness(asked.socket.into()), Ok(Ready::OUT));
            for id in [asked.socket, asked.clean] {
                let peer = asked.peer;
                assert_eq!(asked.pair.stack(0).udp_take_error(id), Ok(None));
                assert_eq!(asked.send(id, peer), Ok(0));
            }
        }
    }
}

/// As on Linux without `IP_RECVERR`: a soft error is not reported to a connected socket. An
/// unconnected one gets no error, because it could not tell which of its datagrams is meant.
#[test]
fn what_is_no_verdict_or_about_an_unconnected_socket_is_not_told() {
    for family in 0..2 {
        for (connected, error) in [(true, EXPIRED), (false, REFUSED), (false, EXPIRED)] {
            let mut asked = Asked::new(family, connected);
            asked.complain(error[family]);
            let (id, peer) = (asked.socket, asked.peer);
            assert_eq!(asked.pair.stack(0).readiness(id.into()), Ok(Ready::OUT));
            assert_eq!(asked.pair.stack(0).udp_take_error(id), Ok(None));
            assert_eq!(asked.pair.stack(0).udp_recv(id, false, &mut Vec::new()), Err(StackError::WouldBlock));
            assert_eq!(asked.send(id, peer), Ok(0));
        }
    }
}

/// RFC 1122 §4.1.3.3, as Linux implements it: transient errors are not reported to a connected
/// socket, hard ones are, by kind.
#[test]
fn hard_errors_are_told_by_what_they_say() {
    let (net, host) = (Some(StackError::NetworkUnreachable), Some(StackError::HostUnreachable));
    let malformed = Some(StackError::Malformed);
    let v4 = [
        None,
        None,
        Some(StackError::ProtocolUnreachable),
        Some(StackError::Refused),
        Some(StackError::MessageTooLong),
        None,
        net,
        Some(StackError::HostDown),
        Some(StackError::Isolated),
        net,
        host,
        None,
        None,
        host,
        host,
        host,
        None, // no such code
    ];
    let prohibited = Some(StackError::Prohibited);
    let v6 = [None, prohibited, None, None, Some(StackError::Refused), prohibited, prohibited, malformed];
    let codes = |kind: u8, told: &[Option<StackError>]| -> Vec<_> {
        told.iter().enumerate().map(|(code, &told)| ((kind, code as u8), told)).collect()
    };
    let others = [((11, 0), None), ((11, 1), None), ((12, 0), malformed), ((4, 0), None), ((5, 1), None)];
    let v4 = codes(3, &v4).into_iter().chain(others);
    let others = [((2, 0), Some(StackError::MessageTooLong)), ((3, 0), None), ((4, 0), malformed), ((4, 1), malformed)];
    let v6 = codes(1, &v6).into_iter().chain(others);
    for (family, (error, told)) in v4.map(|e| (0, e)).chain(v6.map(|e| (1, e))) {
        let mut asked = Asked::new(family, true);
        asked.complain(error);
        let id = asked.socket;
        assert_eq!(asked.pair.stack(0).udp_take_error(id), Ok(told), "family {family}, {error:?}");
    }
}

/// As on Linux: a socket that allows fragmentation of its datagrams gets no error about one that
/// was too large for the path.
#[test]
fn a_socket_that_allows_fragmentation_gets_no_mtu_error() {
    for (mode, told) in [
        (MtuDiscover::Dont, None),
        (MtuDiscover::Want, Some(StackError::MessageTooLong)),
        (MtuDiscover::Do, Some(StackError::MessageTooLong)),
    ] {
        let mut asked = Asked::new(0, true);
        let id = asked.socket;
        let mut options = asked.pair.stack(0).udp_options(id).unwrap();
        options.mtu_discover = mode;
        asked.pair.stack(0).udp_set_options(id, options).unwrap();
        asked.complain((3, 4));
        assert_eq!(asked.pair.stack(0).udp_take_error(id), Ok(told), "{mode:?}");
    }
}

/// RFC 1122 §4.1.3.3: an error does not remove datagrams received before or after it.
#[test]
fn datagrams_beside_an_error_are_received() {
    let mut asked = Asked::new(0, true);
    let server = open(&mut asked.pair, 1, asked.peer.address, asked.peer.port);
    let to = Endpoint::new(asked.pair.host(0).addresses[0], 1000);
    let say = |asked: &mut Asked, bytes: &[u8]| {
        send(&mut asked.pair, 1, server, to, bytes).unwrap();
        asked.pair.run_for(tickwire_stack::time::Span::from_millis(1));
    };
    say(&mut asked, b"before");
    asked.complain(REFUSED[0]);
    say(&mut asked, b"after");
    let id = asked.socket;
    assert_eq!(asked.pair.stack(0).udp_recv(id, false, &mut Vec::new()), Err(StackError::Refused));
    assert_eq!(received(&mut asked.pair, 0, id), [&b"before"[..], b"after"]);
}
