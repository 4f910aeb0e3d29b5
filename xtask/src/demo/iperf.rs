//! iperf3: the throughput of one TCP stream.

use super::figures::Figures;
use super::side::Side;
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::Duration;

const PORT: u16 = 5201;

pub(crate) fn stream(side: &Side, time: Duration) -> Result<Figures> {
    let (address, port, seconds) = (side.address(), PORT.to_string(), time.as_secs().to_string());
    let _server = side.server("tcp", PORT, &["iperf3", "-s", "-1", "-p", &port, "-B", &address])?;
    let client = ["iperf3", "-c", &address, "-p", &port, "-t", &seconds, "-J"];
    let printed = side.client(&client, time + Duration::from_secs(15))?;
    read(&printed).with_context(|| format!("cannot read what iperf3 printed: {printed}"))
}

fn read(printed: &str) -> Option<Figures> {
    let report: Value = serde_json::from_str(printed).ok()?;
    let bits = report.pointer("/end/sum_received/bits_per_second")?.as_f64()?;
    Some(Figures::Rate(bits / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let printed = r#"{"end": {"sum_received": {"bits_per_second": 2500000000.0}}}"#;
        assert_eq!(read(printed), Some(Figures::Rate(2.5)));
        assert_eq!(read("iperf3: error"), None);
    }
}
