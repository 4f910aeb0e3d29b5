//! What the service enters of claims: flows, ports, groups, and what lanes may send from.

use tickwire_stack::addr::Endpoint;
use tickwire_steer::tables::{MAX_MEMBERS, MAX_SHARED};

/// One connection of one of our sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FlowMapKey {
    local: [u8; 16],
    remote: [u8; 16],
    local_port: [u8; 2],
    remote_port: [u8; 2],
    protocol: u8,
    pad: [u8; 3],
}

impl FlowMapKey {
    /// The key of a flow; `protocol` is the IP protocol number.
    #[must_use]
    pub const fn new(protocol: u8, local: Endpoint, remote: Endpoint) -> Self {
        Self {
            local: local.address.0,
            remote: remote.address.0,
            local_port: local.port.to_be_bytes(),
            remote_port: remote.port.to_be_bytes(),
            protocol,
            pad: [0; 3],
        }
    }
}

/// The owner of a flow, and the progress of another connection's handshake between its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FlowValue {
    lane: u32,
    next: u32,
    progress: u64,
}

impl FlowValue {
    /// A flow that is the kernel's.
    pub const KERNEL: Self = Self::new(0);

    /// A flow that is a lane's.
    #[must_use]
    pub const fn new(lane: u32) -> Self {
        Self { lane, next: 0, progress: 0 }
    }
}

/// One bound port; the address is the bound one, [`ANY`](tickwire_stack::addr::Address::ANY) or
/// [`ANY_V4`](tickwire_stack::addr::Address::ANY_V4).
///
/// A dual-stack socket bound to `::` has two keys, one per family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct PortMapKey {
    local: [u8; 16],
    port: [u8; 2],
    protocol: u8,
    pad: u8,
}

impl PortMapKey {
    /// The key of a bound port.
    #[must_use]
    pub const fn new(protocol: u8, local: Endpoint) -> Self {
        Self { local: local.address.0, port: local.port.to_be_bytes(), protocol, pad: 0 }
    }
}

/// The lanes that share a port; one is chosen by the hash of the remote end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PortValue {
    count: u32,
    settled: u32,
    lanes: [u32; MAX_SHARED],
}

impl PortValue {
    /// The value for these lanes; `None` if there are none or more than [`MAX_SHARED`].
    #[must_use]
    pub fn new(lanes: &[u32]) -> Option<Self> {
        let (count, lanes) = fixed(lanes)?;
        Some(Self { count, settled: count, lanes })
    }

    /// As [`PortValue::new`], while all but the first so many lanes are joining: handshakes that
    /// are under way belong to the first.
    #[must_use]
    pub fn joining(lanes: &[u32], settled: usize) -> Option<Self> {
        let value = Self::new(lanes)?;
        let settled = u32::try_from(settled).ok().filter(|&n| n > 0).unwrap_or(value.count);
        Some(Self { settled: settled.min(value.count), ..value })
    }
}

/// One multicast group and port on one NIC. Port 0 is any: for fragments that arrive before their
/// first one, which alone names the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct GroupMapKey {
    group: [u8; 16],
    nic: u32,
    port: [u8; 2],
    pad: [u8; 2],
}

impl GroupMapKey {
    /// The key of a group on the NIC with interface index `nic`.
    #[must_use]
    pub const fn new(group: Endpoint, nic: u32) -> Self {
        Self { group: group.address.0, nic, port: group.port.to_be_bytes(), pad: [0; 2] }
    }
}

/// The lanes that receive a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupValue {
    count: u32,
    lanes: [u32; MAX_MEMBERS],
    early: u32,
    since_ns: u64,
}

impl GroupValue {
    /// The value for these lanes; `None` if there are none or more than [`MAX_MEMBERS`].
    #[must_use]
    pub fn new(lanes: &[u32]) -> Option<Self> {
        let (count, lanes) = fixed(lanes)?;
        Some(Self { count, lanes, early: 0, since_ns: 0 })
    }

    /// The value for the group at any port, which these lanes have joined at one or another; `None`
    /// if there are none. Lanes beyond [`MAX_MEMBERS`] receive no fragments that arrive before
    /// their first one; each such fragment is counted as a stray.
    #[must_use]
    pub fn any_port(lanes: &[u32]) -> Option<Self> {
        let count = u32::try_from(lanes.len()).ok()?;
        Some(Self { count, ..Self::new(lanes.get(..MAX_MEMBERS).unwrap_or(lanes))? })
    }
}

fn fixed<const N: usize>(lanes: &[u32]) -> Option<(u32, [u32; N])> {
    let mut all = [0; N];
    if lanes.is_empty() {
        return None;
    }
    all.get_mut(..lanes.len())?.copy_from_slice(lanes);
    Some((u32::try_from(lanes.len()).ok()?, all))
}

/// A port that a lane may send from; the address as in [`PortMapKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct OwnedMapKey {
    local: [u8; 16],
    lane: u32,
    port: [u8; 2],
    protocol: u8,
    pad: u8,
}

impl OwnedMapKey {
    /// The key of a port of `lane`.
    #[must_use]
    pub const fn new(lane: u32, protocol: u8, local: Endpoint) -> Self {
        Self { local: local.address.0, lane, port: local.port.to_be_bytes(), protocol, pad: 0 }
    }
}

/// How much of a port a lane owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OwnedValue {
    remote: [u8; 16],
    remote_port: [u8; 2],
    share: u8,
    pad: u8,
}

impl OwnedValue {
    /// All of it: the lane may send to any remote end.
    pub const WHOLE: Self = Self { remote: [0; 16], remote_port: [0; 2], share: 1, pad: 0 };
    /// The lane may send to the remote ends of its entries in [`super::map::FLOWS`].
    pub const FLOWS: Self = Self { share: 3, ..Self::WHOLE };

    /// The lane may send to one remote end.
    #[must_use]
    pub const fn one(remote: Endpoint) -> Self {
        Self { remote: remote.address.0, remote_port: remote.port.to_be_bytes(), share: 2, pad: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_at_least_one_and_at_most_all_lanes() {
        assert!(PortValue::new(&[]).is_none());
        assert!(PortValue::new(&[7; MAX_SHARED]).is_some());
        assert!(PortValue::new(&[7; MAX_SHARED + 1]).is_none());
        assert_eq!(PortValue::new(&[5, 6]).unwrap().lanes[..3], [5, 6, 0]);
        assert!(GroupValue::any_port(&[]).is_none());
        let more = GroupValue::any_port(&[7; MAX_MEMBERS + 3]).unwrap();
        assert_eq!((more.count, more.lanes), (19, [7; MAX_MEMBERS]), "those beyond are known to be there");
    }
}
