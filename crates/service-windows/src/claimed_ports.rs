//! Of which ports the driver has to take packets: those of which lanes have claimed something.

use std::collections::BTreeMap;
use std::io;
use tickwire_card_windows::card::PacketCard;
use tickwire_registry::{FlowOwner, TableChange};
use tickwire_steer::tables::Protocol;

/// For each port, how many ports with an address and flows lanes have there.
#[derive(Debug, Default)]
pub(crate) struct ClaimedPorts(BTreeMap<(Protocol, u16), u32>);

impl ClaimedPorts {
    /// Follows the registry of claims.
    pub(crate) fn follow(&mut self, changes: &[TableChange], card: &mut dyn PacketCard) -> io::Result<()> {
        for (done, change) in changes.iter().enumerate() {
            if let Err(error) = self.follow_one(change, card) {
                for change in changes[..done].iter().rev() {
                    let _ = self.follow_one(&change.clone().inverse(), card);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The ports of which something is claimed by these changes, and nothing was before.
    pub(crate) fn new_ports(&self, changes: &[TableChange]) -> Vec<(Protocol, u16)> {
        let of_change = changes.iter().filter_map(|change| {
            let (protocol, port, before, after) = use_of(change)?;
            (after && !before && !self.0.contains_key(&(protocol, port))).then_some((protocol, port))
        });
        of_change.collect()
    }

    fn follow_one(&mut self, change: &TableChange, card: &mut dyn PacketCard) -> io::Result<()> {
        let Some((protocol, port, before, after)) = use_of(change) else { return Ok(()) };
        let count = self.0.get(&(protocol, port)).copied().unwrap_or(0);
        let count_after = count + u32::from(after && !before) - u32::from(before && !after && count > 0);
        if (count == 0) != (count_after == 0) {
            card.set_claimed(protocol, port, count_after > 0)?;
        }
        match count_after {
            0 => self.0.remove(&(protocol, port)),
            count => self.0.insert((protocol, port), count),
        };
        Ok(())
    }
}

/// Whether a lane has had something of a port before a change, and whether it has after it.
fn use_of(change: &TableChange) -> Option<(Protocol, u16, bool, bool)> {
    match change {
        TableChange::Port { key, before, after } => {
            Some((key.protocol, key.local.port, !before.is_empty(), !after.is_empty()))
        }
        // Flows that the kernel keeps are exceptions of a port that a lane has.
        TableChange::Flow { key, before, after } => {
            let of_lane = |owner: &Option<FlowOwner>| owner.is_some_and(|owner| owner.lane().is_some());
            Some((key.protocol, key.local.port, of_lane(before), of_lane(after)))
        }
        TableChange::Owned { .. } => None,
    }
}
