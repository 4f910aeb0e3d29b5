//! Which ports have entries of which kind. Divert and guard look there first: most packets are to
//! ports that have none.

use std::collections::HashMap;
use tickwire_lane_linux::bpf::{self, port_kind};
use tickwire_lane_linux::mapped_array::MappedArray;
use tickwire_steer::tables::{PortKey, Protocol};

/// The kinds of entries that each port has.
pub(super) struct PortUses {
    /// What the programs read: a bit for each kind.
    kinds: MappedArray,
    /// How many entries of the other maps account for each bit.
    numbers: HashMap<(Protocol, u16), [u32; port_kind::ALL.len()]>,
}

impl PortUses {
    /// No port has any.
    pub(super) fn new(kinds: MappedArray) -> Self {
        Self { kinds, numbers: HashMap::new() }
    }

    /// Counts another entry of this kind for a port.
    pub(super) fn add(&mut self, key: PortKey, kind: u8) {
        let numbers = self.numbers.entry((key.protocol, key.local.port)).or_default();
        let number = &mut numbers[kind.trailing_zeros() as usize];
        *number += 1;
        if *number == 1 {
            self.flip(key, kind);
        }
    }

    /// Counts one entry less.
    pub(super) fn remove(&mut self, key: PortKey, kind: u8) {
        let Some(all) = self.numbers.get_mut(&(key.protocol, key.local.port)) else { return };
        let number = &mut all[kind.trailing_zeros() as usize];
        if *number == 0 {
            return;
        }
        *number -= 1;
        let last = *number == 0;
        if all.iter().all(|&number| number == 0) {
            self.numbers.remove(&(key.protocol, key.local.port));
        }
        if last {
            self.flip(key, kind);
        }
    }

    /// Whether no port has any.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn flip(&self, key: PortKey, kind: u8) {
        let (word, shift) = bpf::port_kinds(key.protocol.number(), key.local.port);
        self.kinds.flip(word, u64::from(kind) << shift);
    }
}
