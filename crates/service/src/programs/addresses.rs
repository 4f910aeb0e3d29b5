//! The host's addresses, and its paths to peers.

use super::{Programs, Result};
use tickwire_host::Query;
use tickwire_lane_linux::bpf;
use tickwire_stack::addr::{Address, Mac};
use tickwire_stack::path::{PathInfo, PathState};

/// Map flag: an entry is made only if there is none (`BPF_NOEXIST`).
const NO_OTHER: u64 = 1;

impl Programs {
    /// Enters an address of ours to which packets arrive by a NIC.
    pub(crate) fn add_address(&mut self, nic: u32, address: Address, mac: Mac) -> Result<()> {
        Ok(self.addresses.insert(bpf::AddressMapKey::new(address, nic), bpf::AddressValue::new(mac), 0)?)
    }

    /// Removes such an address.
    pub(crate) fn remove_address(&mut self, nic: u32, address: Address) {
        let _ = self.addresses.remove(&bpf::AddressMapKey::new(address, nic));
    }

    /// Enters an address from which lanes may send, with this Ethernet address, by a NIC.
    pub(crate) fn add_source(&mut self, nic: u32, address: Address, mac: Mac) -> Result<()> {
        Ok(self.sources.insert(bpf::SourceMapKey::new(address, mac), nic, 0)?)
    }

    /// Removes such a source.
    pub(crate) fn remove_source(&mut self, address: Address, mac: Mac) {
        let _ = self.sources.remove(&bpf::SourceMapKey::new(address, mac));
    }

    /// Notes how the host reaches a peer from an address, as for a connection, or that it does not
    /// now. A query that names an interface, which a lane may make, is not noted. A path of another
    /// type of service is noted only as long as there is no other.
    pub(crate) fn note_path(&mut self, query: &Query, path: &PathInfo) {
        if query.interface != 0 || query.source.is_unspecified() {
            return;
        }
        let flags = if query.tos == 0 { 0 } else { NO_OTHER };
        let ends = bpf::HopMapKey::new(query.source, query.destination);
        match path.state {
            PathState::Ready => {
                let hop = bpf::HopValue::new(path.next_hop_mac, path.source_mac, path.interface);
                if let Err(error) = self.hops.insert(ends, hop, flags) {
                    tracing::trace!(%error, "a path was not noted");
                }
            }
            // While a neighbour is resolved again, its old Ethernet address is the best known.
            PathState::Resolving => {}
            PathState::Free | PathState::Kernel | PathState::Unreachable if query.tos == 0 => {
                let _ = self.hops.remove(&ends);
            }
            PathState::Free | PathState::Kernel | PathState::Unreachable => {}
        }
    }
}
