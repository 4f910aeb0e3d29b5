//! The rows of divert's and guard's tables that follow from the registry.

use super::{FlowOwner, LaneId, Share};
use tickwire_steer::tables::{FlowKey, PortKey};

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
}
