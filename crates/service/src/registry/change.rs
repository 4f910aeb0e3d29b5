//! The rows of the BPF maps that follow from the registry.

use super::{FlowKey, LaneId, PortKey, Share, Title};

/// One change of the BPF maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The lanes of a port; before and after. Empty: no entry.
    Port { key: PortKey, before: Vec<LaneId>, after: Vec<LaneId> },
    /// The owner of a flow; before and after.
    Flow { key: FlowKey, before: Option<Title>, after: Option<Title> },
    /// What a lane may send from a port; before and after.
    Owned { lane: LaneId, key: PortKey, before: Option<Share>, after: Option<Share> },
}

impl Change {
    /// The change that undoes this one.
    pub(crate) fn inverse(self) -> Self {
        match self {
            Self::Port { key, before, after } => Self::Port { key, before: after, after: before },
            Self::Flow { key, before, after } => Self::Flow { key, before: after, after: before },
            Self::Owned { lane, key, before, after } => Self::Owned { lane, key, before: after, after: before },
        }
    }
}
