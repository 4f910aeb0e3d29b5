//! The tables as the bytes of the BPF maps (`bpf/maps.h`): those that packets change, and that are
//! compared.

use std::collections::BTreeMap;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::Tables;
use tickwire_steer::tables::{Course, DatagramKey, Flow, FlowKey, Group, GroupCourse, GroupKey, Handshake, LaneNumber};

pub(crate) type FlowBytes = [u8; 40];
pub(crate) type FlowValueBytes = [u8; 16];
pub(crate) type FragmentBytes = [u8; 44];
pub(crate) type FragmentValueBytes = [u8; 16];
pub(crate) type GroupBytes = [u8; 24];
pub(crate) type GroupValueBytes = [u8; 80];

/// Bytes of the time in front of what is known of a datagram's fragments.
pub(crate) const SEEN: usize = 8;
/// Where the count of early fragments is in a group's value.
const EARLY: usize = 68;

/// Bytes one after another.
struct Bytes<const N: usize>([u8; N], usize);

impl<const N: usize> Bytes<N> {
    const fn new() -> Self {
        Self([0; N], 0)
    }

    fn with(mut self, bytes: &[u8]) -> Self {
        self.0[self.1..][..bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        self
    }
}

/// The key of a flow.
pub(crate) fn flow_key(key: &FlowKey) -> FlowBytes {
    let FlowKey { protocol, local, remote } = *key;
    let ports = Bytes::new().with(&local.address.0).with(&remote.address.0).with(&local.port.to_be_bytes());
    ports.with(&remote.port.to_be_bytes()).with(&[protocol.number()]).0
}

/// The value of a flow: owner, next number, and the answer with the progress in one word.
pub(crate) fn flow_value(flow: &Flow) -> FlowValueBytes {
    let (progress, answer) = match flow.handshake {
        Handshake::None => (0_u32, 0),
        Handshake::Asked => (1, 0),
        Handshake::Followed { answer } => (2, answer),
        Handshake::Answered { answer } => (3, answer),
    };
    let value = Bytes::new().with(&flow.owner.unwrap_or(0).to_ne_bytes()).with(&flow.next.to_ne_bytes());
    value.with(&progress.to_le_bytes()).with(&answer.to_le_bytes()).0
}

/// The key of a datagram's fragments: its identification is as it was on the wire.
pub(crate) fn fragment_key(key: &DatagramKey, lane: LaneNumber) -> FragmentBytes {
    let DatagramKey { source, destination, id, protocol } = *key;
    let id = match Address::to_v4(source) {
        Some(_) => {
            let [high, low] = (id as u16).to_be_bytes();
            [high, low, 0, 0]
        }
        None => id.to_be_bytes(),
    };
    let key = Bytes::new().with(&source.0).with(&destination.0).with(&id).with(&lane.to_ne_bytes());
    key.with(&[protocol.number()]).0
}

fn fragment_value(seen_ns: u64, lane: LaneNumber, group_port: u16, early: u16) -> FragmentValueBytes {
    let value = Bytes::new().with(&seen_ns.to_ne_bytes()).with(&lane.to_ne_bytes());
    value.with(&group_port.to_be_bytes()).with(&early.to_ne_bytes()).0
}

/// The fragments on their way in, to the host and to groups.
pub(crate) fn fragments(tables: &Tables) -> BTreeMap<FragmentBytes, FragmentValueBytes> {
    let unicast = tables.fragments.iter().map(|(key, value)| {
        let value = match value.course {
            Course::Early => fragment_value(value.seen_ns, 0, 0, 1),
            Course::Led(lane) => fragment_value(value.seen_ns, lane.unwrap_or(0), 0, 0),
        };
        (fragment_key(key, 0), value)
    });
    let groups = tables.group_fragments.iter().map(|(key, value)| {
        let value = match value.course {
            GroupCourse::Early(early) => fragment_value(value.seen_ns, 0, 0, early),
            GroupCourse::Led(port) => fragment_value(value.seen_ns, 0, port, 0),
        };
        (fragment_key(key, 0), value)
    });
    unicast.chain(groups).collect()
}

/// The fragments on their way out.
pub(crate) fn sent_fragments(tables: &Tables) -> BTreeMap<FragmentBytes, FragmentValueBytes> {
    let all = tables.sent_fragments.iter();
    all.map(|(&(lane, key), &seen_ns)| (fragment_key(&key, lane), fragment_value(seen_ns, lane, 0, 0))).collect()
}

/// The flows.
pub(crate) fn flows(tables: &Tables) -> BTreeMap<FlowBytes, FlowValueBytes> {
    tables.flows.iter().map(|(key, value)| (flow_key(key), flow_value(value))).collect()
}

/// The handshakes on ports that lanes join.
pub(crate) fn handshakes(tables: &Tables) -> BTreeMap<FlowBytes, u32> {
    tables.handshakes.iter().map(|(key, &lane)| (flow_key(key), lane)).collect()
}

/// The groups.
pub(crate) fn groups(tables: &Tables) -> BTreeMap<GroupBytes, GroupValueBytes> {
    let key = |key: &GroupKey| {
        let Endpoint { address, port } = key.group;
        Bytes::new().with(&address.0).with(&key.nic.to_ne_bytes()).with(&port.to_be_bytes()).0
    };
    let value = |value: &Group| {
        let mut bytes = Bytes::new().with(&(value.lanes.len() as u32).to_ne_bytes());
        for at in 0..16 {
            bytes = bytes.with(&value.lanes.get(at).copied().unwrap_or(0).to_ne_bytes());
        }
        bytes.with(&value.early.to_ne_bytes()).with(&value.since_ns.to_ne_bytes()).0
    };
    tables.groups.iter().map(|(k, v)| (key(k), value(v))).collect()
}

/// The count of early fragments in a group's value.
pub(crate) fn early(value: &GroupValueBytes) -> u32 {
    u32::from_ne_bytes([value[EARLY], value[EARLY + 1], value[EARLY + 2], value[EARLY + 3]])
}
