//! UDP (RFC 768) over both families.

use crate::pool::{Link, Slot};
use zerocopy::FromZeros;

/// A UDP socket.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Socket {
    link: Link,
}

/// A group membership of a UDP socket.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Membership {
    link: Link,
}

impl Slot for Socket {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Slot for Membership {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}
