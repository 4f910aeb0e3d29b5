//! Validation of orders. The controller is trusted with the host's network, but not with the node's
//! memory.

use crate::error::NodeError;
use crate::protocol::{MOST_MESSAGES, NodeRole, Prepare, Start, StreamDestination};
use crate::stream::{GREATEST_DATAGRAM, GREATEST_SIZE, LEAST_SIZE, MOST_STREAMS, Transport};
use std::collections::HashSet;

/// Greatest total size of a producer's buffers, one message of each stream.
const GREATEST_BUFFERS: u64 = 1 << 30;
/// A start farther ahead than this is by another clock.
const FARTHEST_START_NS: i64 = 3_600_000_000_000;

/// Checks that the streams can be opened.
pub(crate) fn prepare(order: &Prepare) -> Result<(), NodeError> {
    let count = order.streams.len();
    if count == 0 || count > MOST_STREAMS {
        return impossible(format!("{count} streams were asked for: 1 to {MOST_STREAMS} are possible"));
    }
    for channel in &order.streams {
        if let Some(why) = wrong(channel, order) {
            return impossible(format!("stream {}: {why}", channel.stream.id));
        }
    }
    let mut ports = HashSet::new();
    if let Some(again) = order.streams.iter().find(|channel| !ports.insert(channel.to.port())) {
        let port = again.to.port();
        return impossible(format!("stream {}: port {port} is another stream's, too", again.stream.id));
    }
    let bytes: u64 = order.streams.iter().map(|channel| u64::from(channel.stream.size)).sum();
    if order.role == NodeRole::Producer && bytes > GREATEST_BUFFERS {
        return impossible(format!("one message of each stream is {bytes} bytes: {GREATEST_BUFFERS} are possible"));
    }
    Ok(())
}

fn wrong(channel: &StreamDestination, order: &Prepare) -> Option<String> {
    let stream = &channel.stream;
    let greatest = if stream.transport.is_tcp() { GREATEST_SIZE } else { GREATEST_DATAGRAM };
    if !(LEAST_SIZE..=greatest).contains(&stream.size) {
        return Some(format!("messages have {LEAST_SIZE} to {greatest} bytes, not {}", stream.size));
    }
    if stream.period.is_zero() {
        return Some("its period is zero".into());
    }
    if channel.to.port() == 0 {
        return Some("it has no port".into());
    }
    if channel.to.is_ipv4() != order.address.is_ipv4() {
        return Some(format!("{} cannot be reached from {}", channel.to, order.address));
    }
    let to_group = stream.transport == Transport::UdpMulticast;
    (channel.to.ip().is_multicast() != to_group)
        .then(|| format!("{} {} a group", channel.to.ip(), if to_group { "is not" } else { "is" }))
}

/// Checks the start and the length of a run. `now_ns` is by the shared clock.
pub(crate) fn start(order: &Start, streams: &[StreamDestination], now_ns: i64) -> Result<(), NodeError> {
    let ahead = order.at_ns.saturating_sub(now_ns);
    if ahead < 0 {
        return impossible(format!("the start was {} ms ago when the order came", ahead.unsigned_abs() / 1_000_000));
    }
    if ahead > FARTHEST_START_NS {
        return impossible(format!("the start is {} s ahead: more than an hour", ahead / 1_000_000_000));
    }
    let length = order.warm_up_ns.checked_add(order.duration_ns).and_then(|ns| i64::try_from(ns).ok());
    // Half of the clock's range is kept in reserve for times after the end.
    if length.and_then(|ns| order.at_ns.checked_add(ns)).is_none_or(|end| end > i64::MAX / 2) {
        return impossible("the run would end when the clock has ended".into());
    }
    let messages = streams.iter().fold(0_u64, |sum, channel| sum.saturating_add(order.numbers(&channel.stream).1));
    if messages > MOST_MESSAGES {
        return impossible(format!("the run would have {messages} messages: {MOST_MESSAGES} are possible"));
    }
    Ok(())
}

fn impossible(why: String) -> Result<(), NodeError> {
    Err(NodeError::Impossible(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;
    use crate::time::NodeClock;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    fn channel() -> StreamDestination {
        let stream = Stream {
            id: 31,
            producer: 3,
            transport: Transport::Udp,
            size: LEAST_SIZE,
            period: Duration::from_millis(1),
            deadline: Duration::from_millis(1),
            phase: Some(Duration::ZERO),
        };
        StreamDestination { stream, to: "10.0.0.1:5000".parse().unwrap() }
    }

    fn order(streams: Vec<StreamDestination>) -> Prepare {
        let address = "10.0.0.2".parse().unwrap();
        Prepare { role: NodeRole::Producer, address, streams, time: NodeClock::Machine, watch_ns: 0 }
    }

    fn refused(change: impl FnOnce(&mut StreamDestination)) -> String {
        let mut channel = channel();
        change(&mut channel);
        prepare(&order(vec![channel])).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn what_cannot_be_opened_is_refused() {
        assert_eq!(refused(|_| ()), "");
        assert_eq!(refused(|channel| channel.stream.size = GREATEST_DATAGRAM), "");
        assert_eq!(refused(|channel| channel.stream.size = 9), "stream 31: messages have 10 to 65507 bytes, not 9");
        assert!(refused(|channel| channel.stream.size = GREATEST_DATAGRAM + 1).contains("65508"));
        assert!(refused(|channel| channel.stream.period = Duration::ZERO).contains("period"));
        assert!(refused(|channel| channel.to.set_port(0)).contains("port"));
        assert!(refused(|channel| channel.to.set_ip("fe80::1".parse().unwrap())).contains("10.0.0.2"));
        assert!(refused(|channel| channel.to.set_ip("239.1.1.1".parse().unwrap())).contains("239.1.1.1 is a group"));
        assert!(refused(|channel| channel.stream.transport = Transport::UdpMulticast).contains("is not a group"));
        let large = |channel: &mut StreamDestination| {
            channel.stream.transport = Transport::Tcp;
            channel.stream.size = GREATEST_SIZE;
        };
        assert_eq!(refused(large), "");

        assert!(prepare(&order(Vec::new())).is_err());
        assert!(prepare(&order(vec![channel(); MOST_STREAMS + 1])).is_err());
        assert!(prepare(&order(vec![channel(), channel()])).unwrap_err().to_string().contains("port 5000"));
        let many: Vec<StreamDestination> = (0..65_u16)
            .map(|number| {
                let mut channel = channel();
                large(&mut channel);
                channel.to.set_port(5000 + number);
                channel
            })
            .collect();
        assert!(prepare(&order(many.clone())).unwrap_err().to_string().contains("bytes"));
        assert!(
            prepare(&Prepare { role: NodeRole::Consumer, ..order(many) }).is_ok(),
            "a consumer has one buffer for all"
        );
    }

    #[test]
    fn runs_that_cannot_be_are_refused() {
        let good = Start { at_ns: 1_000, warm_up_ns: SECOND, duration_ns: 60 * SECOND };
        let told = |order: Start| {
            start(&order, &[channel(), channel()], 500).map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(told(good), "");
        assert!(told(Start { at_ns: 499, ..good }).contains("ago"));
        assert!(told(Start { at_ns: i64::MIN, ..good }).contains("ago"));
        assert!(told(Start { at_ns: i64::MAX, ..good }).contains("more than an hour"));
        assert!(told(Start { duration_ns: u64::MAX, ..good }).contains("ended"));
        assert!(told(Start { duration_ns: i64::MAX as u64, warm_up_ns: 0, ..good }).contains("ended"));
        assert!(told(Start { duration_ns: 3_000_000 * SECOND, ..good }).contains("messages"));
    }
}
