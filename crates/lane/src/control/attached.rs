//! What came with a message, beside its bytes.

use super::MAX_DESCRIPTORS;

/// The system's objects that came with a message: descriptors on Linux, handles on Windows. Those
/// not taken are closed, as `T` closes what it owns.
#[derive(Debug)]
pub struct Attached<T> {
    list: [Option<T>; MAX_DESCRIPTORS],
    len: usize,
}

impl<T> Default for Attached<T> {
    fn default() -> Self {
        Self { list: [const { None }; MAX_DESCRIPTORS], len: 0 }
    }
}

impl<T> Attached<T> {
    /// How many came (taken ones, and those for which there was no room, still count).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none came.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the one at a place, counted from 0, out of the list.
    pub fn take(&mut self, place: usize) -> Option<T> {
        self.list.get_mut(place)?.take()
    }

    /// Takes all that are left.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> {
        self.list.iter_mut().filter_map(Option::take)
    }

    /// Adds one; it is closed if there is no room, but counts.
    pub fn push(&mut self, object: T) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = Some(object);
        }
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn what_is_not_taken_or_has_no_room_is_dropped_but_counts() {
        let object = Rc::new(());
        let mut attached = Attached::default();
        for _ in 0..=MAX_DESCRIPTORS {
            attached.push(Rc::clone(&object));
        }
        assert_eq!((attached.len(), Rc::strong_count(&object)), (MAX_DESCRIPTORS + 1, MAX_DESCRIPTORS + 1));
        assert!(attached.take(0).is_some() && attached.take(0).is_none());
        assert!(attached.take(MAX_DESCRIPTORS).is_none());
        assert_eq!(attached.take_all().count(), MAX_DESCRIPTORS - 1);
        drop(attached);
        assert_eq!(Rc::strong_count(&object), 1);
    }
}
