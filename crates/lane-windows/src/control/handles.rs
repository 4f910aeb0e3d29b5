//! Handles that came with a message, or are to be sent.

use std::os::windows::io::{BorrowedHandle, OwnedHandle};
use tickwire_lane::control::MAX_DESCRIPTORS;

/// Handles that came with a message. Those not taken are closed.
#[derive(Debug, Default)]
pub struct Handles {
    list: [Option<OwnedHandle>; MAX_DESCRIPTORS],
    len: usize,
}

impl Handles {
    /// How many came (taken ones still count).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none came.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the handle at a place, counted from 0, out of the list.
    pub fn take(&mut self, place: usize) -> Option<OwnedHandle> {
        self.list.get_mut(place)?.take()
    }

    /// Takes all that are left.
    pub fn take_all(&mut self) -> impl Iterator<Item = OwnedHandle> {
        self.list.iter_mut().filter_map(Option::take)
    }

    /// Adds one; it is closed if there is no room.
    pub(super) fn push(&mut self, handle: OwnedHandle) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = Some(handle);
            self.len += 1;
        }
    }
}

/// A handle of the service's that a client gets, and what the client may do with it.
#[derive(Clone, Copy, Debug)]
pub struct HandleGrant<'h> {
    pub(super) handle: BorrowedHandle<'h>,
    pub(super) access: Option<u32>,
}

impl<'h> HandleGrant<'h> {
    /// The handle with these rights and no others: an access mask of its kind of object, such as
    /// `SYNCHRONIZE | EVENT_MODIFY_STATE`, or `SECTION_MAP_READ`.
    #[must_use]
    pub const fn only(handle: BorrowedHandle<'h>, access: u32) -> Self {
        Self { handle, access: Some(access) }
    }

    /// The handle with all rights that the service has by it.
    #[must_use]
    pub const fn same(handle: BorrowedHandle<'h>) -> Self {
        Self { handle, access: None }
    }
}
