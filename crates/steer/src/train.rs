//! The guard of a lane's second device, for trains: TCP segments that the program has put together,
//! and that the kernel segments on their way, computing their checksums.
//!
//! The rules of [`guard`](mod@crate::guard) hold, and these:
//!
//! * A train is whole segments of TCP. Fragments and datagrams have the other device.
//! * One write makes 256 packets at most, and none that is longer than the MTU.
//! * The kernel computes the checksum at its own place. A program that had it left to the device
//!   (`CHECKSUM_PARTIAL`) would choose the place, behind this check: over its source port, for
//!   instance.

use crate::counters::GuardRefusal;
use crate::fragments::Part;
use crate::guard::{Checked, FrameDeparture, GuardVerdict, check, count, longest_frame};
use crate::header::ETHERNET;
use crate::merged::{Merged, headers, weight};
use crate::parse::{Parsed, parse};
use crate::tables::{LaneNumber, Protocol, Tables};

/// How a train leaves a lane.
#[derive(Clone, Copy, Debug)]
pub struct TrainDeparture {
    /// As any frame does.
    pub departure: FrameDeparture,
    /// The segments that it is made of; `None`: it is one.
    pub segments: Option<Merged>,
    /// The checksum is left to the device.
    pub is_checksum_left: bool,
}

/// The longest train: the longest IP packet.
const MOST_BYTES: usize = ETHERNET + 65_535;

/// The least data of a segment.
const LEAST_SEGMENT: u32 = 256;

/// The checksum in the header of TCP ends here.
const CHECKSUM_END: usize = 18;

/// Judges a train that a lane sends.
pub fn guard_train(tables: &mut Tables, lane: LaneNumber, frame: &[u8], train: &TrainDeparture) -> GuardVerdict {
    let checked =
        check(tables, lane, frame, &train.departure).and_then(|checked| check_train(tables, frame, train, checked));
    let packet = if let Parsed::Found(packet) = parse(frame) { Some(packet) } else { None };
    let weight = weight(packet.as_ref(), frame, train.segments);
    count(tables, lane, checked, weight.packets, weight.bytes)
}

fn check_train(
    tables: &Tables,
    frame: &[u8],
    train: &TrainDeparture,
    checked: Checked,
) -> Result<Checked, GuardRefusal> {
    let packet = &checked.packet;
    if packet.protocol != Protocol::Tcp || packet.ip.part != Part::Whole {
        return Err(GuardRefusal::Protocol);
    }
    let segment = train.segments.map(|segments| segments.segment);
    let longest = segment.map_or(frame.len(), |segment| headers(packet, frame) + segment as usize);
    let most = longest_frame(tables, checked.nic).unwrap_or(0);
    if frame.len() > MOST_BYTES || longest > most || segment.is_some_and(|segment| segment < LEAST_SEGMENT) {
        return Err(GuardRefusal::Length);
    }
    if train.is_checksum_left || frame.len() < packet.ip.transport + CHECKSUM_END {
        return Err(GuardRefusal::Checksum);
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Owned, OwnedKey};
    use crate::testing::{HERE, NIC, PEER, ends, host, tcp, udp};

    const TRAIN: TrainDeparture =
        TrainDeparture { departure: FrameDeparture { now_ns: 5, tag: None }, segments: None, is_checksum_left: false };

    fn of(segment: u32) -> TrainDeparture {
        TrainDeparture { segments: Some(Merged { segment, packets: None }), ..TRAIN }
    }

    #[test]
    fn a_train_is_segments_of_tcp_of_a_usual_length() {
        let mut tables = host();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            tables.owned.insert(OwnedKey { lane: 77, protocol, local: ends(HERE, 7) }, Owned::Whole);
        }
        let mut long = tcp(ends(HERE, 7), ends(PEER, 5), 0x10, 100, 200);
        long.resize(long.len() + 4000, 0);
        let total = long.len() as u16 - 14;
        long[16..18].copy_from_slice(&total.to_be_bytes());
        let mut fragment = long.clone();
        fragment[20] = 0x20;
        let mut sent = |frame: &[u8], train| guard_train(&mut tables, 77, frame, &train);
        let out = GuardVerdict::Out { nic: NIC, path: None };
        assert_eq!(sent(&long, of(1460)), out);
        assert_eq!(sent(&long, of(256)), out);
        assert_eq!(sent(&long, of(255)), GuardVerdict::Refused(GuardRefusal::Length));
        assert_eq!(sent(&long, of(1461)), GuardVerdict::Refused(GuardRefusal::Length), "longer than the MTU");
        assert_eq!(sent(&long, TRAIN), GuardVerdict::Refused(GuardRefusal::Length), "one segment");
        assert_eq!(sent(&fragment, of(1460)), GuardVerdict::Refused(GuardRefusal::Protocol));
        assert_eq!(sent(&udp(ends(HERE, 7), ends(PEER, 5), 8), TRAIN), GuardVerdict::Refused(GuardRefusal::Protocol));
        let left = TrainDeparture { is_checksum_left: true, ..of(1460) };
        assert_eq!(sent(&long, left), GuardVerdict::Refused(GuardRefusal::Checksum));
        assert_eq!(tables.lane_counters[&77].out_packets, 3 + 16);
    }
}
