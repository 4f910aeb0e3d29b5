use super::*;
use std::sync::Arc;

pub(crate) const SIZE: u64 = 4096;

/// What the test does as the producer of a ring.
pub(crate) trait TestProducer {
    /// A record with this first word of its header.
    fn record(&self, header: u32, bytes: &[u8]);

    /// A frame, as divert puts it into the ring. Returns the bits of the consumer position that
    /// say which thread it wakes; `None` if the position has not caught up with it.
    fn put(&self, frame: &[u8]) -> Option<u64>;
}

impl TestProducer for OwnedRing {
    fn record(&self, header: u32, bytes: &[u8]) {
        let position = self.producer.load(Relaxed);
        self.set(position, &[&header.to_ne_bytes()[..], &[0; 4], bytes].concat());
        self.producer.store(position.wrapping_add((bytes.len() as u64 + HEADER + 7) & !7), Release);
    }

    fn put(&self, frame: &[u8]) -> Option<u64> {
        let position = self.producer.load(Relaxed);
        let consumer = self.page.consumer.load(SeqCst);
        let bytes = described(frame.len() as u32, frame);
        self.record(bytes.len() as u32, &bytes);
        (consumer & !7 == position).then_some(consumer & 7)
    }
}

/// What lies in a record: a frame's description, and the frame.
fn described(len: u32, frame: &[u8]) -> Vec<u8> {
    let mut bytes = 5_u64.to_ne_bytes().to_vec();
    bytes.extend(len.to_ne_bytes());
    bytes.extend(100_u16.to_ne_bytes());
    bytes.extend(CHECKSUM_GOOD.to_ne_bytes());
    bytes.extend(3_u32.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(frame);
    bytes
}

pub(crate) fn ring() -> RecordRing<Arc<OwnedRing>> {
    RecordRing::new(OwnedRing::new(SIZE as usize))
}

pub(crate) fn frames(ring: &RecordRing<Arc<OwnedRing>>) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let count = ring.read(64, |packet, read| {
        let mut frame = vec![0; packet.len as usize];
        read(0, &mut frame);
        got.push(frame);
    });
    assert_eq!(count as usize, got.len());
    got
}

#[test]
fn frames_come_out_as_they_were_put_in_and_none_wraps() {
    let ring = ring();
    assert!(ring.is_empty());
    for n in 0..200_u32 {
        let frame: Vec<u8> = (0..60 + n).map(|at| (at + n) as u8).collect();
        ring.memory().put(&frame);
        assert!(!ring.is_empty());
        assert_eq!(frames(&ring), [frame]);
        assert!(ring.is_empty());
    }
    ring.memory().put(&[7; 60]);
    let mut seen = None;
    ring.read(1, |packet, _| seen = Some(packet));
    let at = Instant::from_nanos(5);
    assert_eq!(seen, Some(ReceiveMetadata { len: 60, segment: 100, checksum: Checksum::Good, at, interface: 3 }));
}

#[test]
fn at_most_as_many_records_are_read_as_are_wanted_and_none_before_it_is_complete() {
    let ring = ring();
    for n in 0..3 {
        ring.memory().put(&[n; 60]);
    }
    assert_eq!(ring.read(2, |_, _| ()), 2);
    let position = ring.memory().producer.load(Relaxed);
    ring.memory().record(BUSY | 84, &described(60, &[9; 60]));
    assert_eq!(frames(&ring), [[2_u8; 60]]);
    assert!(frames(&ring).is_empty() && !ring.is_empty());
    ring.memory().set(position, &84_u32.to_ne_bytes());
    assert_eq!(frames(&ring), [[9_u8; 60]]);
}

#[test]
fn what_is_no_frame_is_skipped() {
    let ring = ring();
    ring.memory().record(DISCARDED | 84, &described(60, &[1; 60]));
    ring.memory().record(8, &[0; 8]);
    // More than the record has.
    ring.memory().record(84, &described(61, &[1; 60]));
    ring.memory().put(&[2; 60]);
    assert_eq!(frames(&ring), [[2_u8; 60]]);
    assert!(ring.is_empty());
}

#[test]
fn whatever_is_written_into_the_memory_no_read_goes_outside_and_the_ring_recovers() {
    let ring = ring();
    for read in [1, 7, 8, SIZE - 1, SIZE + 8, 1 << 40, u64::MAX - 7, u64::MAX] {
        for header in [0, 1, 84, SIZE as u32 - 8, SIZE as u32, BUSY - 1, u32::MAX, BUSY, DISCARDED] {
            for behind in [0, 8, 96, SIZE, SIZE + 1, u64::MAX] {
                ring.memory().page.read.store(read, Relaxed);
                ring.memory().producer.store(read.wrapping_add(behind), Relaxed);
                ring.memory().set(read & !7, &header.to_ne_bytes());
                frames(&ring);
                ring.forge_consumer(read);
                ring.arm(read as usize);
                ring.disarm(read as usize);
            }
        }
        // The producer goes on from where it was.
        ring.memory().producer.store(read & !7, Relaxed);
        frames(&ring);
        ring.memory().page.read.store(read & !7, Relaxed);
        ring.memory().put(&[4; 60]);
        assert_eq!(frames(&ring), [[4_u8; 60]]);
    }
}

#[test]
fn a_record_wakes_waiters_only_while_the_ring_is_armed_and_never_while_threads_poll() {
    let ring = ring();
    assert_eq!(ring.memory().put(&[0; 60]), Some(0), "nothing has been read yet");
    for _ in 0..100 {
        frames(&ring);
        assert_eq!(ring.memory().put(&[0; 60]), None, "a thread polls");
    }
    frames(&ring);
    ring.arm(3);
    assert!(ring.is_empty());
    assert_eq!(ring.memory().put(&[0; 60]), Some(0));
    // Another thread reads it before the woken one is awake.
    frames(&ring);
    assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_NONE));
    frames(&ring);
    ring.disarm(3);
    ring.arm(3);
    assert_eq!(ring.memory().put(&[0; 60]), Some(0));
}

#[test]
fn the_standby_thread_is_woken_while_none_sleeps_for_packets_and_none_polls() {
    let ring = ring();
    assert!(ring.arm_standby() && ring.standby_is_armed());
    assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_STANDBY));
    assert!(!ring.arm_standby(), "something waits to be read");
    frames(&ring);
    assert!(ring.arm_standby());
    ring.arm(1);
    assert_eq!(ring.memory().put(&[0; 60]), Some(0), "one that sleeps for packets");
    frames(&ring);
    // It was killed in its sleep.
    ring.forget_process(1);
    assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_STANDBY));
    frames(&ring);
    ring.disarm_standby();
    assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_NONE), "a thread polls");
}

/// A ring's data that lies there once.
struct Once(Arc<OwnedRing>);

impl RingMemory for Once {
    fn size(&self) -> u64 {
        RingMemory::size(&self.0)
    }
    fn consumer_page(&self) -> &ConsumerPage {
        self.0.consumer_page()
    }
    fn producer(&self) -> &AtomicU64 {
        RingMemory::producer(&self.0)
    }
    fn readable(&self) -> u64 {
        RingMemory::size(&self.0)
    }
    fn header(&self, at: usize) -> u32 {
        self.0.header(at)
    }
    fn copy(&self, at: usize, to: &mut [u8]) {
        assert!(at + to.len() <= SIZE as usize);
        self.0.copy(at, to);
    }
}

#[test]
fn a_record_that_wraps_is_no_frame_where_the_data_lies_once() {
    let memory = OwnedRing::new(SIZE as usize);
    let ring = RecordRing::new(Once(Arc::clone(&memory)));
    let count = || ring.read(8, |_, _| ());
    memory.record(DISCARDED | (SIZE as u32 - 80 - 8), &[0; SIZE as usize - 80 - 8]);
    memory.put(&[1; 60]);
    assert_eq!(count(), 0, "its end would be at the ring's beginning");
    memory.put(&[2; 60]);
    assert_eq!(count(), 1);
}
