//! The counters of lanes and of the host.

use super::{BpfError, Programs, Result};
use aya::maps::PerCpuValues;
use tickwire_lane_linux::bpf::{HostCounter, LaneCountersValue};
use tickwire_registry::LaneId;

impl Programs {
    /// Resets the counters of a lane.
    pub(crate) fn begin_counting(&mut self, lane: LaneId) -> Result<()> {
        let zero = PerCpuValues::try_from(vec![LaneCountersValue::default(); self.cpus])
            .map_err(|e| BpfError::System(e.to_string()))?;
        Ok(self.lane_counters.set(self.place(lane), zero, 0)?)
    }

    /// The counters of a lane, summed over all processors.
    pub(crate) fn lane_counters(&self, lane: LaneId) -> LaneCountersValue {
        let mut total = LaneCountersValue::default();
        if let Ok(values) = self.lane_counters.get(&self.place(lane), 0) {
            values.iter().for_each(|value| total += *value);
        }
        total
    }

    /// What happened to packets on the NICs, in the order of [`HostCounter`], and how many frames
    /// of lanes NICs have not taken.
    pub(crate) fn host_counters(&self) -> [u64; 7] {
        use HostCounter as C;
        let [passed, diverted, copies, vlan, stray, capture] =
            [C::Passed, C::Diverted, C::GroupCopies, C::Vlan, C::StrayFragment, C::CaptureLost]
                .map(|counter| self.host_counters.get(&(counter as u32), 0).map_or(0, |values| values.iter().sum()));
        let lost = self.redirects.iter().flatten().map(|(_, losses)| losses.lost).sum();
        [passed, diverted, copies, vlan, stray, capture, lost]
    }
}
