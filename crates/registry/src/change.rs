//! The rows of divert's and guard's tables that follow from the registry.

use super::{FlowOwner, LaneId, Share};
use tickwire_steer::tables::{Flow, FlowKey, Owned, OwnedKey, PortKey, PortShare, Tables};

/// One change of these tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// The lanes of a port. Empty: no entry.
    Port {
        /// The port.
        key: PortKey,
        /// The lanes before.
        before: Vec<LaneId>,
        /// The lanes after.
        after: Vec<LaneId>,
    },
    /// The owner of a flow.
    Flow {
        /// The flow.
        key: FlowKey,
        /// The owner before.
        before: Option<FlowOwner>,
        /// The owner after.
        after: Option<FlowOwner>,
    },
    /// What a lane may send from a port.
    Owned {
        /// The lane.
        lane: LaneId,
        /// The port.
        key: PortKey,
        /// Its share before.
        before: Option<Share>,
        /// Its share after.
        after: Option<Share>,
    },
}

impl TableChange {
    /// The change that undoes this one.
    #[must_use]
    pub fn inverse(self) -> Self {
        match self {
            Self::Port { key, before, after } => Self::Port { key, before: after, after: before },
            Self::Flow { key, before, after } => Self::Flow { key, before: after, after: before },
            Self::Owned { lane, key, before, after } => Self::Owned { lane, key, before: after, after: before },
        }
    }
    /// Makes the change where the tables are plain data. The lanes of a port all count as settled.
    pub fn apply(&self, tables: &mut Tables) {
        match self {
            Self::Port { key, after, .. } if after.is_empty() => {
                tables.ports.remove(key);
            }
            Self::Port { key, after, .. } => {
                tables.ports.insert(*key, PortShare { lanes: after.clone(), settled: after.len() });
            }
            Self::Flow { key, after: Some(owner), .. } => {
                tables.flows.insert(*key, Flow::new(owner.lane()));
            }
            Self::Flow { key, after: None, .. } => {
                tables.flows.remove(key);
            }
            Self::Owned { lane, key, after, .. } => {
                let key = OwnedKey { lane: *lane, protocol: key.protocol, local: key.local };
                match after {
                    Some(share) => tables.owned.insert(key, owned(*share)),
                    None => tables.owned.remove(&key),
                };
            }
        }
    }
}

fn owned(share: Share) -> Owned {
    match share {
        Share::Whole => Owned::Whole,
        Share::One(remote) => Owned::One(remote),
        Share::Flows => Owned::Flows,
    }
}
