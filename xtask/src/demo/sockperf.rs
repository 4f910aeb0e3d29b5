//! sockperf: one message there and back at a time, blocking receive, as its authors ship it.

use super::figures::Figures;
use super::side::Side;
use crate::sockperf::Report;
use anyhow::Result;
use std::time::Duration;

const PORT: u16 = 11111;

pub(crate) fn udp(side: &Side, time: Duration) -> Result<Figures> {
    ping_pong(side, time, "udp", &[])
}

pub(crate) fn tcp(side: &Side, time: Duration) -> Result<Figures> {
    ping_pong(side, time, "tcp", &["--tcp"])
}

fn ping_pong(side: &Side, time: Duration, protocol: &str, more: &[&str]) -> Result<Figures> {
    let (address, port, seconds) = (side.address(), PORT.to_string(), time.as_secs().to_string());
    let _server =
        side.server(protocol, PORT, &[&["sockperf", "server", "-i", &address, "-p", &port], more].concat())?;
    let client = ["sockperf", "ping-pong", "-i", &address, "-p", &port, "-t", &seconds, "-m", "64", "--full-rtt"];
    let printed = side.client(&[&client, more].concat(), time + Duration::from_secs(15))?;
    let Report { p50, p99, p999, max, .. } = Report::read(&printed)?;
    Ok(Figures::RoundTrip { p50, p99, p999, max })
}
