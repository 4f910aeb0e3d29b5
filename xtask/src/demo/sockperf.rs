//! sockperf: one message there and back at a time, blocking receive, as its authors ship it.

use super::figures::Figures;
use super::side::Side;
use anyhow::{Context, Result};
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
    read(&printed).with_context(|| format!("cannot read what sockperf printed: {printed}"))
}

/// Lines like `sockperf: ---> percentile 99.900 =   45.123`.
fn read(printed: &str) -> Option<Figures> {
    let value = |name: &str| {
        let line = printed.lines().find(|l| l.contains(name))?;
        line.rsplit('=').next()?.trim().parse::<f64>().ok()
    };
    Some(Figures::RoundTrip {
        p50: value("percentile 50.000")?,
        p99: value("percentile 99.000")?,
        p999: value("percentile 99.900")?,
        max: value("<MAX> observation")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let printed = "sockperf: ---> <MAX> observation = 2052.540\nsockperf: ---> percentile 99.999 = 1000.0\n\
                       sockperf: ---> percentile 99.900 =   45.123\nsockperf: ---> percentile 99.000 =   30.5\n\
                       sockperf: ---> percentile 50.000 =   12.25\n";
        let figures = Figures::RoundTrip { p50: 12.25, p99: 30.5, p999: 45.123, max: 2052.54 };
        assert_eq!(read(printed), Some(figures));
        assert_eq!(read(""), None);
    }
}
