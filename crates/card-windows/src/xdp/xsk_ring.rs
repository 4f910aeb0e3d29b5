//! The memory of a ring, which the driver and the service share: two indices, flags and elements.
//!
//! Whatever is read there may be wrong, so this gives out words only. [`ring`](super::ring) checks
//! them.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Where the parts of a ring are, in bytes from its beginning, and how many elements it has
/// (`XSK_RING_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// The first element.
    pub elements: u32,
    /// The producer's index.
    pub producer: u32,
    /// The consumer's index.
    pub consumer: u32,
    /// The flags.
    pub flags: u32,
    /// How many elements there are.
    pub size: u32,
    /// Bytes from one element to the next.
    pub stride: u32,
}

/// Indices and flags of any driver lie within so many bytes.
const LONGEST_HEADER: u32 = 1 << 16;

/// The longest element: some words, and what extensions add.
const LONGEST_ELEMENT: u32 = 4096;

impl RingLayout {
    /// Whether a ring of so many elements, each with so many words, can be laid out like this.
    fn fits(&self, size: u32, words: usize) -> bool {
        let Self { elements, producer, consumer, flags, stride, .. } = *self;
        let is_header = |offset: u32| offset.is_multiple_of(4) && offset <= LONGEST_HEADER - 4;
        let is_apart = |a: u32, b: u32| a.abs_diff(b) >= 4;
        self.size == size
            && size.is_power_of_two()
            && [producer, consumer, flags].into_iter().all(is_header)
            && is_apart(producer, consumer)
            && is_apart(producer, flags)
            && is_apart(consumer, flags)
            && elements.is_multiple_of(8)
            && elements <= LONGEST_HEADER
            && [producer, consumer, flags].into_iter().all(|offset| offset + 4 <= elements)
            && stride.is_multiple_of(8)
            && (words as u32 * 8..=LONGEST_ELEMENT).contains(&stride)
    }
}

/// A ring's memory, of elements with `WORDS` words.
pub struct XskRing<const WORDS: usize> {
    base: NonNull<u8>,
    layout: RingLayout,
    /// What the memory belongs to, if it is not the driver.
    _owner: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: all of the memory is accessed by atomic operations.
unsafe impl<const WORDS: usize> Send for XskRing<WORDS> {}

impl<const WORDS: usize> std::fmt::Debug for XskRing<WORDS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("XskRing").field(&self.layout).finish()
    }
}

impl<const WORDS: usize> XskRing<WORDS> {
    /// A ring that the driver has made, of so many elements. `None`: it cannot be laid out like
    /// this.
    ///
    /// # Safety
    /// `base` points to a ring of this layout (or is null, or not aligned), for as long as this
    /// lives; `owner`, if there is one, keeps it. All others access it atomically, or are no part
    /// of this program.
    pub unsafe fn new(
        base: *mut u8,
        layout: RingLayout,
        size: u32,
        owner: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Option<Self> {
        let base = NonNull::new(base).filter(|base| base.as_ptr().addr().is_multiple_of(8))?;
        layout.fits(size, WORDS).then_some(Self { base, layout, _owner: owner })
    }

    fn index_at(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: `new` has checked that the offset is aligned; it is one of the layout's, so it is
        // inside the memory, which lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset as usize).cast()) }
    }

    /// The index of the element that will be produced next.
    pub fn producer(&self) -> &AtomicU32 {
        self.index_at(self.layout.producer)
    }

    /// The index of the element that will be consumed next.
    pub fn consumer(&self) -> &AtomicU32 {
        self.index_at(self.layout.consumer)
    }

    /// Flags of the driver.
    pub fn flags(&self) -> &AtomicU32 {
        self.index_at(self.layout.flags)
    }

    /// How many elements there are, a power of two.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.layout.size
    }

    /// The words of an element. Any index will do: it is taken modulo the size.
    pub fn element(&self, index: u32) -> [&AtomicU64; WORDS] {
        let place = index & (self.layout.size - 1);
        let offset = self.layout.elements as usize + place as usize * self.layout.stride as usize;
        std::array::from_fn(|word| {
            // SAFETY: the place is below the size, and `new` has checked that elements and strides
            // are aligned and that the words fit into a stride. So the word is inside the memory,
            // which lives as long as `self`.
            unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset + 8 * word).cast()) }
        })
    }
}

/// Rings in memory of this process, for what stands in for a driver.
#[cfg(any(test, feature = "fake-xdp"))]
pub(super) mod owned {
    use super::*;

    /// Words of the indices and flags, each in a cache line of its own.
    const HEADER_WORDS: usize = 24;

    /// The memory of a ring.
    #[derive(Clone)]
    pub(in crate::xdp) struct OwnedRing {
        words: Arc<[AtomicU64]>,
        layout: RingLayout,
    }

    impl OwnedRing {
        /// A ring of so many elements, a power of two, with so many words each.
        pub(in crate::xdp) fn new(size: u32, words: u32) -> Self {
            let count = HEADER_WORDS + size as usize * words as usize;
            let (elements, stride) = (HEADER_WORDS as u32 * 8, words * 8);
            let layout = RingLayout { elements, producer: 0, consumer: 64, flags: 128, size, stride };
            Self { words: (0..count).map(|_| AtomicU64::new(0)).collect(), layout }
        }

        /// A view of it.
        pub(in crate::xdp) fn view<const WORDS: usize>(&self) -> XskRing<WORDS> {
            let base = self.words.as_ptr().cast_mut().cast();
            let owner: Arc<dyn Any + Send + Sync> = Arc::new(Arc::clone(&self.words));
            assert_eq!(self.layout.stride as usize, WORDS * 8);
            // SAFETY: the words are as many as the layout says, are atomic, and are owned.
            unsafe { XskRing::new(base, self.layout, self.layout.size, Some(owner)) }.expect("a layout that fits")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: RingLayout = RingLayout { elements: 192, producer: 0, consumer: 64, flags: 128, size: 8, stride: 16 };

    /// Whether a ring of eight elements with two words can be laid out like this.
    fn is_taken(layout: RingLayout) -> bool {
        layout.fits(8, 2)
    }

    #[test]
    fn a_layout_that_does_not_fit_is_refused() {
        assert!(is_taken(GOOD));
        assert!(is_taken(RingLayout { stride: 40, ..GOOD }), "extensions");
        let wrong = [
            RingLayout { size: 16, ..GOOD },
            RingLayout { stride: 8, ..GOOD },
            RingLayout { stride: 20, ..GOOD },
            RingLayout { stride: 1 << 20, ..GOOD },
            RingLayout { producer: 2, ..GOOD },
            RingLayout { producer: 64, ..GOOD },
            RingLayout { consumer: u32::MAX - 3, ..GOOD },
            RingLayout { flags: 1 << 16, ..GOOD },
            RingLayout { flags: 192, ..GOOD },
            RingLayout { elements: 196, ..GOOD },
            RingLayout { elements: u32::MAX - 7, ..GOOD },
            RingLayout { elements: 0, ..GOOD },
        ];
        for layout in wrong {
            assert!(!is_taken(layout), "{layout:?}");
        }
        assert!(!RingLayout { size: 0, ..GOOD }.fits(0, 2) && !RingLayout { size: 6, ..GOOD }.fits(6, 2));
        // SAFETY: null and a pointer that is not aligned are refused.
        let refused = |base| unsafe { XskRing::<2>::new(base, GOOD, 8, None) }.is_none();
        assert!(refused(std::ptr::null_mut()) && refused(std::ptr::without_provenance_mut(4)));
    }

    #[test]
    fn indices_wrap_to_elements() {
        let ring = owned::OwnedRing::new(8, 2);
        let (one, two) = (ring.view::<2>(), ring.view::<2>());
        one.element(3)[1].store(7, std::sync::atomic::Ordering::Relaxed);
        for index in [3, 11, u32::MAX - 4] {
            assert_eq!(two.element(index)[1].load(std::sync::atomic::Ordering::Relaxed), 7);
        }
        assert_eq!(two.element(3)[0].load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}
