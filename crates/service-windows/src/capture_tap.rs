//! Copies of packets for `tickwire capture`: other tools see no packet of a lane. It costs one look
//! while no capture runs.
//!
//! A capture has a ring of records of its own, like a lane's receive ring. If its reader does not
//! keep up, packets are left out of the capture and counted; none waits for it.

use std::collections::{BTreeMap, BTreeSet};
use tickwire_lane::capture_record::CaptureRecord;
use tickwire_lane::record_ring::{ProducerMemory, RecordProducer, Wakes};
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, ReceiveMetadata};
use tickwire_steer::tables::LaneNumber;

/// The number of a capture.
pub type CaptureNumber = u64;

/// Whose packets a capture has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapturedLanes {
    /// Those of all lanes, also of those that begin later.
    All,
    /// Those of these lanes.
    These(BTreeSet<LaneNumber>),
}

impl CapturedLanes {
    fn has(&self, lane: LaneNumber) -> bool {
        match self {
            Self::All => true,
            Self::These(lanes) => lanes.contains(&lane),
        }
    }
}

/// Where one capture's packets go.
#[derive(Debug)]
pub struct CaptureTap<P> {
    /// Whose packets.
    pub lanes: CapturedLanes,
    /// At most so many bytes of each.
    pub snaplen: usize,
    /// The ring that its reader reads.
    pub ring: RecordProducer<P>,
}

/// All captures.
#[derive(Debug)]
pub struct CaptureTaps<P> {
    taps: BTreeMap<CaptureNumber, CaptureTap<P>>,
    lost: u64,
}

impl<P> Default for CaptureTaps<P> {
    fn default() -> Self {
        Self { taps: BTreeMap::new(), lost: 0 }
    }
}

impl<P: ProducerMemory> CaptureTaps<P> {
    /// A capture begins.
    pub fn add(&mut self, number: CaptureNumber, tap: CaptureTap<P>) {
        self.taps.insert(number, tap);
    }

    /// A capture has ended.
    pub fn remove(&mut self, number: CaptureNumber) {
        self.taps.remove(&number);
    }

    /// A lane has ended. A later one may get its number, and be another user's.
    pub fn forget_lane(&mut self, lane: LaneNumber) {
        for tap in self.taps.values_mut() {
            if let CapturedLanes::These(lanes) = &mut tap.lanes {
                lanes.remove(&lane);
            }
        }
    }

    /// Packets that were left out, because their reader did not keep up.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Copies a packet for those that want it. `record` has all but the packet's length.
    #[inline]
    pub fn copy(&mut self, record: CaptureRecord, frame: &[u8]) {
        if !self.taps.is_empty() {
            self.copy_to_all(CaptureRecord { length: frame.len() as u32, ..record }, frame);
        }
    }

    fn copy_to_all(&mut self, record: CaptureRecord, frame: &[u8]) {
        for tap in self.taps.values_mut().filter(|tap| tap.lanes.has(record.lane)) {
            let kept = &frame[..frame.len().min(tap.snaplen)];
            let head = record.head(kept.len() as u32);
            let packet = ReceiveMetadata {
                len: 0,
                segment: 0,
                checksum: Checksum::Unknown,
                at: Instant::from_nanos(record.monotonic_ns),
                interface: record.nic,
            };
            if !tap.ring.put(&packet, &[&head, kept]) {
                self.lost += 1;
            }
        }
    }

    /// Shows readers what was copied since the last call, and has those that sleep woken.
    pub fn publish(&mut self, mut wake: impl FnMut(CaptureNumber, Wakes)) {
        for (&number, tap) in &mut self.taps {
            match tap.ring.publish() {
                Wakes::None => (),
                wakes => wake(number, wakes),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tickwire_lane::record_ring::{OwnedRing, RecordRing};

    const SIZE: usize = 4096;

    const RECORD: CaptureRecord = CaptureRecord { monotonic_ns: 5, lane: 1, nic: 2, length: 0, outgoing: false };

    fn tap(lanes: CapturedLanes, snaplen: usize) -> (CaptureTap<Arc<OwnedRing>>, RecordRing<Arc<OwnedRing>>) {
        let memory = OwnedRing::new(SIZE);
        let ring = RecordProducer::new(Arc::clone(&memory));
        (CaptureTap { lanes, snaplen, ring }, RecordRing::new(memory))
    }

    fn read(ring: &RecordRing<Arc<OwnedRing>>) -> Vec<(CaptureRecord, Vec<u8>)> {
        let mut all = Vec::new();
        ring.read(u32::MAX, |packet, copy| {
            let mut entry = vec![0; packet.len as usize];
            copy(0, &mut entry);
            let (record, bytes) = CaptureRecord::parse(&entry).unwrap();
            all.push((record, bytes.to_vec()));
        });
        all
    }

    #[test]
    fn each_capture_has_the_packets_of_its_lanes() {
        let mut taps = CaptureTaps::default();
        taps.copy(RECORD, &[0; 60]);
        let (of_all, all) = tap(CapturedLanes::All, 1000);
        let (of_two, two) = tap(CapturedLanes::These([2].into()), 10);
        taps.add(1, of_all);
        taps.add(2, of_two);
        taps.copy(RECORD, &[1; 60]);
        let outgoing = CaptureRecord { lane: 2, nic: 0, outgoing: true, ..RECORD };
        taps.copy(outgoing, &[2; 60]);
        assert!(read(&all).is_empty(), "nothing is published yet");
        let mut woken = Vec::new();
        taps.publish(|number, wakes| woken.push((number, wakes)));
        assert_eq!(woken, [(1, Wakes::Waiters), (2, Wakes::Waiters)]);
        let whole = |record, byte| (CaptureRecord { length: 60, ..record }, vec![byte; 60]);
        assert_eq!(read(&all), [whole(RECORD, 1), whole(outgoing, 2)]);
        assert_eq!(read(&two), [(CaptureRecord { length: 60, ..outgoing }, vec![2; 10])]);
        taps.remove(1);
        taps.copy(RECORD, &[3; 60]);
        taps.publish(|number, _| panic!("capture {number} has nothing new"));
        assert!(read(&all).is_empty() && read(&two).is_empty());
        assert_eq!(taps.lost(), 0);
    }

    #[test]
    fn a_capture_of_a_lane_has_nothing_of_a_later_one_of_the_same_number() {
        let mut taps = CaptureTaps::default();
        let ((of_one, one), (of_all, all)) =
            (tap(CapturedLanes::These([1].into()), 1000), tap(CapturedLanes::All, 1000));
        taps.add(1, of_one);
        taps.add(2, of_all);
        taps.forget_lane(1);
        taps.copy(RECORD, &[1; 60]);
        taps.publish(|_, _| ());
        assert_eq!((read(&one).len(), read(&all).len()), (0, 1));
    }

    #[test]
    fn a_reader_that_does_not_keep_up_loses_packets_and_they_are_counted() {
        let mut taps = CaptureTaps::default();
        let (slow, ring) = tap(CapturedLanes::All, 1000);
        taps.add(1, slow);
        for byte in 0..100 {
            taps.copy(RECORD, &[byte; 500]);
        }
        taps.publish(|_, _| ());
        let kept = read(&ring);
        assert!((1..10).contains(&kept.len()), "{}", kept.len());
        assert_eq!(taps.lost(), 100 - kept.len() as u64);
        ring.forge_consumer(u64::MAX - 64);
        taps.copy(RECORD, &[0; 500]);
        assert_eq!(taps.lost(), 101 - kept.len() as u64, "a reader's nonsense costs itself");
    }
}
