//! Records of captured packets.

/// A captured packet, ahead of its bytes in [`super::map::CAPTURE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRecord {
    /// `CLOCK_MONOTONIC` in nanoseconds when the program saw the packet.
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
    const SIZE: usize = 32;

    /// Splits an entry of the ring buffer into the record and the captured bytes; `None` if it is
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
    fn a_capture_record_that_promises_more_than_there_is_is_refused() {
        let mut entry = vec![0_u8; 32 + 10];
        entry[20..24].copy_from_slice(&10_u32.to_ne_bytes());
        assert_eq!(CaptureRecord::parse(&entry).unwrap().1.len(), 10);
        entry[20..24].copy_from_slice(&11_u32.to_ne_bytes());
        assert!(CaptureRecord::parse(&entry).is_none());
        assert!(CaptureRecord::parse(&entry[..31]).is_none());
    }
}
