//! Validation of a node's figures: rejects contradictory figures, and figures of streams that it
//! does not have. A node that reports such figures counts as failed. (A plausible lie cannot be
//! detected here.) After this check no sum of figures overflows.

use crate::node::protocol::{MOST_MESSAGES, NodeReport, Progress, Sent, StreamResult};

/// Duplicates and foreign datagrams can come from any sender in any number; the accepted count is
/// bounded.
const MOST_OTHERS: u64 = 1 << 48;
/// The greatest processor time, of one or all processors of a machine, in ns.
const LONGEST_NS: u64 = 1 << 60;

/// Checks a report of a node with `streams` streams.
///
/// # Errors
/// Why not, in words.
pub(super) fn validate(report: &NodeReport, streams: usize) -> Result<(), String> {
    let counted = |told: usize| {
        if told == streams { Ok(()) } else { Err(format!("figures of {told} streams, and it has {streams}")) }
    };
    match report {
        NodeReport::Hello { .. } | NodeReport::Ready { .. } | NodeReport::Failed { .. } => Ok(()),
        NodeReport::Progress { streams } => counted(streams.len()).and_then(|()| streams.iter().try_for_each(progress)),
        NodeReport::Sent { streams, .. } => counted(streams.len()).and_then(|()| streams.iter().try_for_each(sent)),
        NodeReport::Received { streams, usage, .. } => {
            let worked = [usage.user_ns, usage.system_ns, usage.elapsed_ns];
            within(*worked.iter().max().unwrap_or(&0), LONGEST_NS, "ns of processor time")?;
            counted(streams.len()).and_then(|()| streams.iter().try_for_each(received))
        }
    }
}

fn progress(stream: &Progress) -> Result<(), String> {
    within(stream.messages, MOST_MESSAGES, "messages")?;
    within(stream.late, stream.messages, "late messages")
}

fn sent(stream: &Sent) -> Result<(), String> {
    within(stream.messages, MOST_MESSAGES, "messages")?;
    within(total(&stream.release), stream.messages, "messages in the histogram")
}

fn received(stream: &StreamResult) -> Result<(), String> {
    within(stream.messages, MOST_MESSAGES, "messages")?;
    within(stream.late, stream.messages, "late messages")?;
    within(stream.reordered, stream.messages, "messages out of order")?;
    within(stream.before_sent, stream.messages, "messages that came before they were sent")?;
    within(stream.duplicates, MOST_OTHERS, "messages that came again")?;
    within(stream.corrupt, MOST_OTHERS, "corrupt messages")?;
    within(total(&stream.latency), stream.messages, "messages in the histogram")?;
    within(total(&stream.waited), stream.messages, "messages in the histogram of waiting")
}

fn within(count: u64, most: u64, what: &str) -> Result<(), String> {
    if count <= most { Ok(()) } else { Err(format!("{count} {what}, where {most} are possible")) }
}

/// The number of values in a histogram.
pub(super) fn total(histogram: &[(u64, u64)]) -> u64 {
    histogram.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Usage;

    fn of(received: StreamResult) -> Result<(), String> {
        validate(&NodeReport::Received { streams: vec![received], usage: Usage::default(), bound_ns: None }, 1)
    }

    #[test]
    fn what_can_be_is_believed() {
        let good = StreamResult {
            messages: 10,
            duplicates: 20,
            reordered: 3,
            corrupt: 7,
            late: 10,
            before_sent: 1,
            latency: vec![(1, 4), (5, 6)],
            ..StreamResult::default()
        };
        assert_eq!(of(good), Ok(()));
        let progress = Progress { messages: 5, worst_ns: u64::MAX, late: 5 };
        assert_eq!(validate(&NodeReport::Progress { streams: vec![progress; 3] }, 3), Ok(()));
        let sent = Sent { messages: 5, release: vec![(0, 2), (u64::MAX, 3)], fault: None };
        assert_eq!(validate(&NodeReport::Sent { streams: vec![sent], bound_ns: Some(u64::MAX) }, 1), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_told() {
        let ten = StreamResult { messages: 10, ..StreamResult::default() };
        type Change = fn(&mut StreamResult);
        let changes: [(Change, &str); 8] = [
            (|r| r.messages = u64::MAX, "18446744073709551615 messages, where 4294967296"),
            (|r| r.late = 11, "11 late messages, where 10 are possible"),
            (|r| r.reordered = 11, "11 messages out of order"),
            (|r| r.before_sent = 11, "11 messages that came before"),
            (|r| r.duplicates = u64::MAX, "came again"),
            (|r| r.corrupt = u64::MAX, "corrupt"),
            (|r| r.latency = vec![(1, u64::MAX), (2, u64::MAX)], "in the histogram"),
            (|r| r.waited = vec![(1, 11)], "11 messages in the histogram of waiting"),
        ];
        for (change, said) in changes {
            let mut received = ten.clone();
            change(&mut received);
            let why = of(received).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        let late = Progress { messages: 1, worst_ns: 0, late: 2 };
        assert!(validate(&NodeReport::Progress { streams: vec![late] }, 1).is_err());
        for streams in [0, 2] {
            let wrong = NodeReport::Progress { streams: vec![Progress::default(); streams] };
            assert_eq!(validate(&wrong, 1), Err(format!("figures of {streams} streams, and it has 1")));
        }
        let usage = Usage { user_ns: u64::MAX, ..Usage::default() };
        assert!(validate(&NodeReport::Received { streams: vec![], usage, bound_ns: None }, 0).is_err());
        assert!(validate(&NodeReport::Sent { streams: vec![], bound_ns: None }, 1).is_err());
    }
}
