//! Handles that came with a message, or are to be sent.

use std::os::windows::io::{BorrowedHandle, OwnedHandle};
use tickwire_lane::control::Attached;

/// Handles that came with a message.
pub type Handles = Attached<OwnedHandle>;

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
