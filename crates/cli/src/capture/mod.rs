//! `tickwire capture`: the service on Linux, for what `tickwire-commands` does.

mod stream;

use crate::args::capture::Capture;
use crate::client::{Client, unexpected};
use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use stream::Stream;
use tickwire_commands::capture::{CaptureService, WallClock};
use tickwire_lane::control::{CountersOf, Reply, Request};
use tickwire_lane_linux::bpf::HostCounter;

/// Captures until Ctrl-C, until enough packets have come, or until the service ends.
pub(crate) fn run(arguments: &Capture) -> Result<()> {
    let mut client = Client::connect(&arguments.socket.path())?;
    let monotonic = || {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from)?;
        nix::Result::Ok(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
    };
    let clock = WallClock::new(monotonic).context("cannot read the clocks")?;
    tickwire_commands::capture::run(&arguments.options, &mut client, nix::unistd::geteuid().is_root(), clock)
}

impl CaptureService for Client {
    type Stream = Stream;

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        Self::ask(self, request).map(|(reply, _)| reply)
    }

    fn begin(&mut self, request: &Request) -> Result<Stream> {
        let (reply, mut descriptors) = Self::ask(self, request)?;
        let Reply::Capturing = reply else { return Err(unexpected(&reply)) };
        Ok(Stream::new(descriptors.take(0).context("the service gave no stream")?))
    }

    fn lost(&mut self) -> Result<u64> {
        match Self::ask(self, &Request::Counters { of: CountersOf::Host, lane: 0 })?.0 {
            Reply::Counters { figures } => {
                Ok(figures.as_slice().get(HostCounter::CaptureLost as usize).copied().unwrap_or(0))
            }
            reply => Err(unexpected(&reply)),
        }
    }
}
