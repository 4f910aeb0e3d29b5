//! Checks every interleaving and every allowed reordering of the page's protocol with a model
//! checker (loom). Not on Windows: loom switches stacks, over which unwinding does not work there.
#![cfg(unix)]

use core::sync::atomic::Ordering;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use tickwire_clockpage::double::{Places, Words};

struct Model([AtomicU64; 5]);

impl Model {
    fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Words for Model {
    fn load(&self, index: usize, ordering: Ordering) -> u64 {
        self.0[index].load(ordering)
    }

    fn store(&self, index: usize, value: u64, ordering: Ordering) {
        self.0[index].store(value, ordering);
    }

    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

const PLACES: Places = Places { sequence: 0, buffers: [1, 3] };

/// One thread publishes 1, 2, ...; another reads `reads` times concurrently.
fn publish_and_read(publications: u64, reads: u32) {
    loom::model(move || {
        let words = Arc::new(Model::new());
        let shared = words.clone();
        let writer = loom::thread::spawn(move || {
            for value in 1..=publications {
                PLACES.publish(&*shared, &[value, value]);
            }
        });
        let mut newest = 0;
        for _ in 0..reads {
            if let Some(([a, b], ())) = PLACES.read::<_, _, 2>(&*words, 1, || ()) {
                assert_eq!(a, b, "torn");
                assert!(a >= newest, "{a} after {newest}");
                newest = a;
            }
        }
        writer.join().unwrap();
        let last = PLACES.read::<_, _, 2>(&*words, 1, || ());
        assert_eq!(last, Some(([publications; 2], ())), "the last one is found at once");
    });
}

#[test]
fn what_is_read_was_published_together() {
    publish_and_read(3, 1);
}

#[test]
fn what_is_read_is_never_older_than_what_was_read_before() {
    publish_and_read(2, 2);
}

/// A writer that stops after any number of stores.
struct Dying<'a>(&'a Model, core::cell::Cell<u32>);

impl Words for Dying<'_> {
    fn load(&self, index: usize, ordering: Ordering) -> u64 {
        self.0.load(index, ordering)
    }

    fn store(&self, index: usize, value: u64, ordering: Ordering) {
        if let Some(left) = self.1.get().checked_sub(1) {
            self.1.set(left);
            self.0.store(index, value, ordering);
        }
    }

    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

#[test]
fn a_writer_that_dies_anywhere_leaves_the_values_before_and_its_successor_goes_on() {
    for stores in 0..=4 {
        loom::model(move || {
            let words = Model::new();
            PLACES.publish(&words, &[1, 1]);
            PLACES.publish(&Dying(&words, core::cell::Cell::new(stores)), &[2, 2]);
            let whole = if stores == 4 { 2 } else { 1 };
            assert_eq!(PLACES.read::<_, _, 2>(&words, 1, || ()), Some(([whole, whole], ())));
            PLACES.publish(&words, &[3, 3]);
            assert_eq!(PLACES.read::<_, _, 2>(&words, 1, || ()), Some(([3, 3], ())));
        });
    }
}
