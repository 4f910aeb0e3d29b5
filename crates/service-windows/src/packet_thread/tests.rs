use super::*;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Instant;
use tickwire_lane::record_ring::{OwnedRing, RecordProducer, RecordRing};
use tickwire_registry::{Bound, Registry};
use tickwire_stack::addr::{Address, Mac};
use tickwire_stack::{Checksum, ReceiveMetadata};
use tickwire_steer::tables::{AddressKey, EgressNic, NicIndex, Protocol, SourceKey};

const NIC: NicIndex = 3;
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HERE: [u8; 4] = [10, 77, 0, 1];
const PEER: [u8; 4] = [10, 77, 0, 2];

/// A card of which the test is the wire.
#[derive(Default)]
struct Wire {
    state: Mutex<WireState>,
    changed: Condvar,
}

#[derive(Default)]
struct WireState {
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    passed: Vec<Vec<u8>>,
    claimed: Vec<(Protocol, u16)>,
    refuses: Option<u16>,
    is_woken: bool,
    is_asleep: bool,
    is_gone: bool,
}

impl Wire {
    /// Waits until something is so.
    fn until<T>(&self, mut check: impl FnMut(&mut WireState) -> Option<T>) -> T {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(found) = check(&mut state) {
                return found;
            }
            state = self.changed.wait(state).unwrap();
        }
    }

    fn change(&self, change: impl FnOnce(&mut WireState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

struct TestCard {
    wire: Arc<Wire>,
    /// What was received last.
    frame: Vec<u8>,
    /// What has been sent and given back since the last flush.
    kept: WireState,
}

impl PacketCard for TestCard {
    fn nic(&self) -> NicIndex {
        NIC
    }

    fn receive(&mut self) -> io::Result<Option<ReceivedFrame<'_>>> {
        let mut state = self.wire.state.lock().unwrap();
        if state.is_gone {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let at = tickwire_stack::time::Instant::from_nanos(5);
        let Some(bytes) = state.received.pop_front() else { return Ok(None) };
        self.frame = bytes;
        let (len, checksum) = (self.frame.len() as u32, Checksum::Good);
        let packet = ReceiveMetadata { len, segment: 0, checksum, at, interface: NIC };
        Ok(Some(ReceivedFrame { bytes: &self.frame, packet, tag: None }))
    }

    fn pass(&mut self) -> io::Result<()> {
        self.kept.passed.push(self.frame.clone());
        Ok(())
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.kept.sent.push(frame.to_vec());
        Ok(())
    }

    fn flush(&mut self) -> u64 {
        let WireState { sent, passed, .. } = std::mem::take(&mut self.kept);
        self.wire.change(|state| {
            state.sent.extend(sent);
            state.passed.extend(passed);
        });
        0
    }

    fn set_claimed(&mut self, protocol: Protocol, port: u16, is_claimed: bool) -> io::Result<()> {
        let mut state = self.wire.state.lock().unwrap();
        if state.refuses == Some(port) && is_claimed {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        state.claimed.retain(|claimed| *claimed != (protocol, port));
        if is_claimed {
            state.claimed.push((protocol, port));
        }
        Ok(())
    }

    fn wait(&mut self, _: Duration) {
        self.wire.change(|state| state.is_asleep = true);
        self.wire.until(|state| (state.is_woken || !state.received.is_empty() || state.is_gone).then_some(()));
        self.wire.change(|state| (state.is_asleep, state.is_woken) = (false, false));
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::new(TestWaker(Arc::clone(&self.wire)))
    }
}

struct TestWaker(Arc<Wire>);

impl CardWaker for TestWaker {
    fn wake(&self) {
        self.0.change(|state| state.is_woken = true);
    }
}

struct Woken(Sender<Wakes>);

impl LaneWaker for Woken {
    fn wake(&self, wakes: Wakes) {
        let _ = self.0.send(wakes);
    }
}

/// The time since the first call.
pub(super) fn now_ns() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// An Ethernet frame with a UDP datagram over IPv4.
fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16), data: &[u8]) -> Vec<u8> {
    let (transport, total) = (8 + data.len() as u16, 28 + data.len() as u16);
    let mut frame = [MAC.0, MAC.0].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([from.0, to.0].concat());
    for word in [from.1, to.1, transport, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(data);
    frame
}

/// What a program says of a packet that it sends.
fn outgoing() -> ReceiveMetadata {
    let at = tickwire_stack::time::Instant::from_nanos(0);
    ReceiveMetadata { len: 0, segment: 0, checksum: Checksum::Unknown, at, interface: 0 }
}

/// A thread whose lane 7 has a program, which is the test.
struct Host {
    wire: Arc<Wire>,
    thread: PacketThread<Arc<OwnedRing>, Arc<OwnedRing>>,
    receive: RecordRing<Arc<OwnedRing>>,
    transmit: RecordProducer<Arc<OwnedRing>>,
    woken: Receiver<Wakes>,
    registry: Registry,
}

impl Host {
    fn new() -> Self {
        let wire = Arc::new(Wire::default());
        let card = TestCard { wire: Arc::clone(&wire), frame: Vec::new(), kept: WireState::default() };
        let thread = PacketThread::start(Box::new(card), now_ns).unwrap();
        let (receive, transmit) = (OwnedRing::new(1 << 16), OwnedRing::new(1 << 16));
        let rings = LaneRings {
            receive: RecordProducer::new(Arc::clone(&receive)),
            transmit: RecordRing::new(Arc::clone(&transmit)),
        };
        let (waker, woken) = channel();
        thread
            .call(move |path| {
                let tables = path.forwarder().tables_mut();
                let address = Address::v4(HERE);
                tables.nics.insert(NIC, EgressNic { mtu: 1500 });
                tables.addresses.insert(AddressKey { nic: NIC, address }, MAC);
                tables.sources.insert(SourceKey { address, mac: MAC }, NIC);
                path.add_lane(7, rings, Box::new(Woken(waker)));
            })
            .unwrap();
        let (receive, transmit) = (RecordRing::new(receive), RecordProducer::new(transmit));
        Self { wire, thread, receive, transmit, woken, registry: Registry::default() }
    }

    fn claim(&mut self, port: u16) -> io::Result<()> {
        let local = Endpoint::new(Address::v4(HERE), port);
        let bound = Bound { protocol: Protocol::Udp, local, dual: false, shares: false, reuses: false };
        let (id, changes) = self.registry.claim_bound(7, bound).unwrap();
        let done = self.thread.call(move |path| path.apply(&changes)).unwrap();
        if done.is_err() {
            let _ = self.registry.release(7, id);
        }
        done
    }

    fn asleep(&self) {
        self.wire.until(|state| state.is_asleep.then_some(()));
    }
}

#[test]
fn packets_cross_while_the_thread_sleeps_and_wake_both_sides() {
    let mut host = Host::new();
    host.claim(9).unwrap();
    host.asleep();
    host.receive.arm(0);
    let (own, others) = (udp((PEER, 5), (HERE, 9), b"in"), udp((PEER, 5), (HERE, 10), b"kernel"));
    host.wire.change(|state| state.received.extend([own.clone(), others.clone()]));
    assert_eq!(host.woken.recv(), Ok(Wakes::Waiters));
    let mut seen = Vec::new();
    host.receive.read(8, |packet, read| {
        seen.resize(packet.len as usize, 0);
        read(0, &mut seen);
    });
    assert_eq!(seen, own);
    assert_eq!(host.wire.until(|state| state.passed.pop()), others);
    host.asleep();
    let answer = udp((HERE, 9), (PEER, 5), b"out");
    assert!(host.transmit.put(&outgoing(), &[&answer]));
    assert_eq!(host.transmit.publish(), Wakes::Waiters);
    host.thread.waker().wake();
    assert_eq!(host.wire.until(|state| state.sent.pop()), answer);
}

#[test]
fn what_was_sent_before_a_claim_is_released_still_leaves() {
    let mut host = Host::new();
    host.claim(9).unwrap();
    host.asleep();
    // More than a lane's turn. The thread is not woken for them, as if it had not come to them yet.
    let datagrams: Vec<Vec<u8>> = (0..100).map(|number| udp((HERE, 9), (PEER, 5), &[number])).collect();
    for datagram in &datagrams {
        assert!(host.transmit.put(&outgoing(), &[datagram]));
    }
    let _ = host.transmit.publish();
    host.thread.drain(7);
    let claim = host.registry.of_lane(7)[0];
    let changes = host.registry.release(7, claim).unwrap();
    assert_eq!(host.thread.call(move |path| path.withdraw(&changes)), Some(0));
    assert_eq!(host.wire.until(|state| Some(state.sent.clone())), datagrams);
}

#[test]
fn the_driver_takes_the_packets_of_claimed_ports_and_a_refusal_changes_nothing() {
    let mut host = Host::new();
    host.claim(9).unwrap();
    host.wire.change(|state| state.refuses = Some(11));
    assert_eq!(host.claim(11).map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
    assert_eq!(host.wire.until(|state| Some(state.claimed.clone())), [(Protocol::Udp, 9)]);
    let ports = host.thread.call(|path| path.forwarder().tables().ports.len());
    assert_eq!(ports, Some(1));
    let claims = host.registry.of_lane(7);
    for claim in claims {
        let changes = host.registry.release(7, claim).unwrap();
        host.thread.call(move |path| path.apply(&changes)).unwrap().unwrap();
    }
    assert!(host.wire.until(|state| Some(state.claimed.is_empty())));
}

#[test]
fn a_card_that_is_gone_ends_the_thread() {
    let host = Host::new();
    host.wire.change(|state| state.is_gone = true);
    while host.thread.call(|_| ()).is_some() {}
    drop(host);
}
