//! What the machine was like while it was measured: what a wakeup costs, what else ran, what the
//! hypervisor took.

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
    /// As it is now.
    pub(crate) fn now() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        Self { ticks: now(), load: load.and_then(|text| text.split(' ').next()?.parse().ok()) }
    }

    /// What was seen until now, in the course of which these rows were measured.
    pub(crate) fn until_now(&self, outcomes: &[Outcome]) -> HostState {
        let stolen_percent = self.ticks.zip(now()).map(|(before, after)| {
            let all = after.all.saturating_sub(before.all).max(1);
            100.0 * after.stolen.saturating_sub(before.stolen) as f64 / all as f64
        });
        HostState { wakeup_us: wakeup(outcomes), load_before: self.load, stolen_percent }
    }
}

/// What the machine was like. What is not known is `None`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct HostState {
    /// What the kernel takes longer for one way of a message when the receiver sleeps and not
    /// spins, in microseconds.
    pub(crate) wakeup_us: Option<f64>,
    /// Processes that ran or wanted to, in the minute before.
    pub(crate) load_before: Option<f64>,
    /// Of all processors' time, what the hypervisor gave to others, in per cent.
    pub(crate) stolen_percent: Option<f64>,
}

/// Half of what a round trip of two sleepers takes longer than one of two that spin.
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
