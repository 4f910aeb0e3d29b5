//! The timestamps of a message, as the kernel reports them: on Linux the kernel's are in ns of
//! CLOCK_REALTIME, on Windows in ns of the performance counter. A card's are in ns of its own
//! clock.

/// The report of a departure; on Linux one of the error queue, which also reports errors: these
/// have none of these fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxTimestamps {
    /// The message's number among those sent on this socket, counted from 0.
    pub number: Option<u32>,
    /// The kernel's transmit timestamp.
    pub stamp: Option<i64>,
    /// The card's transmit timestamp.
    pub card: Option<i64>,
}

/// Receive timestamps of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxTimestamps {
    /// The kernel's receive timestamp.
    pub stamp: Option<i64>,
    /// The card's receive timestamp, of the beginning of the frame.
    pub card: Option<i64>,
}
