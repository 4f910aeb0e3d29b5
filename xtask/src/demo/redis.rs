//! redis-benchmark against redis-server: one client, one request at a time.

use super::figures::Figures;
use super::side::Side;
use anyhow::{Context, Result};
use std::time::Duration;

const PORT: u16 = 6390;
/// This takes some seconds on the kernel.
const REQUESTS: &str = "50000";

pub(crate) fn get(side: &Side, time: Duration) -> Result<Figures> {
    let (address, port, directory) = (side.address(), PORT.to_string(), side.server_host().directory());
    let directory = directory.to_string_lossy();
    // No persistence: writing to disk would be measured, too.
    let server =
        ["redis-server", "--port", &port, "--bind", &address, "--save", "", "--appendonly", "no", "--dir", &directory];
    let _server = side.server("tcp", PORT, &[&server[..], &["--protected-mode", "no"]].concat())?;
    let client =
        ["redis-benchmark", "-h", &address, "-p", &port, "-t", "get", "-c", "1", "-n", REQUESTS, "--precision", "3"];
    let printed = side.client(&client, time + Duration::from_secs(30))?;
    read(&printed).with_context(|| format!("cannot read what redis-benchmark printed: {printed}"))
}

/// Lines like `99.902% <= 0.047 milliseconds (cumulative count 49951)`, growing.
fn read(printed: &str) -> Option<Figures> {
    let line = |line: &str| {
        let (percent, rest) = line.trim().split_once("% <= ")?;
        Some((percent.parse::<f64>().ok()?, rest.split_whitespace().next()?.parse::<f64>().ok()? * 1000.0))
    };
    // The detailed distribution comes first; a coarse one with the same form follows.
    let first = printed.split("Cumulative distribution").next()?;
    let steps: Vec<(f64, f64)> = first.lines().filter_map(line).collect();
    let at = |percent: f64| steps.iter().find(|(p, _)| *p >= percent).map(|(_, us)| *us);
    Some(Figures::RoundTrip { p50: at(50.0)?, p99: at(99.0)?, p999: at(99.9)?, max: steps.last()?.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let printed = "Latency by percentile distribution:\n0.000% <= 0.007 milliseconds (cumulative count 1)\n\
                       50.000% <= 0.031 milliseconds (cumulative count 26000)\n99.219% <= 0.047 milliseconds (cumulative count 1)\n\
                       99.902% <= 0.063 milliseconds (cumulative count 1)\n100.000% <= 1.999 milliseconds (cumulative count 50000)\n\n\
                       Cumulative distribution of latencies:\n0.000% <= 0.103 milliseconds (cumulative count 9)\n";
        let Some(Figures::RoundTrip { p50, p99, p999, max }) = read(printed) else { panic!("not read") };
        let rounded = [p50, p99, p999, max].map(|us| us.round());
        assert_eq!(rounded, [31.0, 47.0, 63.0, 1999.0]);
        assert_eq!(read("Could not connect"), None);
    }
}
