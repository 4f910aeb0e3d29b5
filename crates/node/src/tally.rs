//! Counts of a stream's messages: received, lost, late. No I/O and no clock.

use crate::protocol::{Progress, StreamResult};
use crate::times::Times;

/// One stream's messages.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The first number that counts: lower ones are the warm-up's.
    first: u64,
    deadline_ns: u64,
    /// A bit for each number, set when the message arrives.
    seen: Vec<u64>,
    /// One more than the greatest valid number.
    last: u64,
    /// One more than the greatest number received.
    beyond: u64,
    latency: Times,
    waited: Times,
    /// The greatest latency that counts, in ns.
    slowest_ns: u64,
    /// The results, without the warm-up.
    counted: StreamResult,
    /// Progress, including the warm-up; its worst latency is since the last report.
    progress: Progress,
}

impl Tally {
    /// A tally of messages with numbers below `last`, of which those from `first` on count.
    pub(crate) fn new(first: u64, last: u64, deadline_ns: u64) -> Self {
        Self {
            first,
            deadline_ns,
            seen: vec![0; last.div_ceil(64) as usize],
            last,
            beyond: 0,
            latency: Times::default(),
            waited: Times::default(),
            slowest_ns: 0,
            counted: StreamResult::default(),
            progress: Progress::default(),
        }
    }

    /// Counts an intact message. `latency_ns` is none if the clock failed; `waited_ns` is the time
    /// in this host, if its last packet had a timestamp. Returns whether it was new.
    pub(crate) fn message(&mut self, sequence: u64, latency_ns: Option<i64>, waited_ns: Option<u64>) -> bool {
        if sequence >= self.last {
            self.corrupt();
            return false;
        }
        let counts = sequence >= self.first;
        let (word, bit) = (&mut self.seen[(sequence / 64) as usize], 1 << (sequence % 64));
        if *word & bit != 0 {
            self.counted.duplicates += u64::from(counts);
            return false;
        }
        *word |= bit;
        self.progress.messages += 1;
        if counts {
            self.counted.messages += 1;
            self.counted.reordered += u64::from(sequence < self.beyond);
        }
        self.beyond = self.beyond.max(sequence + 1);
        if let Some(ns) = latency_ns {
            self.took(ns, waited_ns, counts);
        }
        true
    }

    fn took(&mut self, latency_ns: i64, waited_ns: Option<u64>, counts: bool) {
        let ns = u64::try_from(latency_ns).unwrap_or(0);
        let late = u64::from(ns > self.deadline_ns);
        self.progress.worst_ns = self.progress.worst_ns.max(ns);
        self.progress.late += late;
        if counts {
            self.counted.late += late;
            self.counted.before_sent += u64::from(latency_ns < 0);
            self.counted.ahead_ns = self.counted.ahead_ns.max(latency_ns.min(0).unsigned_abs());
            self.latency.record(ns);
            if let Some(waited) = waited_ns {
                self.waited.record(waited);
            }
            if ns >= self.slowest_ns {
                self.slowest_ns = ns;
                self.counted.slowest_waited_ns = waited_ns;
            }
        }
    }

    /// Counts data that is no message of the stream. This includes the warm-up, because its number
    /// cannot be known.
    pub(crate) fn corrupt(&mut self) {
        self.counted.corrupt += 1;
    }

    /// Records a fault of the stream; the first one is kept.
    pub(crate) fn fault(&mut self, why: impl FnOnce() -> String) {
        self.counted.fault.get_or_insert_with(why);
    }

    /// How many different messages have arrived, including the warm-up's.
    pub(crate) const fn came(&self) -> u64 {
        self.progress.messages
    }

    /// The progress so far.
    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    /// The progress was reported: restarts its worst latency.
    pub(crate) const fn progress_told(&mut self) {
        self.progress.worst_ns = 0;
    }

    /// The results.
    pub(crate) fn received(&self) -> StreamResult {
        StreamResult { latency: self.latency.pairs(), waited: self.waited.pairs(), ..self.counted.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn after(tally: &mut Tally, messages: &[u64]) -> StreamResult {
        for &sequence in messages {
            tally.message(sequence, Some(10), None);
        }
        tally.received()
    }

    #[test]
    fn what_came_late_or_before_it_was_sent_is_counted() {
        let mut tally = Tally::new(0, 100, 1_000);
        for (sequence, latency_ns) in [(0, 1_000), (1, 1_001), (2, -1), (3, 0), (4, i64::MAX), (5, i64::MIN)] {
            assert!(tally.message(sequence, Some(latency_ns), None));
        }
        assert!(tally.message(6, None, None), "the clock did not know");
        let received = tally.received();
        assert_eq!((received.messages, received.late, received.before_sent), (7, 2, 2));
        assert_eq!(received.ahead_ns, i64::MIN.unsigned_abs());
        assert_eq!(received.latency.iter().map(|&(_, count)| count).sum::<u64>(), 6);
    }

    #[test]
    fn how_long_messages_waited_in_this_host_is_kept_and_that_of_the_slowest_by_itself() {
        let mut tally = Tally::new(1, 10, 1_000_000);
        tally.message(0, Some(900_000), Some(800_000)); // the warm-up's
        tally.message(1, Some(50_000), Some(20_000));
        tally.message(2, Some(400_000), Some(30_000));
        tally.message(3, Some(60_000), None);
        let received = tally.received();
        assert_eq!(received.waited.iter().map(|(_, count)| count).sum::<u64>(), 2);
        assert_eq!(received.slowest_waited_ns, Some(30_000));
        tally.message(4, Some(500_000), None);
        assert_eq!(tally.received().slowest_waited_ns, None, "it had no stamp");
    }

    #[test]
    fn messages_of_the_warm_up_are_progress_only() {
        let mut tally = Tally::new(3, 6, 1);
        let received = after(&mut tally, &[0, 2, 1, 1, 2, 3]);
        assert_eq!((received.messages, received.duplicates, received.reordered, received.late), (1, 0, 0, 1));
        assert_eq!(tally.progress(), Progress { messages: 4, worst_ns: 10, late: 4 });
        tally.progress_told();
        assert_eq!(tally.progress(), Progress { messages: 4, worst_ns: 0, late: 4 });
    }

    #[test]
    fn numbers_beyond_the_last_are_corrupt() {
        for last in [0, 1, 64, 65] {
            let mut tally = Tally::new(0, last, 1);
            assert!(!tally.message(last, Some(0), None) && !tally.message(u64::MAX, None, None));
            assert_eq!(tally.received(), StreamResult { corrupt: 2, ..StreamResult::default() });
        }
    }

    #[test]
    fn the_first_fault_stays() {
        let mut tally = Tally::new(0, 1, 1);
        tally.fault(|| "first".into());
        tally.fault(|| "second".into());
        assert_eq!(tally.received().fault.unwrap(), "first");
    }

    proptest! {
        /// For any loss, duplication and reordering.
        #[test]
        fn every_message_is_counted_as_what_it_is(
            first in 0..40_u64,
            more in 0..200_u64,
            messages in proptest::collection::vec(0..300_u64, 0..400),
        ) {
            let last = first + more;
            let mut tally = Tally::new(first, last, 1_000_000);
            let received = after(&mut tally, &messages);

            let mut expected = StreamResult::default();
            let mut seen = HashSet::new();
            for &sequence in &messages {
                if sequence >= last {
                    expected.corrupt += 1;
                } else if seen.contains(&sequence) {
                    expected.duplicates += u64::from(sequence >= first);
                } else {
                    if sequence >= first {
                        expected.messages += 1;
                        expected.reordered += u64::from(seen.iter().any(|&before| before > sequence));
                    }
                    seen.insert(sequence);
                }
            }
            expected.latency = received.latency.clone();
            prop_assert_eq!(&received, &expected);
            prop_assert_eq!(tally.came(), seen.len() as u64);
            prop_assert_eq!(received.latency.iter().map(|&(_, count)| count).sum::<u64>(), expected.messages);
        }

        #[test]
        fn any_order_of_all_is_all(order in Just((0..500_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let received = after(&mut Tally::new(0, 500, 1_000_000), &order);
            prop_assert_eq!((received.messages, received.duplicates, received.corrupt), (500, 0, 0));
        }
    }
}
