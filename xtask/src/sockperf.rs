//! The final output of sockperf.

use anyhow::{Context, Result};

/// Round trips in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    /// How many.
    pub(crate) count: u64,
    /// The fastest.
    pub(crate) min: f64,
    /// The median.
    pub(crate) p50: f64,
    /// 99 of 100 were at most this.
    pub(crate) p99: f64,
    /// 999 of 1000 were at most this.
    pub(crate) p999: f64,
    /// The slowest.
    pub(crate) max: f64,
}

impl Report {
    /// Reads lines like `sockperf: ---> percentile 99.900 =   45.123`.
    ///
    /// # Errors
    /// A figure is missing; the error has all of the output.
    pub(crate) fn read(printed: &str) -> Result<Self> {
        let value = |name: &str| {
            let line = printed.lines().find(|l| l.contains(name));
            line.and_then(|l| l.rsplit('=').next()?.trim().parse::<f64>().ok())
                .with_context(|| format!("sockperf printed no {name}: {printed}"))
        };
        let count = printed
            .lines()
            .find_map(|l| l.split("ReceivedMessages=").nth(1))
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
            .unwrap_or(0);
        Ok(Self {
            count,
            min: value("<MIN> observation")?,
            p50: value("percentile 50.000")?,
            p99: value("percentile 99.000")?,
            p999: value("percentile 99.900")?,
            max: value("<MAX> observation")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let printed = "sockperf: [Total Run] RunTime=1.000 sec; SentMessages=7; ReceivedMessages=6\n\
                       sockperf: ---> <MAX> observation = 2052.540\nsockperf: ---> percentile 99.999 = 1000.0\n\
                       sockperf: ---> percentile 99.900 =   45.123\nsockperf: ---> percentile 99.000 =   30.5\n\
                       sockperf: ---> percentile 50.000 =   12.25\nsockperf: ---> <MIN> observation =   10.5\n";
        let report = Report { count: 6, min: 10.5, p50: 12.25, p99: 30.5, p999: 45.123, max: 2052.54 };
        assert_eq!(Report::read(printed).unwrap(), report);
        assert!(Report::read("").is_err());
    }
}
