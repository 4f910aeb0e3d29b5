//! Comparison of Tickwire and the kernel, from one command.

use super::words::share;
use crate::outcome::{Carrier, Experiment, Run};
use serde::Serialize;

/// The largest message that counts as small, in bytes.
const SMALL: u32 = 1024;

/// The order of stacks in reports.
pub(super) const CARRIERS: [Carrier; 2] = [Carrier::Kernel, Carrier::Tickwire];

/// Figures of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Streams with messages on both stacks.
    pub streams: usize,
    /// In how many of these Tickwire's slowest message was faster than the kernel's slowest.
    pub tickwire_worst_lower: usize,
    /// Streams with messages of at most 1 KiB and with messages on Tickwire.
    pub small_streams: usize,
    /// The highest 99.9th percentile of these on Tickwire.
    pub small_tickwire_p999_ns: Option<u64>,
    /// The highest 99.9th percentile of these on the kernel.
    pub small_kernel_p999_ns: Option<u64>,
    /// The ratio of the consumer's processor time on Tickwire to that on the kernel, each relative
    /// to its measurement's duration.
    pub consumer_cpu_ratio: Option<f64>,
}

/// The comparison, if both were measured.
#[must_use]
pub fn compare(experiment: &Experiment) -> Option<Comparison> {
    let (kernel, tickwire) = (of(experiment, Carrier::Kernel)?, of(experiment, Carrier::Tickwire)?);
    let came = |run: &Run, index: usize| run.streams.get(index).map(|s| s.latency).filter(|times| times.count > 0);
    let mut comparison = Comparison::default();
    for (index, stream) in experiment.pattern.streams.iter().enumerate() {
        let (ours, theirs) = (came(tickwire, index), came(kernel, index));
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            comparison.streams += 1;
            comparison.tickwire_worst_lower += usize::from(ours.max_ns < theirs.max_ns);
        }
        if stream.size <= SMALL {
            let highest = |before: Option<u64>, now: Option<u64>| before.into_iter().chain(now).max();
            comparison.small_streams += usize::from(ours.is_some());
            comparison.small_tickwire_p999_ns = highest(comparison.small_tickwire_p999_ns, ours.map(|t| t.p999_ns));
            comparison.small_kernel_p999_ns = highest(comparison.small_kernel_p999_ns, theirs.map(|t| t.p999_ns));
        }
    }
    let shares = share(&tickwire.consumer).zip(share(&kernel.consumer).filter(|&share| share > 0.0));
    comparison.consumer_cpu_ratio = shares.map(|(ours, theirs)| ours / theirs);
    Some(comparison)
}

/// The comparison's run on this stack.
pub(super) fn of(experiment: &Experiment, carrier: Carrier) -> Option<&Run> {
    experiment.runs.iter().find(|run| run.carrier == carrier)
}
