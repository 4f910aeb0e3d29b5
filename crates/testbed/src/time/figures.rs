//! What many comparisons come to: a row of table 2, and figure 5. All times are in nanoseconds
//! unless the name says otherwise.

use super::reference::Pair;
use serde::{Deserialize, Serialize};

/// How many bars a histogram has at most.
const BARS: i64 = 120;

/// The whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeFigures {
    /// The machine.
    pub machine: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// What the clock was compared with, in words; a sentence for each kind of row.
    pub references: Vec<String>,
    /// The table; figure 5 is of the first one.
    pub rows: Vec<Row>,
}

impl TimeFigures {
    /// Whether truth lay within the clock's bound at every comparison.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.rows.iter().all(|row| row.differences.outside == 0)
    }

    /// The same in a sentence, and how far the clock was off at most, with its server and without.
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

/// Microseconds to ten nanoseconds, of nanoseconds.
pub(super) fn us(ns: f64) -> String {
    let text = format!("{:.2}", ns / 1e3);
    // There is no negative zero for people.
    if text == "-0.00" { "0.00".to_owned() } else { text }
}

/// Where a row is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A real clock in the lab, compared with a truth that is a known function of the counter.
    Lab,
    /// The machine's clock, compared with a network card's.
    Card,
    /// The simulation, in virtual time.
    Virtual,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Where it is from.
    pub origin: Origin,
    /// Seconds between requests to the server; none: the daemon that keeps the machine's clock does
    /// not say.
    pub interval_s: Option<f64>,
    /// If the server fell silent: after how many seconds of the measurement.
    pub silent_after_s: Option<f64>,
    /// How long it was measured, in seconds; of virtual time in virtual rows.
    pub measured_s: f64,
    /// How often the server has answered in that time, where that is counted.
    pub exchanges: Option<u64>,
    /// What was found.
    pub differences: Differences,
}

impl Row {
    /// What stands in its first cell.
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
    /// How many comparisons there were.
    pub iterations: u64,
    /// How many there were not, because the clock did not know the time or the reference could not
    /// be read.
    pub missed: u64,
    /// How many were made again, because the processor was taken away between the two readings.
    pub repeated: u64,
    /// The least.
    pub min_ns: i64,
    /// The greatest.
    pub max_ns: i64,
    /// Their mean.
    pub mean_ns: f64,
    /// Their median.
    pub median_ns: i64,
    /// Of their size: 99 of 100 are at most this.
    pub p99_ns: i64,
    /// Median of the bound that the clock told.
    pub bound_ns: i64,
    /// Comparisons at which truth was not within that bound.
    pub outside: u64,
    /// All of them.
    pub histogram: Histogram,
}

/// How many differences there were of which size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// The least difference of the first bar.
    pub from_ns: i64,
    /// From one bar to the next.
    pub width_ns: i64,
    /// How many there are in each.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Of these differences, which lie between the two.
    fn new(differences: &[i32], min: i64, max: i64) -> Self {
        let width_ns = (max - min) / BARS + 1;
        let mut counts = vec![0; ((max - min) / width_ns + 1) as usize];
        for &difference in differences {
            counts[((i64::from(difference) - min) / width_ns) as usize] += 1;
        }
        Self { from_ns: min, width_ns, counts }
    }
}

/// Comparisons as they come.
#[derive(Debug, Default)]
pub(super) struct Tally {
    differences: Vec<i32>,
    bounds: Vec<i32>,
    missed: u64,
    repeated: u64,
    outside: u64,
}

impl Tally {
    /// Enters one; none if it could not be made.
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

    /// What a simulation has found.
    pub(super) fn simulated(figures: &tickwire_sim::Figures) -> Self {
        Self {
            // There errors are clock - truth.
            differences: figures.errors().iter().map(|&error| error.saturating_neg()).collect(),
            bounds: figures.bounds().to_vec(),
            missed: figures.unknown,
            repeated: 0,
            outside: figures.outside,
        }
    }

    /// What they come to; `None` of none.
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

/// The value below which so many of 100 are; there is one.
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
        let row = Row {
            origin: Origin::Lab,
            interval_s: Some(30.0),
            silent_after_s: None,
            measured_s: 60.0,
            exchanges: Some(2),
            differences,
        };
        assert_eq!(row.name(), "30 s");
        let silent = Row { silent_after_s: Some(15.0), ..row.clone() };
        assert_eq!(silent.name(), "no sync after 15 s");
        assert_eq!(Row { origin: Origin::Virtual, interval_s: Some(0.5), ..row.clone() }.name(), "0.5 s, virtual");
        assert_eq!(Row { origin: Origin::Card, interval_s: None, ..row }.name(), "not known");
    }
}
