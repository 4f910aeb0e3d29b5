//! Whether the kernel's ring buffers withstand a program that overwrites its consumer position
//! (CVE-2024-41009). Tested by trying: distributions carry the fix under many version numbers.

use super::BpfError;
use aya::Ebpf;
use aya::maps::Map;
use aya::programs::{TestRun, TestRunOptions, Xdp};
use std::os::fd::AsFd;
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_linux::bpf::{self, PROBE_RING_BYTES, map, program};
use tickwire_lane_linux::mapped_ring::MappedRing;

/// Whether they do. Needs the rights to load BPF programs.
///
/// # Errors
/// If the kernel has no such ring buffers, or does not run programs for a test.
pub(crate) fn ring_is_safe() -> Result<bool, BpfError> {
    let system = |error: std::io::Error| BpfError::System(format!("trying the kernel's ring buffers: {error}"));
    let mut ebpf = Ebpf::load(bpf::PROBE)?;
    let Some(Map::RingBuf(ring)) = ebpf.take_map(map::PROBE_RING) else {
        return Err(BpfError::Missing(map::PROBE_RING));
    };
    let fd = ring.fd().as_fd().try_clone_to_owned().map_err(system)?;
    let ring = RecordRing::new(MappedRing::map(fd, PROBE_RING_BYTES).map_err(system)?);
    ring.forge_consumer(u64::from(PROBE_RING_BYTES / 4 * 3));
    let probe: &mut Xdp = ebpf.program_mut(program::PROBE).ok_or(BpfError::Missing(program::PROBE))?.try_into()?;
    probe.load()?;
    // Longer than an Ethernet header, which the kernel requires.
    let packet = [0; 64];
    let options = TestRunOptions { data_in: Some(&packet), ..TestRunOptions::new() };
    match probe.test_run(options)?.return_value {
        0 => Ok(true),
        1 => Ok(false),
        other => Err(BpfError::System(format!("trying the kernel's ring buffers: {other}"))),
    }
}
