//! The ring of captured packets that the service fills.

use crate::client::Client;
use anyhow::{Context, Result};
use std::os::windows::io::AsHandle;
use std::time::Duration;
use tickwire_commands::capture::{CaptureStream, Turn};
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_windows::control::Handles;
use tickwire_lane_windows::event::{WakeEvent, wait_for};
use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide, ReadRing, rings};
use tickwire_lane_windows::section::SharedSection;

/// The only process that reads the ring, among the slots for them ([`RecordRing::arm`]).
const READER: usize = 0;

/// Captured packets as they come.
pub(super) struct CapturedPackets {
    client: Client,
    ring: RecordRing<ReadRing>,
    arrived: WakeEvent,
    entry: Vec<u8>,
}

impl CapturedPackets {
    /// From the handles of [`tickwire_lane::control::Reply::Capturing`].
    pub(super) fn new(client: Client, mut handles: Handles) -> Result<Self> {
        let mut next = |place| handles.take(place).context("the service gave no stream");
        let (readers, services) = (SharedSection::from(next(0)?), SharedSection::from(next(1)?));
        let memory = LaneMemory::map(LaneSide::Program, &readers, &services).context("cannot map captured packets")?;
        Ok(Self { client, ring: rings(memory).0, arrived: next(2)?.into(), entry: Vec::new() })
    }

    /// Takes the next entry out of the ring. Returns whether there was one.
    fn take(&mut self) -> bool {
        let entry = &mut self.entry;
        let frames = self.ring.read(1, |packet, copy| {
            entry.resize(packet.len as usize, 0);
            copy(0, entry);
        });
        frames > 0
    }
}

impl CaptureStream for CapturedPackets {
    fn next(&mut self, time_limit: Duration) -> Result<Turn<'_>> {
        if !self.take() {
            self.ring.arm(READER);
            let outcome = if self.ring.is_empty() {
                let [heard, kept] = self.client.events();
                wait_for(&[self.arrived.as_handle(), heard, kept], Some(time_limit)).map(drop)
            } else {
                Ok(())
            };
            self.ring.disarm(READER);
            outcome.context("cannot wait for captured packets")?;
            if !self.take() {
                return Ok(if self.client.is_connected() { Turn::Quiet } else { Turn::Ended });
            }
        }
        Ok(Turn::Record(&self.entry))
    }
}
