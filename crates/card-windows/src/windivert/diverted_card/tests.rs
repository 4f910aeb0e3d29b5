use super::super::batch::tests::fill;
use super::super::driver::Opener;
use super::super::ip_packet::tests::{v4, v6};
use super::super::ip_packet::{ETHERNET, NEIGHBOUR};
use super::super::record::tests::arrived;
use super::*;
use std::sync::{Mutex, MutexGuard};
use tickwire_stack::addr::Mac;

const NIC: NicIndex = 3;
const OWN: Mac = Mac([2, 0, 0, 0, 0, 7]);
const HERE: [u8; 4] = [10, 0, 0, 1];

type Packets = Vec<(AddressRecord, Vec<u8>)>;

/// What a test sees of the driver.
#[derive(Default)]
struct State {
    /// The filters of all handles that were opened.
    filters: Vec<String>,
    /// Batches that wait at each handle; an empty one stands for a packet without room.
    queued: Vec<VecDeque<Packets>>,
    stopped: Vec<bool>,
    closed: Vec<usize>,
    sent: Packets,
    refuses: bool,
    is_gone: bool,
    waits: u32,
}

#[derive(Clone, Default)]
struct TestDriver(Arc<Mutex<State>>);

impl TestDriver {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn filters(&self) -> usize {
        self.state().filters.len()
    }

    fn stopped(&self, handle: usize) -> bool {
        self.state().stopped[handle]
    }

    fn is_closed(&self, handle: usize) -> bool {
        self.state().closed.contains(&handle)
    }

    fn queue(&self, handle: usize, packets: &[(AddressRecord, Vec<u8>)]) {
        self.state().queued[handle].push_back(packets.to_vec());
    }
}

struct TestHandle(TestDriver, usize);

impl DivertHandle for TestHandle {
    fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<Reception> {
        let mut state = self.0.state();
        if state.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match state.queued[self.1].pop_front() {
            Some(packets) if packets.is_empty() => Ok(Reception::Truncated),
            Some(packets) => {
                fill(batch, &packets);
                Ok(Reception::Packets)
            }
            None if state.stopped[self.1] => Ok(Reception::Ended),
            None => Ok(Reception::Nothing),
        }
    }

    fn send(&mut self, batch: &OutgoingBatch) -> io::Result<()> {
        let mut state = self.0.state();
        if state.refuses {
            return Err(io::ErrorKind::HostUnreachable.into());
        }
        let mut rest = batch.bytes();
        for record in batch.records() {
            let (packet, others) = rest.split_at(ip_packet::extent(rest).unwrap().1);
            state.sent.push((*record, packet.to_vec()));
            rest = others;
        }
        assert!(rest.is_empty());
        Ok(())
    }

    fn stop(&mut self) {
        self.0.state().stopped[self.1] = true;
    }
}

impl Drop for TestHandle {
    fn drop(&mut self) {
        self.0.state().closed.push(self.1);
    }
}

impl DivertDriver for TestDriver {
    type Handle = TestHandle;

    fn opener(&self) -> Opener<TestHandle> {
        let driver = self.clone();
        Box::new(move |filter| {
            let mut state = driver.state();
            if state.refuses {
                return Err(WinDivertError::Driver { code: 5 });
            }
            state.filters.push(filter.into());
            state.queued.push(VecDeque::new());
            state.stopped.push(false);
            Ok(TestHandle(driver.clone(), state.filters.len() - 1))
        })
    }

    fn wait(&mut self, _: &[TestHandle], _: Duration) {
        self.state().waits += 1;
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        unreachable!("no test sleeps")
    }
}

fn card() -> (DivertedCard<TestDriver>, TestDriver) {
    let driver = TestDriver::default();
    let nic = NicDescription { index: NIC, mac: OWN, mtu: 1500 };
    let clock =
        CardClock { now: || Instant::from_nanos(1000), at_count: |count| Instant::from_nanos(count as u64 * 10) };
    (DivertedCard::open(driver.clone(), nic, clock).unwrap(), driver)
}

fn frame_of(packet: &[u8], ethertype: [u8; 2]) -> Vec<u8> {
    [&OWN.0[..], &NEIGHBOUR.0, &ethertype, packet].concat()
}

#[test]
fn packets_of_all_batches_become_frames_in_order() {
    let (mut card, driver) = card();
    let (one, two, three) = (v4(17, HERE, 30), v6(6, [0xfd; 16], 30), v4(6, HERE, 3000));
    driver.queue(
        0,
        &[
            (arrived(NIC, 5, &[RecordFlag::UdpChecksum]), one.clone()),
            (arrived(NIC, 6, &[RecordFlag::Ipv6]), two.clone()),
        ],
    );
    driver.queue(0, &[(arrived(NIC, 7, &[]), three.clone())]);
    let frame = card.receive().unwrap().unwrap();
    assert_eq!(frame.bytes, frame_of(&one, [8, 0]));
    let expected = ReceiveMetadata {
        len: (one.len() + ETHERNET) as u32,
        segment: 0,
        checksum: Checksum::Unknown,
        at: Instant::from_nanos(50),
        interface: NIC,
    };
    assert_eq!((frame.packet, frame.tag), (expected, None));
    let frame = card.receive().unwrap().unwrap();
    assert_eq!((frame.bytes, frame.packet.checksum), (&frame_of(&two, [0x86, 0xdd])[..], Checksum::Good));
    let frame = card.receive().unwrap().unwrap();
    assert_eq!((frame.bytes.len(), frame.packet.segment > 0), (three.len() + ETHERNET, true));
    assert_eq!(card.receive().unwrap(), None);
}

#[test]
fn a_stamp_that_is_impossible_is_the_time_of_the_batch() {
    let (mut card, driver) = card();
    for (timestamp, at) in [(101, 1000), (100, 1000), (99, 990), (0, 1000), (-5, 1000), (i64::MAX / 100, 1000)] {
        driver.queue(0, &[(arrived(NIC, timestamp, &[]), v4(17, HERE, 30))]);
        assert_eq!(card.receive().unwrap().unwrap().packet.at, Instant::from_nanos(at), "{timestamp}");
    }
}

#[test]
fn what_is_given_back_is_as_it_was_received() {
    let (mut card, driver) = card();
    let record = arrived(NIC, 5, &[RecordFlag::Impostor, RecordFlag::IpChecksum]);
    let packets = [(record, v4(17, HERE, 30)), (arrived(NIC, 6, &[]), v4(6, HERE, 40)), (record, v4(17, HERE, 50))];
    driver.queue(0, &packets);
    for _ in &packets {
        card.receive().unwrap().unwrap();
        card.pass().unwrap();
    }
    assert!(driver.state().sent.is_empty(), "they are one call");
    assert_eq!(card.flush(), 0);
    assert_eq!(driver.state().sent, packets);
    assert!(card.pass().is_err(), "nothing was received");
}

#[test]
fn a_sent_frame_loses_its_header_and_padding() {
    let (mut card, driver) = card();
    let packet = v4(17, [10, 0, 0, 2], 10);
    let mut frame = frame_of(&packet, [8, 0]);
    frame.resize(60, 0);
    card.send(&frame).unwrap();
    for broken in [&frame[..20], &frame_of(&packet, [8, 6]), &[][..]] {
        assert!(card.send(broken).is_err());
    }
    assert_eq!(card.flush(), 0);
    assert_eq!(driver.state().sent, [(AddressRecord::of_sent(NIC, tickwire_stack::addr::Family::V4), packet)]);
}

#[test]
fn more_packets_than_a_call_accepts_are_several_calls_and_a_refused_call_is_counted() {
    let (mut card, driver) = card();
    let frame = frame_of(&v4(17, [10, 0, 0, 2], 10), [8, 0]);
    (0..600).for_each(|_| card.send(&frame).unwrap());
    assert_eq!(card.flush(), 0);
    assert_eq!(driver.state().sent.len(), 600);
    driver.state().refuses = true;
    card.send(&frame).unwrap();
    assert_eq!((card.flush(), card.flush()), (1, 0));
}

#[test]
fn the_larger_filter_is_there_before_the_smaller_one_stops() {
    let (mut card, driver) = card();
    assert_eq!(driver.state().filters, ["false"]);
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    driver.queue(1, &[(arrived(NIC, 1, &[]), v4(17, HERE, 1))]);
    driver.queue(1, &[(arrived(NIC, 2, &[]), v4(17, HERE, 2))]);
    card.set_claimed(Protocol::Tcp, 8, true).unwrap();
    driver.queue(2, &[(arrived(NIC, 3, &[]), v4(17, HERE, 3))]);
    {
        let state = driver.state();
        assert!(state.filters[1].contains("udp.DstPort == 7") && state.filters[2].contains("tcp.DstPort == 8"));
        assert_eq!((&state.stopped[..], &state.closed[..]), (&[true, true, false][..], &[0, 1][..]));
    }
    for length in 1..=3 {
        assert_eq!(card.receive().unwrap().unwrap().bytes.len(), ETHERNET + 20 + length, "what came first");
    }
    assert_eq!(card.receive().unwrap(), None);
}

#[test]
fn a_released_port_stays_in_the_filter_for_a_while_and_can_be_claimed_again() {
    let (mut card, driver) = card();
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    card.set_claimed(Protocol::Udp, 7, false).unwrap();
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    assert_eq!(driver.state().filters.len(), 2);
    assert!(less(&mut card).is_none(), "nothing is to be taken out");
    card.set_claimed(Protocol::Udp, 7, false).unwrap();
    let prepared = less(&mut card).unwrap();
    work(&mut card, prepared);
    assert_eq!(driver.state().filters[2], "false");
}

#[test]
fn a_port_that_the_driver_refuses_stays_the_kernels() {
    let (mut card, driver) = card();
    driver.state().refuses = true;
    let refused = card.set_claimed(Protocol::Udp, 7, true).unwrap_err();
    assert!(refused.to_string().contains("administrator"), "{refused}");
    driver.state().refuses = false;
    card.set_claimed(Protocol::Udp, 9, true).unwrap();
    let filter = driver.state().filters[1].clone();
    assert!(filter.contains("== 9") && !filter.contains("== 7 "), "{filter}");
}

#[test]
fn too_many_ports_leave_those_claimed_that_were() {
    let (mut card, driver) = card();
    let mut ports = (1..).step_by(2);
    let refused = ports.find_map(|port| card.set_claimed(Protocol::Udp, port, true).err()).unwrap();
    assert!(refused.to_string().contains("neighbouring ports"), "{refused}");
    let opened = driver.state().filters.len();
    card.set_claimed(Protocol::Udp, 1, false).unwrap();
    card.set_claimed(Protocol::Udp, 1001, true).unwrap();
    assert_eq!(driver.state().filters.len(), opened + 1);
}

#[test]
fn what_has_not_arrived_here_is_given_back_and_no_lane_sees_it() {
    let (mut card, driver) = card();
    let others = [
        (arrived(NIC + 1, 1, &[]), v4(17, HERE, 30)),
        (arrived(NIC, 1, &[RecordFlag::Outbound]), v4(17, HERE, 31)),
        (arrived(NIC, 1, &[RecordFlag::Loopback]), v4(17, HERE, 32)),
    ];
    driver.queue(0, &others);
    driver.queue(0, &[(arrived(NIC, 1, &[RecordFlag::Sniffed]), v4(17, HERE, 33))]);
    driver.queue(0, &[(arrived(NIC, 1, &[]), vec![0x45, 0, 0, 99])]);
    driver.queue(0, &[]);
    assert_eq!(card.receive().unwrap(), None);
    card.flush();
    assert_eq!(driver.state().sent, others);
    assert_eq!(card.losses(), CardLosses { malformed: 1, strays: 4, truncated: 1, no_room: 0 });
}

#[test]
fn a_driver_that_is_gone_is_an_error() {
    let (mut card, driver) = card();
    driver.state().is_gone = true;
    assert!(card.receive().is_err());
    let (mut card, driver) = self::card();
    driver.state().stopped[0] = true;
    assert!(card.receive().is_err(), "stopped by another program");
}

#[test]
fn a_stopped_handle_that_does_not_end_is_closed_in_the_end() {
    let (mut card, driver) = card();
    for port in 1..=100 {
        card.set_claimed(Protocol::Udp, port, true).unwrap();
        let last = driver.state().stopped.len() - 1;
        // It takes long to stop.
        driver.queue(last, &[(arrived(NIC, 1, &[]), v4(17, HERE, 1))]);
        driver.state().stopped.iter_mut().for_each(|stopped| *stopped = false);
        assert!(card.handles.len() <= MOST_HANDLES + 1);
    }
    let received = std::iter::from_fn(|| card.receive().unwrap().map(|_| ())).count();
    assert_eq!(received, 100);
}

#[test]
fn waiting_ends_at_once_while_packets_wait() {
    let (mut card, driver) = card();
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    driver.queue(1, &[(arrived(NIC, 1, &[]), v4(17, HERE, 1))]);
    card.set_claimed(Protocol::Udp, 9, true).unwrap();
    card.wait(Duration::from_secs(100));
    assert_eq!(driver.state().waits, 0);
    card.receive().unwrap().unwrap();
    card.wait(Duration::from_secs(100));
    assert_eq!(driver.state().waits, 1);
}

#[test]
fn connections_in_a_row_from_the_block_open_one_handle() {
    let (mut card, driver) = card();
    card.set_block(5000..=5999);
    for port in 5000..5200 {
        card.set_claimed(Protocol::Tcp, port, true).unwrap();
        card.set_claimed(Protocol::Tcp, port, false).unwrap();
        card.wait(Duration::ZERO);
    }
    assert_eq!(driver.state().filters.len(), 2, "one that takes nothing, and one for the block");
    assert!(driver.state().filters[1].contains("(tcp.DstPort >= 5000 and tcp.DstPort <= 5999)"));
    card.set_claimed(Protocol::Udp, 5000, true).unwrap();
    card.set_claimed(Protocol::Tcp, 80, true).unwrap();
    let last = driver.state().filters.last().unwrap().clone();
    assert!(last.contains("(tcp.DstPort == 80 or (tcp.DstPort >= 5000 and tcp.DstPort <= 5999))"), "{last}");
    assert!(last.contains("(udp.DstPort >= 5000 and udp.DstPort <= 5999)"), "{last}");
}

#[test]
fn a_block_that_the_driver_refuses_is_tried_again() {
    let (mut card, driver) = card();
    card.set_block(5000..=5999);
    driver.state().refuses = true;
    assert!(card.set_claimed(Protocol::Tcp, 5000, true).is_err());
    driver.state().refuses = false;
    card.set_claimed(Protocol::Tcp, 5000, true).unwrap();
    assert_eq!(driver.state().filters.len(), 2);
}

/// What is to be done some time after the last change.
fn less(card: &mut DivertedCard<TestDriver>) -> Option<SlowWork> {
    card.changed -= filter_change::SETTLE;
    card.prepare_less()
}

/// Does the work of a driver as another thread of the service does.
fn work(card: &mut DivertedCard<TestDriver>, work: SlowWork) {
    let done = std::thread::spawn(work).join().unwrap().unwrap();
    card.take_prepared(done);
}

#[test]
fn a_handle_that_was_opened_on_another_thread_is_the_one_for_the_port() {
    let (mut card, driver) = card();
    let port = (Protocol::Udp, 7);
    let prepared = card.prepare(&[port]).unwrap();
    work(&mut card, prepared);
    assert!(!driver.state().stopped[0], "the port is not claimed yet");
    driver.queue(1, &[(arrived(NIC, 5, &[]), v4(17, HERE, 30))]);
    card.set_claimed(port.0, port.1, true).unwrap();
    assert_eq!((driver.filters(), driver.stopped(0)), (2, true));
    assert!(card.receive().unwrap().is_some(), "what it has taken before that");
    assert!(card.prepare(&[port]).is_none(), "it is in the filter");
    // One that is not needed after all is closed.
    let prepared = card.prepare(&[(Protocol::Tcp, 80)]).unwrap();
    work(&mut card, prepared);
    card.set_claimed(Protocol::Tcp, 81, true).unwrap();
    assert_eq!((driver.filters(), driver.is_closed(2)), (4, true));
    assert!(!driver.state().filters[3].contains("80"));
}

#[test]
fn what_a_handle_has_taken_that_is_not_needed_after_all_is_received() {
    let (mut card, driver) = card();
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    let prepare = |card: &mut DivertedCard<TestDriver>, port| {
        let prepared = card.prepare(&[(Protocol::Udp, port)]).unwrap();
        work(card, prepared);
    };
    // Another one is opened instead; another port is claimed; none is.
    let ends: [fn(&mut DivertedCard<TestDriver>); 3] = [
        |card| {
            let prepared = card.prepare(&[(Protocol::Udp, 9)]).unwrap();
            work(card, prepared);
            card.set_claimed(Protocol::Udp, 9, true).unwrap();
        },
        |card| card.set_claimed(Protocol::Tcp, 81, true).unwrap(),
        |card| drop(card.prepare_less()),
    ];
    for end in ends {
        let handle = driver.filters();
        prepare(&mut card, 8);
        driver.queue(handle, &[(arrived(NIC, 5, &[]), v4(17, HERE, 30))]);
        end(&mut card);
        assert!(driver.stopped(handle));
        assert!(card.receive().unwrap().is_some() && card.receive().unwrap().is_none());
    }
    // The larger filter stays, as the port was claimed again.
    card.set_claimed(Protocol::Udp, 7, false).unwrap();
    let (prepared, handle) = (less(&mut card).unwrap(), driver.filters());
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    work(&mut card, prepared);
    assert!(driver.stopped(handle) && card.filtered.contains(Protocol::Udp, 7));
}

#[test]
fn ports_that_are_not_claimed_any_more_are_left_out_on_another_thread() {
    let (mut card, driver) = card();
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    assert!(card.prepare_less().is_none());
    card.set_claimed(Protocol::Udp, 7, false).unwrap();
    assert!(card.prepare_less().is_none(), "it may be claimed again soon");
    let prepared = less(&mut card).unwrap();
    // It is claimed meanwhile: the larger filter stays.
    card.set_claimed(Protocol::Udp, 7, true).unwrap();
    work(&mut card, prepared);
    assert_eq!((card.filtered.contains(Protocol::Udp, 7), driver.stopped(1)), (true, false));
    card.set_claimed(Protocol::Udp, 7, false).unwrap();
    let prepared = less(&mut card).unwrap();
    work(&mut card, prepared);
    assert_eq!((card.filtered.contains(Protocol::Udp, 7), driver.stopped(1)), (false, true));
    let prepared = less(&mut card).unwrap();
    work(&mut card, prepared);
    assert!(driver.state().closed.contains(&1), "another thread closes it, too");
    assert!(less(&mut card).is_none());
}
