//! Statistics of comparisons: a row of table 2, and figure 5. All times are in nanoseconds unless
//! the name says otherwise.

use super::reference::Pair;
use serde::{Deserialize, Serialize};

/// The most bars of a histogram.
const BARS: i64 = 120;

/// The whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeFigures {
    /// The machine.
    pub machine: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The references, in words; a sentence for each kind of row.
    pub references: Vec<String>,
    /// The table; figure 5 is of the first one.
    pub rows: Vec<ClockRow>,
}

impl TimeFigures {
    /// Whether the reference time was within the clock's bound at every comparison.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.rows.iter().all(|row| row.differences.outside == 0)
    }

    /// The same in a sentence, with the clock's greatest error with and without its server.
    #[must_use]
    pub fn sentence(&self) -> String {
        let sum = |count: fn(&Differences) -> u64| self.rows.iter().map(|row| count(&row.differences)).sum::<u64>();
        let (all, outside) = (sum(|found| found.iterations), sum(|found| found.outside));
        let mut text = match outside {
            0 => format!("True time lay within the clock's own bound at all of {all} comparisons"),
            _ => format!("True time lay outside the clock's own bound at {outside} of {all} comparisons"),
        };
        let worst = |silent: bool| {
            let rows = self.rows.iter().filter(|row| row.silent_after_s.is_some() == silent);
            rows.map(|row| row.differences.min_ns.abs().max(row.differences.max_ns.abs())).max()
        };
        if let Some(worst) = worst(false) {
            text += &format!("; the clock was {} us off at most", us(worst as f64));
        }
        if let Some(worst) = worst(true) {
            text += &format!("; with a server that fell silent, {} us", us(worst as f64));
        }
        text + "."
    }
}

/// Formats nanoseconds as microseconds, to ten nanoseconds.
pub(super) fn us(ns: f64) -> String {
    let text = format!("{:.2}", ns / 1e3);
    // No negative zero in output.
    if text == "-0.00" { "0.00".to_owned() } else { text }
}

/// The origin of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A real clock in the lab, compared with a reference time that is a known function of the
    /// counter.
    Lab,
    /// The machine's clock, compared with a network card's.
    Card,
    /// The simulation, in virtual time.
    Virtual,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockRow {
    /// Its origin.
    pub origin: Origin,
    /// Poll interval in seconds; none: the daemon of the machine's clock does not report it.
    pub interval_s: Option<f64>,
    /// After how many seconds of the measurement the server fell silent, if it did.
    pub silent_after_s: Option<f64>,
    /// Duration of the measurement, in seconds; of virtual time in virtual rows.
    pub measured_s: f64,
    /// Number of server replies in that time, where counted.
    pub exchanges: Option<u64>,
    /// The differences.
    pub differences: Differences,
}

impl ClockRow {
    /// The text of its first cell.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = match (self.silent_after_s, self.interval_s) {
            (Some(after), _) => format!("no sync after {after} s"),
            (None, Some(interval)) => format!("{interval} s"),
            (None, None) => "not known".to_owned(),
        };
        if self.origin == Origin::Virtual {
            name += ", virtual";
        }
        name
    }
}

/// Differences reference - clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Differences {
    /// Number of comparisons.
    pub iterations: u64,
    /// Comparisons that failed because the clock did not know the time or the reference could not
    /// be read.
    pub missed: u64,
    /// Comparisons repeated because of preemption between the two readings.
    pub repeated: u64,
    /// The least.
    pub min_ns: i64,
    /// The greatest.
    pub max_ns: i64,
    /// Their mean.
    pub mean_ns: f64,
    /// Their median.
    pub median_ns: i64,
    /// 99th percentile of their absolute values.
    pub p99_ns: i64,
    /// Median of the clock's bound.
    pub bound_ns: i64,
    /// Comparisons at which the reference time was outside that bound.
    pub outside: u64,
    /// Histogram of all of them.
    pub histogram: Histogram,
}

/// A histogram of differences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// The least difference of the first bar.
    pub from_ns: i64,
    /// Width of a bar.
    pub width_ns: i64,
    /// Number of differences in each bar.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// The histogram of these differences, which lie between `min` and `max`.
    fn new(differences: &[i32], min: i64, max: i64) -> Self {
        let width_ns = (max - min) / BARS + 1;
        let mut counts = vec![0; ((max - min) / width_ns + 1) as usize];
        for &difference in differences {
            counts[((i64::from(difference) - min) / width_ns) as usize] += 1;
        }
        Self { from_ns: min, width_ns, counts }
    }
}

/// Collects comparisons.
#[derive(Debug, Default)]
pub(super) struct Tally {
    differences: Vec<i32>,
    bounds: Vec<i32>,
    missed: u64,
    repeated: u64,
    outside: u64,
}

impl Tally {
    /// Adds one; none if it failed.
    pub(super) fn take(&mut self, pair: Option<Pair>) {
        let Some(Pair { difference, bound, inside, repeated }) = pair else {
            self.missed += 1;
            return;
        };
        self.repeated += u64::from(repeated);
        self.outside += u64::from(!inside);
        self.differences.push(clamp(difference));
        self.bounds.push(clamp(i64::try_from(bound).unwrap_or(i64::MAX)));
    }

    /// The comparisons of a simulation.
    pub(super) fn simulated(figures: &tickwire_sim::ClockErrors) -> Self {
        Self {
            // Its errors have the opposite sign: clock - truth.
            differences: figures.errors().iter().map(|&error| error.saturating_neg()).collect(),
            bounds: figures.bounds().to_vec(),
            missed: figures.unknown,
            repeated: 0,
            outside: figures.outside,
        }
    }

    /// The statistics; `None` without comparisons.
    pub(super) fn finish(mut self) -> Option<Differences> {
        let (min, max) = (*self.differences.iter().min()?, *self.differences.iter().max()?);
        let (min, max) = (i64::from(min), i64::from(max));
        let sum: i64 = self.differences.iter().copied().map(i64::from).sum();
        let histogram = Histogram::new(&self.differences, min, max);
        let median_ns = rank(&mut self.differences, 50);
        for difference in &mut self.differences {
            *difference = difference.saturating_abs();
        }
        Some(Differences {
            iterations: self.differences.len() as u64,
            missed: self.missed,
            repeated: self.repeated,
            min_ns: min,
            max_ns: max,
            mean_ns: sum as f64 / self.differences.len() as f64,
            median_ns,
            p99_ns: rank(&mut self.differences, 99),
            bound_ns: rank(&mut self.bounds, 50),
            outside: self.outside,
            histogram,
        })
    }
}

/// A percentile; `values` must not be empty.
fn rank(values: &mut [i32], percent: usize) -> i64 {
    let place = (values.len() - 1) * percent / 100;
    i64::from(*values.select_nth_unstable(place).1)
}

fn clamp(ns: i64) -> i32 {
    ns.clamp(i64::from(-i32::MAX), i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(differences: impl IntoIterator<Item = i64>) -> Tally {
        let mut tally = Tally::default();
        for difference in differences {
            let pair = Pair { difference, bound: 150, inside: difference.unsigned_abs() <= 150, repeated: 0 };
            tally.take(Some(pair));
        }
        tally
    }

    #[test]
    fn the_table_of_known_differences() {
        let mut tally = tally((-100..=300).rev());
        tally.take(None);
        tally.take(Some(Pair { difference: 100, bound: 400, inside: true, repeated: 3 }));
        let found = tally.finish().unwrap();
        assert_eq!((found.iterations, found.missed, found.repeated), (402, 1, 3));
        assert_eq!((found.min_ns, found.max_ns, found.median_ns), (-100, 300, 100));
        assert!((found.mean_ns - 100.0).abs() < 1e-9, "{}", found.mean_ns);
        assert_eq!((found.p99_ns, found.bound_ns, found.outside), (295, 150, 150));
    }

    #[test]
    fn what_is_too_large_is_cut_and_not_wrapped() {
        let found = tally([i64::MIN, i64::MAX]).finish().unwrap();
        assert_eq!((found.min_ns, found.max_ns), (-2_147_483_647, 2_147_483_647));
        assert_eq!((found.p99_ns, found.outside), (2_147_483_647, 2));
        assert_eq!(found.histogram.counts.iter().sum::<u64>(), 2);
    }

    #[test]
    fn every_difference_is_in_one_bar() {
        for (differences, bars) in [(vec![5; 4], 1), ((0..120).collect(), 120), ((-50..950).collect::<Vec<i64>>(), 112)]
        {
            let all = differences.len() as u64;
            let Differences { histogram, min_ns, max_ns, .. } = tally(differences).finish().unwrap();
            let Histogram { from_ns, width_ns, counts } = histogram;
            assert_eq!((counts.len(), counts.iter().sum::<u64>(), from_ns), (bars, all, min_ns));
            assert!(counts[0] > 0 && counts[bars - 1] > 0);
            assert!((from_ns + (bars as i64 - 1) * width_ns..from_ns + bars as i64 * width_ns).contains(&max_ns));
        }
        assert_eq!(tally([]).finish(), None);
    }

    #[test]
    fn rows_are_named_by_what_they_show() {
        let differences = tally([0]).finish().unwrap();
        let row = ClockRow {
            origin: Origin::Lab,
            interval_s: Some(30.0),
            silent_after_s: None,
            measured_s: 60.0,
            exchanges: Some(2),
            differences,
        };
        assert_eq!(row.name(), "30 s");
        let silent = ClockRow { silent_after_s: Some(15.0), ..row.clone() };
        assert_eq!(silent.name(), "no sync after 15 s");
        assert_eq!(ClockRow { origin: Origin::Virtual, interval_s: Some(0.5), ..row.clone() }.name(), "0.5 s, virtual");
        assert_eq!(ClockRow { origin: Origin::Card, interval_s: None, ..row }.name(), "not known");
    }
}
