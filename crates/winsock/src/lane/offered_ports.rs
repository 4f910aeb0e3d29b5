//! Ports from which the service would have programs connect: its driver takes the packets of all of
//! them already, so a claim of one costs it little.

use super::Lane;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tickwire_stack::addr::Address;

/// Ports that were offered and not used.
#[derive(Debug, Default)]
pub(super) struct OfferedPorts {
    ports: Mutex<VecDeque<u16>>,
    /// The service offers none.
    are_none: AtomicBool,
}

impl Lane {
    /// A port to bind a socket to, which is to be claimed then. Another socket may have it. `None`
    /// if the service offers none: the kernel is to choose.
    pub(crate) fn offered_port(&self, source: Address) -> Option<u16> {
        let offered = || self.offered_ports.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = offered().pop_front() {
            return Some(port);
        }
        if self.offered_ports.are_none.load(Relaxed) {
            return None;
        }
        let Some(more) = self.control.ports(source) else {
            self.offered_ports.are_none.store(true, Relaxed);
            return None;
        };
        let mut offered = offered();
        offered.extend(more);
        offered.pop_front()
    }
}
