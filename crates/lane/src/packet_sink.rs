//! Where packets are copied to that leave a stack: a batch ([`crate::tx_batch`]), or a transmit
//! ring.

use crate::record_ring::{ProducerMemory, RecordProducer};
use crate::train;
use tickwire_stack::frame::{FRAME_SIZE, MOST_PIECES};
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, ReceiveMetadata, Stack, TransmitDescriptor};

/// Where packets are copied to.
pub trait PacketSink {
    /// Whether there is room for a packet that begins with this piece.
    fn has_room(&self, first: &TransmitDescriptor) -> bool;

    /// Copies a packet, given in its pieces, which there is room for.
    fn copy(&mut self, stack: &Stack<'_>, pieces: &[TransmitDescriptor]);
}

impl<M: ProducerMemory> PacketSink for RecordProducer<M> {
    fn has_room(&self, first: &TransmitDescriptor) -> bool {
        RecordProducer::has_room(self, if first.more { MOST_PIECES * FRAME_SIZE } else { usize::from(first.len) })
    }

    fn copy(&mut self, stack: &Stack<'_>, pieces: &[TransmitDescriptor]) {
        let mut bytes = [&[][..]; MOST_PIECES];
        for (to, &piece) in bytes.iter_mut().zip(pieces) {
            *to = train::bytes(stack, piece);
        }
        let at = Instant::from_nanos(0);
        let packet = ReceiveMetadata { len: 0, segment: 0, checksum: Checksum::Unknown, at, interface: 0 };
        let _ = self.put(&packet, &bytes[..pieces.len().min(MOST_PIECES)]);
    }
}
