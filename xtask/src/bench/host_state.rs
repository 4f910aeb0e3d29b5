//! The state of the machine during a measurement: the cost of a wakeup, the load, the steal time.

use super::figures::Outcome;
use std::fmt;

/// Times of all processors since the start, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    stolen: u64,
}

/// Reads the first line of `/proc/stat`.
fn ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests' times are in the first two.
    let fields: Vec<u64> = line.split_whitespace().take(8).map(|n| n.parse().ok()).collect::<Option<_>>()?;
    Some(Ticks { all: fields.iter().sum(), stolen: *fields.get(7)? })
}

fn now() -> Option<Ticks> {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The state before a measurement.
pub(crate) struct Before {
    ticks: Option<Ticks>,
    load: Option<f64>,
}

impl Before {
    /// The state now.
    pub(crate) fn now() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        Self { ticks: now(), load: load.and_then(|text| text.split(' ').next()?.parse().ok()) }
    }

    /// The state since then; these rows were measured meanwhile.
    pub(crate) fn until_now(&self, outcomes: &[Outcome]) -> HostState {
        let stolen_percent = self.ticks.zip(now()).map(|(before, after)| {
            let all = after.all.saturating_sub(before.all).max(1);
            100.0 * after.stolen.saturating_sub(before.stolen) as f64 / all as f64
        });
        HostState { wakeup_us: wakeup(outcomes), load_before: self.load, stolen_percent }
    }
}

/// The state of the machine; `None` if unknown.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct HostState {
    /// How much longer one way of a message takes in the kernel if the receiver sleeps instead of
    /// spinning, in microseconds.
    pub(crate) wakeup_us: Option<f64>,
    /// The load average of the minute before.
    pub(crate) load_before: Option<f64>,
    /// Steal time of all processors, in per cent.
    pub(crate) stolen_percent: Option<f64>,
}

/// Half of the difference between the round trips of two sleeping and of two spinning programs.
fn wakeup(outcomes: &[Outcome]) -> Option<f64> {
    let p50 = |name| Some(outcomes.iter().find(|outcome| outcome.name == name)?.latency()?.p50_ns as f64);
    Some((p50("UDP kernel, blocking")? - p50("UDP kernel, spinning")?) / 2000.0)
}

impl fmt::Display for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wakeup_us {
            Some(us) => write!(f, "a wakeup costs {us:.1} us here (kernel, blocking against spinning)")?,
            None => write!(f, "the cost of a wakeup was not measured (rows of UDP on the kernel)")?,
        }
        if let Some(load) = self.load_before {
            write!(f, "; load before {load:.2}")?;
        }
        self.stolen_percent.map_or(Ok(()), |percent| write!(f, "; stolen meanwhile {percent:.1} %"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Measured;
    use super::*;
    use tickwire_bench::latency::Latency;

    #[test]
    fn stolen_time_is_the_eighth_field() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(ticks(stat), Some(Ticks { all: 360, stolen: 80 }));
        assert_eq!([ticks(""), ticks("cpu 1 2 x"), ticks("cpu  1 2 3")], [None; 3]);
    }

    #[test]
    fn a_wakeup_costs_half_of_the_difference() {
        let row = |name, p50_ns| Outcome {
            name,
            rounds: vec![Measured::Latency(Latency {
                count: 1,
                min_ns: 1,
                p50_ns,
                p99_ns: 1,
                p999_ns: 1,
                max_ns: 1,
                lost: 0,
            })],
            failures: Vec::new(),
        };
        let rows = [row("UDP kernel, blocking", 22_000), row("UDP kernel, spinning", 11_000)];
        let before = Before { ticks: None, load: Some(0.5) };
        let state = before.until_now(&rows);
        assert_eq!(
            state.to_string(),
            "a wakeup costs 5.5 us here (kernel, blocking against spinning); load before 0.50"
        );
        assert!(before.until_now(&rows[..1]).to_string().starts_with("the cost of a wakeup was not measured"));
    }
}
