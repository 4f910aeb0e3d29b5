//! `tickwire capture`: the service on Windows, for what `tickwire-commands` does.

mod stream;

use crate::args::Capture;
use crate::client::{Client, unexpected};
use anyhow::{Context, Result};
use std::convert::Infallible;
use stream::CapturedPackets;
use tickwire_commands::capture::{CaptureService, WallClock};
use tickwire_lane::control::{CountersOf, Reply, Request};
use tickwire_lane_windows::clock;
use tickwire_lane_windows::process_user::current_user;
use tickwire_service_windows::figures::{HOST_CAPTURE_LOST, HOST_NAMES};

/// Captures until Ctrl-C, until enough packets have come, or until the service ends.
pub(crate) fn run(arguments: &Capture) -> Result<()> {
    let pipe = arguments.socket.pipe();
    let mut service = Service { pipe, client: Client::connect(pipe)? };
    let clock = match WallClock::new(|| Ok::<_, Infallible>(clock::now().as_nanos())) {
        Ok(clock) => clock,
        Err(never) => match never {},
    };
    let user = current_user().context("cannot tell which user this is")?;
    tickwire_commands::capture::run(&arguments.options, &mut service, user.is_administrator, clock)
}

struct Service<'p> {
    pipe: &'p str,
    client: Client,
}

impl CaptureService for Service<'_> {
    type Stream = CapturedPackets;

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        self.client.ask(request).map(|(reply, _)| reply)
    }

    fn begin(&mut self, request: &Request) -> Result<CapturedPackets> {
        // The capture ends with its connection. It has one of its own, which says when the service
        // has ended.
        let mut client = Client::connect(self.pipe)?;
        let (reply, handles) = client.ask(request)?;
        let Reply::Capturing = reply else { return Err(unexpected(&reply)) };
        CapturedPackets::new(client, handles)
    }

    fn lost(&mut self) -> Result<u64> {
        match self.client.ask(&Request::Counters { of: CountersOf::Host, lane: 0 })?.0 {
            Reply::Counters { figures } => {
                let mut named = HOST_NAMES.iter().zip(figures.as_slice());
                Ok(named.find(|(name, _)| **name == HOST_CAPTURE_LOST).map_or(0, |(_, count)| *count))
            }
            reply => Err(unexpected(&reply)),
        }
    }
}
