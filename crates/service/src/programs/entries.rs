//! Ports, flows and groups of claims: the rows of the maps that follow from the registry.

use super::port_uses::PortUses;
use super::{Programs, Result};
use aya::Pod;
use aya::maps::{HashMap, MapData, MapError};
use tickwire_lane_linux::bpf::{self, port_kind};
use tickwire_registry::{FlowOwner, GroupChange, LaneId, Members, Share, TableChange};
use tickwire_steer::tables::{FlowKey, PortKey, Protocol};

impl Programs {
    /// Applies changes in order; if one fails, undoes those before it.
    pub(crate) fn apply(&mut self, changes: Vec<TableChange>) -> Result<()> {
        let mut done = Vec::with_capacity(changes.len());
        for change in changes {
            if let Err(error) = self.apply_one(&change) {
                for change in done.into_iter().rev() {
                    let _ = self.apply_one(&TableChange::inverse(change));
                }
                return Err(error);
            }
            done.push(change);
        }
        Ok(())
    }

    /// Applies changes as far as possible: an entry that is gone already needs no removal.
    pub(crate) fn apply_best(&mut self, changes: Vec<TableChange>) {
        for change in changes {
            if let Err(error) = self.apply_one(&change) {
                tracing::debug!(%error, ?change, "a map did not take a change");
            }
        }
    }

    fn apply_one(&mut self, change: &TableChange) -> Result<()> {
        match change {
            TableChange::Port { key, before, after } => self.set_port(*key, before, after),
            TableChange::Flow { key, before, after } => self.set_flow(key, before.is_none(), *after),
            TableChange::Owned { lane, key, before, after } => self.set_owned(*lane, *key, before.is_none(), *after),
        }
    }

    fn set_port(&mut self, key: PortKey, before: &[LaneId], after: &[LaneId]) -> Result<()> {
        let kind = if key.local.address.is_unspecified() { port_kind::ANY } else { port_kind::BOUND };
        let row = Row {
            key: bpf::PortMapKey::new(key.protocol.number(), key.local),
            value: self.port_value(key, before, after),
            is_new: before.is_empty(),
            counted: (key, kind),
        };
        row.enter(&mut self.ports, &mut self.port_uses)
    }

    fn set_flow(&mut self, key: &FlowKey, is_new: bool, after: Option<FlowOwner>) -> Result<()> {
        let &FlowKey { protocol, local, remote } = key;
        let row = Row {
            key: bpf::FlowMapKey::new(protocol.number(), local, remote),
            value: after.map(flow_value),
            is_new,
            counted: (PortKey { protocol, local }, port_kind::FLOWS),
        };
        row.enter(&mut self.flows, &mut self.port_uses)
    }

    fn set_owned(&mut self, lane: LaneId, key: PortKey, is_new: bool, after: Option<Share>) -> Result<()> {
        let kind = if key.local.address.is_unspecified() { port_kind::OWNED_ANY } else { port_kind::OWNED };
        let value = after.map(|share| match share {
            Share::Whole => bpf::OwnedValue::WHOLE,
            Share::One(remote) => bpf::OwnedValue::one(remote),
            Share::Flows => bpf::OwnedValue::FLOWS,
        });
        let row = Row {
            key: bpf::OwnedMapKey::new(lane, key.protocol.number(), key.local),
            value,
            is_new,
            counted: (key, kind),
        };
        row.enter(&mut self.owned, &mut self.port_uses)
    }

    /// The map value for the lanes of a port. Lanes that join others are told apart from these
    /// until [`Programs::settle`].
    fn port_value(&mut self, key: PortKey, before: &[LaneId], after: &[LaneId]) -> Option<bpf::PortValue> {
        let mut joining = self.joining.remove(&key).unwrap_or_default();
        if key.protocol == Protocol::Tcp && !before.is_empty() {
            joining.extend(after.iter().filter(|lane| !before.contains(lane)));
        }
        let (new, old): (Vec<LaneId>, Vec<LaneId>) = after.iter().partition(|lane| joining.contains(lane));
        let value = bpf::PortValue::joining(&[&old[..], &new].concat(), old.len());
        if !new.is_empty() && !old.is_empty() {
            self.joining.insert(key, new);
        }
        value
    }

    /// Whether lanes are joining a port.
    pub(crate) fn is_joining(&self, key: &PortKey) -> bool {
        self.joining.contains_key(key)
    }

    /// Those of a port's lanes that have not joined it recently.
    pub(crate) fn settled(&self, key: &PortKey, lanes: &[LaneId]) -> Vec<LaneId> {
        let joining = self.joining.get(key).map_or(&[][..], Vec::as_slice);
        lanes.iter().copied().filter(|lane| !joining.contains(lane)).collect()
    }

    /// Ends the joining of a port; `lanes` are all that share it.
    pub(crate) fn settle(&mut self, key: PortKey, lanes: &[LaneId]) {
        if self.joining.remove(&key).is_some()
            && let Some(value) = bpf::PortValue::new(lanes)
            && let Err(error) = self.ports.insert(bpf::PortMapKey::new(key.protocol.number(), key.local), value, 0)
        {
            tracing::warn!(%error, "a shared port stays as it is");
        }
    }

    /// The lane that received a connection's handshake, if that began while a lane was joining its
    /// port.
    pub(crate) fn handshake(&self, key: &FlowKey) -> Option<LaneId> {
        self.handshakes.get(&bpf::FlowMapKey::new(key.protocol.number(), key.local, key.remote), 0).ok()
    }

    /// Whether divert knows a flow; true if the map cannot be read.
    pub(crate) fn has_flow(&self, key: &FlowKey) -> bool {
        let key = bpf::FlowMapKey::new(key.protocol.number(), key.local, key.remote);
        !matches!(self.flows.get(&key, 0), Err(MapError::KeyNotFound))
    }

    /// Enters the lanes that receive copies of a group's datagrams: at the port, and at any port.
    pub(crate) fn set_members(&mut self, change: &GroupChange) -> Result<()> {
        // Both, also after an error: the leave that follows may remove one that was entered.
        let port = self.set_group(&change.port, bpf::GroupValue::new(&change.port.after));
        let any = self.set_group(&change.any_port, bpf::GroupValue::any_port(&change.any_port.after));
        port.and(any)
    }

    fn set_group(&mut self, members: &Members, value: Option<bpf::GroupValue>) -> Result<()> {
        let key = bpf::GroupMapKey::new(members.key.group, members.key.nic);
        match value {
            _ if members.before == members.after => {}
            Some(value) => self.groups.insert(key, value, 0)?,
            None => self.groups.remove(&key)?,
        }
        Ok(())
    }
}

/// A row as it is to be.
struct Row<K, V> {
    key: K,
    /// `None`: there is to be no such row.
    value: Option<V>,
    /// Whether there is none yet.
    is_new: bool,
    /// The port and the kind for which it counts.
    counted: (PortKey, u8),
}

impl<K: Pod, V: Pod> Row<K, V> {
    /// Enters the row into its map, or removes it.
    fn enter(self, map: &mut HashMap<MapData, K, V>, uses: &mut PortUses) -> Result<()> {
        let Self { key, value, is_new, counted: (port, kind) } = self;
        let Some(value) = value else {
            let done = map.remove(&key);
            uses.remove(port, kind);
            return Ok(done?);
        };
        // Counted first, so that no packet misses the row.
        if is_new {
            uses.add(port, kind);
        }
        let done = map.insert(key, value, 0);
        if done.is_err() && is_new {
            uses.remove(port, kind);
        }
        Ok(done?)
    }
}

/// The map value for the owner of a flow.
fn flow_value(owner: FlowOwner) -> bpf::FlowValue {
    match owner {
        FlowOwner::Kernel => bpf::FlowValue::KERNEL,
        FlowOwner::Lane(lane) => bpf::FlowValue::new(lane),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServiceLimits;
    use tickwire_stack::addr::Address;
    use tickwire_stack::addr::Endpoint;

    #[test]
    fn a_full_map_is_told_apart_and_keeps_what_it_had() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root");
            return;
        }
        crate::run::raise_limits(&ServiceLimits::default());
        let mut programs = Programs::load(&ServiceLimits { flows: 1, ..ServiceLimits::default() }).unwrap();
        let local = Endpoint::new(Address::v4([10, 0, 0, 1]), 80);
        let flow = |port| {
            let remote = Endpoint::new(Address::v4([10, 0, 0, 2]), port);
            TableChange::Flow {
                key: FlowKey { protocol: Protocol::Tcp, local, remote },
                before: None,
                after: Some(FlowOwner::Lane(7)),
            }
        };
        programs.apply((0..1020).map(flow).collect()).unwrap();
        let error = programs.apply((2000..2010).map(flow).collect()).unwrap_err();
        assert!(error.is_full(), "{error}");
        // Changes before the one that did not fit have been undone.
        programs.apply((3000..3004).map(flow).collect()).unwrap();
        assert_eq!(programs.flows.keys().count(), 1024);
        programs.apply((0..1020).chain(3000..3004).map(|port| flow(port).inverse()).collect()).unwrap();
        assert!(programs.port_uses.is_empty());
    }
}
