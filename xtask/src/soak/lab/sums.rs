//! Checks that the counters add up: every packet that the card received went to a lane or to the
//! kernel, and the stack has seen every packet of its lane.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tickwire_lab::LabHost;
use tickwire_lab::stat::Stat;

/// The most attempts to read the counters without a packet in between.
const ATTEMPTS: usize = 100;

/// Packets received by a host, from two independent counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// The card.
    card: u64,
    /// Divert: to the kernel, to lanes, with a tag.
    divert: u64,
}

impl Arrived {
    /// Reads both counters without a packet in between. The programs are idle, but a few last
    /// packets may still arrive.
    pub(super) fn read(host: &LabHost) -> Result<Self> {
        let card = || -> Result<u64> {
            let file = "/sys/class/net/eth0/statistics/rx_packets";
            host.run(&["cat", file])?.trim().parse().context("rx_packets")
        };
        for _ in 0..ATTEMPTS {
            let before = card()?;
            let stat = Stat::read(host)?;
            if card()? == before {
                let of = |name: &str| stat.number(&format!("/host/counters/{name}"));
                return Ok(Self { card: before, divert: of("passed") + of("diverted") + of("vlan") });
            }
        }
        bail!("host {} never stops receiving", host.name())
    }

    /// The defect in the difference to `before`, an earlier reading with the same service.
    pub(super) fn defect(&self, before: &Self) -> Option<String> {
        let (card, divert) = (self.card - before.card, self.divert.wrapping_sub(before.divert));
        (card != divert).then(|| format!("the card has received {card} packets, and divert has seen {divert}"))
    }
}

/// The defects in the counters of a host's lanes while its programs are idle. `unaddressed`: the
/// host lacked an address for a time, and programs may have sent from it.
pub(super) fn of_lanes(host: &LabHost, unaddressed: bool) -> Result<Vec<String>> {
    let stat = Stat::read(host)?;
    let lanes = stat.all_lanes();
    let mut defects = Vec::new();
    for lane in lanes.iter().filter(|lane| lane["accelerated"] == true) {
        let mut dropped = 0;
        for device in ["h", "b"] {
            dropped += dropped_by(host, &format!("tw{}{device}", lane["lane"]))?;
        }
        defects.extend(of_lane(lane, dropped, unaddressed));
    }
    Ok(defects)
}

/// Outgoing packets that a device of a lane has dropped. A lane may have no device for trains.
fn dropped_by(host: &LabHost, device: &str) -> Result<u64> {
    let file = format!("/sys/class/net/{device}/statistics/rx_dropped");
    let read = host.run(&["sh", "-c", &format!("test ! -e {file} || cat {file}")])?;
    if read.trim().is_empty() { Ok(0) } else { read.trim().parse().context("rx_dropped") }
}

/// The defects in the counters of a lane. Its devices have dropped `dropped` outgoing packets that
/// exceeded the NIC's MTU by then.
fn of_lane(lane: &Value, dropped: u64, unaddressed: bool) -> Vec<String> {
    let mut defects = Vec::new();
    let mut unknown = Vec::new();
    let mut read = |group: &str, name: &str| {
        lane[group][name].as_u64().unwrap_or_else(|| {
            unknown.push(format!("lane {} has no counter {name} in {group}", lane["lane"]));
            0
        })
    };
    let mut say = |what: String| defects.push(format!("lane {} ({}): {what}", lane["lane"], lane["program"]));
    let (given, lost) = (read("guard", "in_packets"), read("guard", "lost_ring_full"));
    let seen = read("counters", "IpInReceives");
    if given != seen + lost {
        say(format!("{given} packets were diverted to it, its stack has seen {seen}, and {lost} were lost"));
    }
    let guard = lane["guard"].as_object().into_iter().flatten();
    let refused: Vec<_> =
        guard.filter_map(|(name, count)| Some((name.strip_prefix("refused_")?, count.as_u64()?))).collect();
    let (sent, failed) = (read("counters", "TxPackets"), read("counters", "TxFailed"));
    let (out, resets) = (read("guard", "out_packets"), read("counters", "TcpOutRsts"));
    let all_refused: u64 = refused.iter().map(|&(_, count)| count).sum();
    if sent != out + all_refused + dropped {
        say(format!(
            "its stack has sent {sent} packets, {out} left, {all_refused} were refused and {dropped} dropped \
             ({failed} of which it knows)"
        ));
    }
    for (why, count) in refused {
        let explained = match why {
            "source" => unaddressed,
            // A datagram's first fragment was refused or too large, but a later one was not: its
            // address came back in between, or it is the short last fragment.
            "fragment" => unaddressed || count <= dropped,
            // A claim ends with its address, a moment before the program is notified. Or these are
            // resets: a closed connection's claim ended just after a retransmission of its peer
            // arrived, which the reset answers.
            "port" => unaddressed || count <= resets,
            // The NIC's MTU was reduced a moment before the program is notified.
            "length" => true,
            _ => false,
        };
        if count > 0 && !explained {
            say(format!("{count} of its packets were refused: {why}"));
        }
    }
    for counter in ["EthInBadFrame", "FramesExhausted"] {
        let count = read("counters", counter);
        if count > 0 {
            say(format!("{counter} is {count}"));
        }
    }
    // All streams are closed; an open descriptor belongs to a server.
    let sockets = lane["sockets"].as_array().map(Vec::as_slice).unwrap_or_default();
    for socket in sockets.iter().filter(|socket| socket["accelerated"] == true && socket["protocol"] == "tcp") {
        if !["LISTEN", "TIME-WAIT"].iter().any(|state| socket["state"] == *state) {
            say(format!("a connection is left: {socket}"));
        }
    }
    defects.append(&mut unknown);
    defects
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lane() -> Value {
        json!({
            "lane": 3, "program": "p", "sockets": [{"accelerated": true, "protocol": "tcp", "state": "LISTEN"}],
            "guard": {"in_packets": 10, "lost_ring_full": 1, "out_packets": 5, "refused_source": 1},
            "counters": {
                "IpInReceives": 9, "TxPackets": 8, "TxFailed": 0, "TcpOutRsts": 0, "EthInBadFrame": 0,
                "FramesExhausted": 0,
            },
        })
    }

    #[test]
    fn what_was_given_is_what_was_seen_or_lost_and_what_was_sent_left_or_was_refused() {
        assert_eq!(of_lane(&lane(), 2, true), Vec::<String>::new());
        assert_eq!(of_lane(&lane(), 2, false), ["lane 3 (\"p\"): 1 of its packets were refused: source"]);
        let mut pieces = lane();
        pieces["guard"] = json!({"in_packets": 10, "lost_ring_full": 1, "out_packets": 5, "refused_fragment": 1});
        assert_eq!(of_lane(&pieces, 2, false), Vec::<String>::new());
        pieces["counters"]["TxPackets"] = 6.into();
        assert_eq!(of_lane(&pieces, 0, false), ["lane 3 (\"p\"): 1 of its packets were refused: fragment"]);
        let mut late = lane();
        late["guard"] = json!({"in_packets": 10, "lost_ring_full": 1, "out_packets": 7, "refused_port": 1});
        assert_eq!(of_lane(&late, 0, false), ["lane 3 (\"p\"): 1 of its packets were refused: port"]);
        assert_eq!(of_lane(&late, 0, true), Vec::<String>::new());
        late["counters"]["TcpOutRsts"] = 1.into();
        assert_eq!(of_lane(&late, 0, false), Vec::<String>::new());
        let mut wrong = lane();
        wrong["guard"]["in_packets"] = 11.into();
        wrong["counters"]["TxPackets"] = 7.into();
        wrong["sockets"][0]["state"] = "FIN-WAIT-2".into();
        assert_eq!(of_lane(&wrong, 2, true).len(), 3);
        let mut unknown = lane();
        unknown["guard"].as_object_mut().unwrap().remove("lost_ring_full");
        assert_eq!(of_lane(&unknown, 2, true).last().unwrap(), "lane 3 has no counter lost_ring_full in guard");
    }

    #[test]
    fn a_card_and_divert_count_the_same_from_a_moment_on() {
        let before = Arrived { card: 5, divert: 1 };
        assert_eq!(Arrived { card: 15, divert: 11 }.defect(&before), None);
        assert!(Arrived { card: 15, divert: 10 }.defect(&before).is_some());
    }
}
