//! What goes before the bytes of a captured packet (`bpf/capture.h` of the lane on Linux).

/// A captured packet, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRecord {
    /// When divert or guard saw the packet: nanoseconds by the clock of lanes, which is never set
    /// (on Linux `CLOCK_MONOTONIC`).
    pub monotonic_ns: u64,
    /// The lane.
    pub lane: u32,
    /// The NIC by which it arrived; 0 for packets on their way out.
    pub nic: u32,
    /// Length of the packet in bytes.
    pub length: u32,
    /// Whether it was on its way out.
    pub outgoing: bool,
}

impl CaptureRecord {
    /// Bytes of what an entry begins with.
    pub const SIZE: usize = 32;

    /// What an entry begins with, of which `captured` bytes of the packet follow.
    #[must_use]
    pub fn head(&self, captured: u32) -> [u8; Self::SIZE] {
        let mut head = [0; Self::SIZE];
        head[..8].copy_from_slice(&self.monotonic_ns.to_ne_bytes());
        for (at, word) in
            [(8, self.lane), (12, self.nic), (16, self.length), (20, captured), (24, self.outgoing.into())]
        {
            head[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        head
    }

    /// Splits an entry into the record and the captured bytes; `None` if it is
    /// inconsistent.
    #[must_use]
    pub fn parse(entry: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = entry.split_at_checked(Self::SIZE)?;
        let word = |at: usize| head[at..at + 4].try_into().map(u32::from_ne_bytes).ok();
        let captured = word(20)? as usize;
        let record = Self {
            monotonic_ns: u64::from_ne_bytes(head[..8].try_into().ok()?),
            lane: word(8)?,
            nic: word(12)?,
            length: word(16)?,
            outgoing: word(24)? != 0,
        };
        Some((record, rest.get(..captured)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_taken_apart_as_it_was_put_together() {
        for outgoing in [false, true] {
            let record = CaptureRecord { monotonic_ns: u64::MAX - 1, lane: 2, nic: 3, length: 1500, outgoing };
            let entry = [&record.head(2)[..], &[7, 8]].concat();
            assert_eq!(CaptureRecord::parse(&entry), Some((record, &[7, 8][..])));
        }
    }

    #[test]
    fn a_capture_record_that_promises_more_than_there_is_is_refused() {
        let mut entry = vec![0_u8; 32 + 10];
        entry[20..24].copy_from_slice(&10_u32.to_ne_bytes());
        assert_eq!(CaptureRecord::parse(&entry).unwrap().1.len(), 10);
        entry[20..24].copy_from_slice(&11_u32.to_ne_bytes());
        assert!(CaptureRecord::parse(&entry).is_none());
        assert!(CaptureRecord::parse(&entry[..31]).is_none());
    }
}
