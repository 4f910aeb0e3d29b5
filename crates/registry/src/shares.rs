//! What lanes may send: the whole of a port, or a part.

use super::keys::any_of;
use super::{ClaimId, LaneId, Registry, TableChange};
use tickwire_stack::addr::Endpoint;
use tickwire_steer::tables::{FlowKey, PortKey, Protocol};

/// How much of a port a lane owns: the remote ends to which it may send from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// To all: the port is its own.
    Whole,
    /// To one remote end: other programs may have other connections of the port.
    One(Endpoint),
    /// To those of its flows.
    Flows,
}

/// The claims of one lane on one port, by what they give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    whole: u32,
    flows: u32,
    remotes: Vec<Endpoint>,
}

impl Shares {
    fn add(&mut self, share: Share) {
        match share {
            Share::Whole => self.whole += 1,
            Share::Flows => self.flows += 1,
            Share::One(remote) => self.remotes.push(remote),
        }
    }

    fn remove(&mut self, share: Share) {
        match share {
            Share::Whole => self.whole = self.whole.saturating_sub(1),
            Share::Flows => self.flows = self.flows.saturating_sub(1),
            Share::One(remote) => {
                if let Some(at) = self.remotes.iter().position(|&r| r == remote) {
                    self.remotes.swap_remove(at);
                }
            }
        }
    }

    fn sum(&self) -> Option<Share> {
        match &self.remotes[..] {
            _ if self.whole > 0 => Some(Share::Whole),
            [] if self.flows == 0 => None,
            [first, rest @ ..] if self.flows == 0 && rest.iter().all(|r| r == first) => Some(Share::One(*first)),
            _ => Some(Share::Flows),
        }
    }
}

impl Registry {
    /// Whether a lane may send from an address and port to a remote end, as the guard sees it.
    pub fn owns(&self, lane: LaneId, protocol: Protocol, local: Endpoint, remote: Endpoint) -> bool {
        [local.address, any_of(local.address)].into_iter().any(|address| {
            let key = PortKey { protocol, local: Endpoint::new(address, local.port) };
            match self.owned.get(&(lane, key)).and_then(Shares::sum) {
                Some(Share::Whole) => true,
                Some(Share::One(only)) => only == remote,
                Some(Share::Flows) => self.holds_flow(lane, &FlowKey { protocol, local, remote }),
                None => false,
            }
        })
    }

    pub(crate) fn own(&mut self, id: ClaimId, key: PortKey, share: Share, changes: &mut Vec<TableChange>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.owned.push((key, share));
        let lane = claim.lane;
        let shares = self.owned.entry((lane, key)).or_default();
        let before = shares.sum();
        shares.add(share);
        let after = shares.sum();
        if before != after {
            changes.push(TableChange::Owned { lane, key, before, after });
        }
    }

    pub(crate) fn disown(&mut self, lane: LaneId, key: PortKey, share: Share, changes: &mut Vec<TableChange>) {
        let Some(shares) = self.owned.get_mut(&(lane, key)) else { return };
        let before = shares.sum();
        shares.remove(share);
        let after = shares.sum();
        if after.is_none() {
            self.owned.remove(&(lane, key));
        }
        if before != after {
            changes.push(TableChange::Owned { lane, key, before, after });
        }
    }
}
