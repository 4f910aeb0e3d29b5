//! The peer's side of one connection, with its sequence numbers.

use super::raw::{ACK, Seg, Wire};
use tickwire_stack::TcpId;
use tickwire_stack::tcp::TcpSetting;

/// A connection of the stack to a hand-made peer, without Nagle's algorithm.
pub(crate) struct Peer {
    pub(crate) wire: Wire,
    pub(crate) id: TcpId,
    /// The number from which the stack's numbers are counted, and the peer's next number.
    pub(crate) ours: u32,
    pub(crate) theirs: u32,
}

impl Peer {
    /// From the result of [`Wire::accepted_with`].
    pub(crate) fn of(mut wire: Wire, (id, ours, theirs): (TcpId, u32, u32)) -> Self {
        let now = wire.now;
        wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
        Self { wire, id, ours, theirs }
    }

    /// The peer acknowledges; all numbers are relative to `ours`.
    pub(crate) fn ack(&mut self, to: u32, blocks: &[(u32, u32)]) {
        let blocks: Vec<_> = blocks.iter().map(|(start, end)| (self.ours + start, self.ours + end)).collect();
        let ack = Seg::new(ACK, self.theirs, self.ours + to);
        self.wire.put(if blocks.is_empty() { ack } else { ack.sack(&blocks) });
    }

    /// The numbers of the segments sent since the last call, relative to `ours`.
    pub(crate) fn sent(&mut self) -> Vec<u32> {
        self.wire.taken().iter().map(|s| s.seq - self.ours).collect()
    }
}
