//! Whether a driver takes the frames that XDP redirects to it.

use tickwire_host::Ethtool;

/// Drivers in which every processor may use every queue (according to their sources in Linux, they
/// take the processor's number modulo the number of queues).
const SHARES_QUEUES: [&str; 6] = ["veth", "tun", "virtio_net", "igb", "igc", "ena"];

/// Whether a device transmits redirected frames, whichever processor has redirected them. Many
/// drivers have one queue for each processor up to the number of their queues, and refuse what the
/// other processors redirect.
pub(crate) fn from_every_processor(index: u32, driver: &str, processors: usize) -> bool {
    let queues = || Ethtool::open().and_then(|mut ethtool| ethtool.transmit_queues(index));
    SHARES_QUEUES.contains(&driver) || queues().is_ok_and(|queues| has_enough(queues, processors))
}

fn has_enough(queues: u32, processors: usize) -> bool {
    usize::try_from(queues).is_ok_and(|queues| queues >= processors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_needs_a_queue_for_each_processor_unless_its_driver_shares_them() {
        assert!(has_enough(8, 8) && !has_enough(7, 8));
        assert!(from_every_processor(1, "veth", 64));
        assert!(!from_every_processor(1, "mlx5_core", 1), "the loopback has no queues to tell");
    }
}
