//! The state of the machine during a measurement: the cost of a wakeup, the load, the steal time.

use std::fmt;

/// Times of all processors since the start, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    pub(crate) fn now() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of `/proc/stat`.
    fn read(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; the first two contain guests'
        // times.
        let fields: Vec<u64> = line.split_whitespace().take(8).map(|n| n.parse().ok()).collect::<Option<_>>()?;
        Some(Self { all: fields.iter().sum(), stolen: *fields.get(7)? })
    }

    /// Steal time of all processors until then, in per cent.
    pub(crate) fn stolen_percent(self, after: Self) -> f64 {
        let all = after.all.saturating_sub(self.all).max(1);
        100.0 * after.stolen.saturating_sub(self.stolen) as f64 / all as f64
    }
}

/// The load average of the last minute.
pub(crate) fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// The state before a measurement.
pub(crate) struct Before {
    ticks: Option<Ticks>,
    load: Option<f64>,
}

impl Before {
    /// The state now.
    pub(crate) fn now() -> Self {
        Self { ticks: Ticks::now(), load: load() }
    }

    /// The state since then; a wakeup costs so much, if that was measured.
    pub(crate) fn until_now(&self, wakeup_us: Option<f64>) -> HostState {
        let stolen_percent = self.ticks.zip(Ticks::now()).map(|(before, after)| before.stolen_percent(after));
        HostState { wakeup_us, load_before: self.load, stolen_percent }
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
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_field() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(Ticks::read(stat), Some(Ticks { all: 360, stolen: 80 }));
        assert_eq!([Ticks::read(""), Ticks::read("cpu 1 2 x"), Ticks::read("cpu  1 2 3")], [None; 3]);
        let (before, after) = (Ticks { all: 1000, stolen: 35 }, Ticks { all: 2000, stolen: 85 });
        assert!((before.stolen_percent(after) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let before = Before { ticks: None, load: Some(0.5) };
        let shown = before.until_now(Some(5.5)).to_string();
        assert_eq!(shown, "a wakeup costs 5.5 us here (kernel, blocking against spinning); load before 0.50");
        assert!(before.until_now(None).to_string().starts_with("the cost of a wakeup was not measured"));
    }
}
