//! Reassembly of fragmented datagrams.

use crate::pool::{Link, Slot};
use zerocopy::FromZeros;

/// A datagram under reassembly.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Reassembly {
    link: Link,
}

impl Slot for Reassembly {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}
