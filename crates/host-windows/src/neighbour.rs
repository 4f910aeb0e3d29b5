//! Neighbours: the Ethernet addresses behind addresses on a link, as the kernel has resolved them.

use tickwire_stack::addr::{Address, Mac};
use tickwire_stack::path::{PathInfo, PathState};

/// The kernel's state of a neighbour (`NL_NEIGHBOR_STATE`; RFC 4861 §7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// No answer was received.
    Unreachable,
    /// Being resolved.
    Incomplete,
    /// Known; a confirmation was requested.
    Probe,
    /// Known; in use again after [`NeighbourState::Stale`], and about to be confirmed.
    Delay,
    /// Known, but not confirmed for a while.
    Stale,
    /// Recently confirmed.
    Reachable,
    /// Entered by the administrator.
    Permanent,
}

impl NeighbourState {
    /// The state with a number of `NL_NEIGHBOR_STATE`. An unknown one counts as incomplete.
    #[must_use]
    pub const fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Unreachable,
            2 => Self::Probe,
            3 => Self::Delay,
            4 => Self::Stale,
            5 => Self::Reachable,
            6 => Self::Permanent,
            _ => Self::Incomplete,
        }
    }
}

/// An entry of the kernel's neighbour table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourEntry {
    /// The interface's index.
    pub interface: u32,
    /// The neighbour's address.
    pub address: Address,
    /// Its Ethernet address, if known.
    pub mac: Option<Mac>,
    /// Whether it can be used.
    pub state: NeighbourState,
}

impl NeighbourEntry {
    /// The Ethernet address, if packets may be sent to it now.
    #[must_use]
    pub fn usable(&self) -> Option<Mac> {
        use NeighbourState::{Delay, Permanent, Probe, Reachable, Stale};
        matches!(self.state, Probe | Delay | Stale | Reachable | Permanent).then_some(self.mac).flatten()
    }
}

/// Enters a neighbour's state into a path: the path's state and next hop. A neighbour without an
/// entry counts as being resolved.
pub fn apply_neighbour(path: &mut PathInfo, neighbour: Option<&NeighbourEntry>) {
    match neighbour.map(|n| (n.usable(), n.state)) {
        Some((Some(mac), _)) => {
            path.next_hop_mac = mac;
            path.state = PathState::Ready;
        }
        Some((None, NeighbourState::Unreachable)) => path.state = PathState::Unreachable,
        _ => path.state = PathState::Resolving,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn entry(number: i32, mac: Option<Mac>) -> NeighbourEntry {
        let state = NeighbourState::from_number(number);
        NeighbourEntry { interface: 4, address: Address::v4([10, 0, 0, 9]), mac, state }
    }

    #[test]
    fn states_become_those_of_paths() {
        for (number, state) in [
            (0, PathState::Unreachable),
            (1, PathState::Resolving),
            (2, PathState::Ready),
            (3, PathState::Ready),
            (4, PathState::Ready),
            (5, PathState::Ready),
            (6, PathState::Ready),
            (7, PathState::Resolving),
            (-1, PathState::Resolving),
        ] {
            let mut path = PathInfo::default();
            apply_neighbour(&mut path, Some(&entry(number, Some(MAC))));
            assert_eq!(path.state, state, "{number}");
            let mac = if state == PathState::Ready { MAC } else { Mac::default() };
            assert_eq!(path.next_hop_mac, mac);
        }
    }

    #[test]
    fn a_neighbour_without_an_address_is_being_resolved() {
        let mut path = PathInfo::default();
        apply_neighbour(&mut path, Some(&entry(4, None)));
        assert_eq!(path.state, PathState::Resolving);
        apply_neighbour(&mut path, None);
        assert_eq!(path.state, PathState::Resolving);
    }
}
