//! The two ends of a ring. Each end has its own index in private memory, and only reads the other's
//! from the shared one, because the other side may write anything there at any time.

use super::xsk_ring::XskRing;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// `XSK_RING_FLAG_ERROR`.
const FLAG_ERROR: u32 = 1;
/// `XSK_RING_FLAG_NEED_POKE`.
const FLAG_NEED_POKE: u32 = 2;

/// The other end of a ring has an index that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an index of a ring is wrong: {elements} of {size} elements would be in use")]
pub struct BrokenRing {
    /// How many elements would be in use.
    pub elements: u32,
    /// How many there are.
    pub size: u32,
}

fn in_use(producer: u32, consumer: u32, size: u32) -> Result<u32, BrokenRing> {
    let elements = producer.wrapping_sub(consumer);
    if elements <= size { Ok(elements) } else { Err(BrokenRing { elements, size }) }
}

/// The end that puts elements in.
#[derive(Debug)]
pub struct ProducerEnd<const WORDS: usize> {
    memory: XskRing<WORDS>,
    next: u32,
    /// The consumer's index, as it was last read.
    consumer: u32,
}

impl<const WORDS: usize> ProducerEnd<WORDS> {
    /// That of a ring, which is empty.
    #[must_use]
    pub fn new(memory: XskRing<WORDS>) -> Self {
        let next = memory.producer().load(Acquire);
        Self { memory, next, consumer: next }
    }

    /// How many elements have room.
    ///
    /// # Errors
    /// If the consumer's index cannot be.
    pub fn room(&mut self) -> Result<u32, BrokenRing> {
        let (size, consumer) = (self.memory.size(), self.memory.consumer().load(Acquire));
        let used = in_use(self.next, consumer, size)?;
        self.consumer = consumer;
        Ok(size - used)
    }

    /// Puts an element in; the consumer sees it after [`ProducerEnd::publish`]. Returns `false` if
    /// there is no room.
    ///
    /// # Errors
    /// As [`ProducerEnd::room`].
    pub fn put(&mut self, words: [u64; WORDS]) -> Result<bool, BrokenRing> {
        let size = self.memory.size();
        if in_use(self.next, self.consumer, size)? == size && self.room()? == 0 {
            return Ok(false);
        }
        for (place, word) in self.memory.element(self.next).into_iter().zip(words) {
            place.store(word, Relaxed);
        }
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    /// Shows the consumer what was put in.
    pub fn publish(&self) {
        self.memory.producer().store(self.next, Release);
    }

    /// Whether the driver has consumed all that was published. A wrong index is none.
    #[must_use]
    pub fn is_consumed(&self) -> bool {
        self.memory.consumer().load(Acquire) == self.next
    }

    /// Whether the driver is to be told that there is something.
    #[must_use]
    pub fn needs_poke(&self) -> bool {
        // The driver sets the flag, and then looks at the index again: the index is written first.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.memory.flags().load(Acquire) & FLAG_NEED_POKE != 0
    }

    /// Whether the driver has given the ring up.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.memory.flags().load(Acquire) & FLAG_ERROR != 0
    }
}

/// The end that takes elements out.
#[derive(Debug)]
pub struct ConsumerEnd<const WORDS: usize> {
    memory: XskRing<WORDS>,
    next: u32,
    /// The producer's index, as it was last read.
    producer: u32,
}

impl<const WORDS: usize> ConsumerEnd<WORDS> {
    /// That of a ring.
    #[must_use]
    pub fn new(memory: XskRing<WORDS>) -> Self {
        let next = memory.consumer().load(Acquire);
        Self { memory, next, producer: next }
    }

    /// Whether all elements that were there when it was last looked have been taken.
    #[must_use]
    pub fn is_read_up(&self) -> bool {
        self.next == self.producer
    }

    /// Takes the next element out, if there is one.
    ///
    /// # Errors
    /// If the producer's index cannot be.
    pub fn take(&mut self) -> Result<Option<[u64; WORDS]>, BrokenRing> {
        if self.next == self.producer {
            let producer = self.memory.producer().load(Acquire);
            in_use(producer, self.next, self.memory.size())?;
            self.producer = producer;
            if self.next == producer {
                return Ok(None);
            }
        }
        let words = self.memory.element(self.next).map(|word| word.load(Relaxed));
        self.next = self.next.wrapping_add(1);
        self.memory.consumer().store(self.next, Release);
        Ok(Some(words))
    }

    /// Whether the driver has given the ring up.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.memory.flags().load(Acquire) & FLAG_ERROR != 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::xsk_ring::owned::OwnedRing;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn ends(size: u32, begin: u32) -> (ProducerEnd<2>, ConsumerEnd<2>, XskRing<2>) {
        let ring = OwnedRing::new(size, 2);
        let shared = ring.view::<2>();
        shared.producer().store(begin, Relaxed);
        shared.consumer().store(begin, Relaxed);
        (ProducerEnd::new(ring.view()), ConsumerEnd::new(ring.view()), shared)
    }

    #[test]
    fn what_is_put_in_is_seen_when_it_is_published() {
        let (mut producer, mut consumer, _) = ends(4, 0);
        assert_eq!(producer.put([1, 2]), Ok(true));
        assert_eq!(consumer.take(), Ok(None));
        producer.publish();
        assert_eq!(consumer.take(), Ok(Some([1, 2])));
        assert!(consumer.is_read_up());
    }

    #[test]
    fn flags_of_the_driver_are_seen() {
        let (producer, consumer, shared) = ends(4, 0);
        assert!(!producer.needs_poke() && !producer.has_failed() && !consumer.has_failed());
        shared.flags().store(FLAG_NEED_POKE, Relaxed);
        assert!(producer.needs_poke() && !producer.has_failed());
        shared.flags().store(FLAG_ERROR, Relaxed);
        assert!(!producer.needs_poke() && producer.has_failed() && consumer.has_failed());
    }

    #[test]
    fn indices_that_cannot_be_are_errors_and_those_of_this_side_do_not_matter() {
        let (mut producer, mut consumer, shared) = ends(4, 0);
        for wrong in [5, 1 << 31, u32::MAX] {
            shared.producer().store(wrong, Relaxed);
            assert_eq!(consumer.take(), Err(BrokenRing { elements: wrong, size: 4 }));
            shared.consumer().store(0_u32.wrapping_sub(wrong), Relaxed);
            assert_eq!(producer.room(), Err(BrokenRing { elements: wrong, size: 4 }));
        }
        shared.consumer().store(0, Relaxed);
        assert_eq!(producer.room(), Ok(4));
        assert_eq!(producer.put([5, 6]), Ok(true));
        producer.publish();
        assert_eq!(consumer.take(), Ok(Some([5, 6])));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put,
        Publish,
        Take,
        Room,
    }

    proptest! {
        #[test]
        fn a_ring_is_a_bounded_queue(
            begin in prop_oneof![Just(0), Just(u32::MAX - 5), any::<u32>()],
            exponent in 0..5_u32,
            steps in vec(prop_oneof![Just(Step::Put), Just(Step::Publish), Just(Step::Take), Just(Step::Room)], 0..200),
        ) {
            let size = 1 << exponent;
            let (mut producer, mut consumer, _) = ends(size, begin);
            let (mut hidden, mut shown, mut number) = (VecDeque::new(), VecDeque::new(), 0_u64);
            for step in steps {
                let count = (hidden.len() + shown.len()) as u32;
                match step {
                    Step::Put => {
                        let has_room = count < size;
                        prop_assert_eq!(producer.put([number, !number]), Ok(has_room));
                        if has_room {
                            hidden.push_back([number, !number]);
                        }
                        number += 1;
                    }
                    Step::Publish => {
                        producer.publish();
                        shown.append(&mut hidden);
                    }
                    Step::Take => prop_assert_eq!(consumer.take(), Ok(shown.pop_front())),
                    Step::Room => prop_assert_eq!(producer.room(), Ok(size - count)),
                }
            }
        }

        #[test]
        fn no_index_of_the_other_side_does_harm(
            writes in vec((any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>()), 0..50),
        ) {
            let (mut producer, mut consumer, shared) = ends(8, 0);
            for (producers, consumers, flags, publishes) in writes {
                shared.producer().store(producers, Relaxed);
                shared.consumer().store(consumers, Relaxed);
                shared.flags().store(flags, Relaxed);
                if let Ok(room) = producer.room() {
                    prop_assert!(room <= 8);
                }
                let _ = producer.put([1, 2]);
                if publishes {
                    producer.publish();
                }
                let taken = (0..20).take_while(|_| matches!(consumer.take(), Ok(Some(_)))).count();
                prop_assert!(taken <= 20);
                let _ = (producer.needs_poke(), producer.has_failed(), consumer.has_failed());
            }
        }
    }
}
