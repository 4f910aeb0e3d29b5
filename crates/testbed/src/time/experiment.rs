//! The rows of the table, and how each is measured.

use super::card::{self, CardClock};
use super::figures::{ClockRow, Origin, Tally, TimeFigures};
use super::topology::{Topology, sleep_until};
use super::{reader, simulated};
use crate::error::TestbedError;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tickclock::Clock;
use tickwire_clock_reference::Truth;
use tickwire_clock_reference::function::{Recipe, SineWander};
use tickwire_clock_reference::path::{Outage, PathModel};

/// The least number of intervals for a row to be meaningful.
const FEWEST: f64 = 2.0;
/// The comparison begins after this many intervals, and after this many seconds at least, so that
/// the server, the daemon and its first replies are settled.
const SETTLED: (f64, f64) = (2.0, 5.0);
/// In the row without a server, the part of the time in which it still answers.
const SERVED: f64 = 0.25;
/// The intervals of a lab with a time limit: the first set that fits is used.
const CHOICES: [&[f64]; 3] = [&[1.0, 8.0, 30.0], &[1.0, 4.0], &[1.0]];
/// Its comparisons per second.
const READS_PER_S: u64 = 2_000;

/// Description of the lab's rows. The reference time is that of the clock benchmark.
const LAB: &str = "Rows of a real clock: its daemon on one host of a lab, and the server that it asks on another. That server's time is a known function of the processor's counter that both hosts share, so the \
     reference is exact: it begins 1 ms and 10 ppm off, and its rate goes through a cycle of 0.05 ppm in ten minutes.";

/// The planned rows.
#[derive(Clone, Debug)]
pub struct ClockPlan {
    /// Rows of a real clock, if any.
    pub real: Option<Real>,
    /// Seconds between requests in rows of virtual time; empty: none.
    pub simulated: Vec<f64>,
    /// Comparisons in each of them.
    pub simulated_reads: u32,
    /// The command that repeats it.
    pub command: Vec<String>,
}

/// A real clock and its reference.
#[derive(Clone, Debug)]
pub enum Real {
    /// A clock in a lab, compared with the exact reference time.
    Lab(LabComparison),
    /// This machine's clock, compared with a network card's.
    Card(CardComparison),
}

/// How the lab's rows are measured.
#[derive(Clone, Debug)]
pub struct LabComparison {
    /// The program `tickwire`.
    pub tickwire: PathBuf,
    /// Poll intervals in seconds: a row each, and one more with the first of them in which the
    /// server falls silent.
    pub intervals: Vec<f64>,
    /// Duration and number of comparisons of each row.
    pub span: ComparisonSpan,
    /// Processors kept busy by other programs during the measurement.
    pub busy: usize,
}

/// How a comparison with a card is made.
#[derive(Clone, Debug)]
pub struct CardComparison {
    /// The card: an interface, or `/dev/ptpN`.
    pub name: String,
    /// The clock's page.
    pub page: PathBuf,
    /// Poll interval of the server that the clock follows, in seconds, if its daemon reports it.
    pub interval_s: Option<f64>,
    /// Duration and number of comparisons.
    pub span: ComparisonSpan,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSpan {
    /// The duration.
    pub duration: Duration,
    /// Approximate number of comparisons in that time.
    pub reads: u64,
}

/// Progress of the experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// The row, from 1 on.
    pub row: usize,
    /// How many rows there are.
    pub rows: usize,
    /// Its name.
    pub name: String,
    /// Seconds since it began.
    pub passed_s: f64,
    /// Its total duration; 0 if unknown (virtual time).
    pub whole_s: f64,
}

/// Progress and its receiver.
struct Live<'a> {
    tell: &'a mut dyn FnMut(&Moment),
    moment: Moment,
}

impl Live<'_> {
    fn begin(&mut self, name: String, whole_s: f64) {
        self.moment = Moment { row: self.moment.row + 1, name, passed_s: 0.0, whole_s, ..self.moment };
        (self.tell)(&self.moment);
    }

    fn passed(&mut self, seconds: f64) {
        self.moment.passed_s = seconds;
        (self.tell)(&self.moment);
    }
}

impl ClockPlan {
    /// The number of rows of a real clock, and their total duration.
    #[must_use]
    pub fn length(&self) -> (usize, Duration) {
        match &self.real {
            None => (0, Duration::ZERO),
            Some(Real::Card(card)) => (1, card.span.duration),
            Some(Real::Lab(lab)) => {
                let rows = lab.rows();
                (rows.len(), rows.iter().map(|row| Duration::from_secs_f64(row.begin_s) + lab.span.duration).sum())
            }
        }
    }

    /// Measures all rows.
    ///
    /// # Errors
    /// [`TestbedError::Refused`] if an input is invalid or a prerequisite is missing, before
    /// anything is measured; otherwise a measurement failed.
    pub fn conduct(&self, tell: &mut dyn FnMut(&Moment)) -> Result<TimeFigures, TestbedError> {
        self.check()?;
        let simulated = if self.simulated.is_empty() { 0 } else { self.simulated.len() + 1 };
        let rows = self.length().0 + simulated;
        let moment = Moment { row: 0, rows, name: String::new(), passed_s: 0.0, whole_s: 0.0 };
        let live = &mut Live { tell, moment };
        let (mut rows, mut references) = match &self.real {
            None => (Vec::new(), Vec::new()),
            Some(Real::Lab(lab)) => {
                // Ctrl-C removes the lab: the error is then a consequence, and is not reported.
                let measured = lab.measure(live).inspect_err(|_| tickwire_lab::wait_if_interrupted());
                (measured?, vec![lab.words()])
            }
            Some(Real::Card(card)) => {
                let (row, words) = card.measure(live)?;
                (vec![row], vec![words])
            }
        };
        for &interval in &self.simulated {
            live.begin(format!("{interval} s, virtual"), 0.0);
            rows.push(simulated::synchronised(interval, self.simulated_reads)?);
        }
        if let Some(&first) = self.simulated.first() {
            live.begin("no sync, virtual".to_owned(), 0.0);
            rows.push(simulated::silenced(first, self.simulated_reads)?);
            references.push(simulated::WORDS.to_owned());
        }
        Ok(TimeFigures { machine: tickwire_report::machine(), command: self.command.clone(), references, rows })
    }

    /// Checks the plan.
    fn check(&self) -> Result<(), TestbedError> {
        let Some(Real::Lab(lab)) = &self.real else { return Ok(()) };
        match lab.too_long() {
            Some(interval) => Err(TestbedError::Refused(format!(
                "a row of {} s says nothing of an interval of {interval} s: measure it for {} s at least (--seconds), or in virtual time (--virtual)",
                lab.span.duration.as_secs_f64(),
                FEWEST * interval
            ))),
            None => Ok(()),
        }
    }
}

/// A planned row of the lab.
#[derive(Clone, Debug)]
struct Wanted {
    interval: f64,
    /// Start of the comparison, in seconds of the reference time.
    begin_s: f64,
    /// How long after that the server falls silent, if it does.
    silent_after_s: Option<f64>,
}

impl LabComparison {
    /// The least time for [`LabComparison::within`]: two rows of an interval of 1 s.
    pub const LEAST: Duration = Duration::from_secs(14);

    /// A lab whose rows take `whole` together, including the clocks' settling: more time gives more
    /// and longer intervals. None in less than [`LabComparison::LEAST`].
    #[must_use]
    pub fn within(whole: Duration, tickwire: PathBuf, busy: usize) -> Option<Self> {
        let all = |intervals: &&[f64]| {
            let span = ComparisonSpan { duration: Duration::ZERO, reads: 0 };
            let mut lab = Self { tickwire: tickwire.clone(), intervals: intervals.to_vec(), span, busy };
            let rows = lab.rows();
            let settling: Duration = rows.iter().map(|row| Duration::from_secs_f64(row.begin_s)).sum();
            // Whole seconds, for readability.
            let seconds = whole.checked_sub(settling)?.as_secs() / rows.len() as u64;
            lab.span = ComparisonSpan { duration: Duration::from_secs(seconds), reads: seconds * READS_PER_S };
            lab.too_long().is_none().then_some(lab)
        };
        CHOICES.iter().find_map(all)
    }

    /// An interval that is too long for a row.
    fn too_long(&self) -> Option<f64> {
        let seconds = self.span.duration.as_secs_f64();
        self.intervals.iter().copied().find(|interval| seconds < FEWEST * interval)
    }

    fn rows(&self) -> Vec<Wanted> {
        let wanted = |interval: f64, silent_after_s: Option<f64>| {
            let (intervals, seconds) = SETTLED;
            Wanted { interval, begin_s: (intervals * interval).max(seconds), silent_after_s }
        };
        let silent = SERVED * self.span.duration.as_secs_f64();
        let synchronised = self.intervals.iter().map(|&interval| wanted(interval, None));
        synchronised.chain(self.intervals.first().map(|&first| wanted(first, Some(silent)))).collect()
    }

    fn words(&self) -> String {
        match self.busy {
            0 => LAB.to_owned(),
            1 => format!("{LAB} Another program kept one processor busy."),
            busy => format!("{LAB} Other programs kept {busy} processors busy."),
        }
    }

    fn measure(&self, live: &mut Live<'_>) -> Result<Vec<ClockRow>> {
        let mut bed = Topology::new(&self.tickwire, self.busy)?;
        self.rows().iter().map(|wanted| self.row(&mut bed, wanted, live)).collect()
    }

    fn row(&self, bed: &mut Topology, wanted: &Wanted, live: &mut Live<'_>) -> Result<ClockRow> {
        let &Wanted { interval, begin_s, silent_after_s } = wanted;
        let measured_s = self.span.duration.as_secs_f64();
        let name = match silent_after_s {
            Some(after) => format!("no sync after {after} s"),
            None => format!("sync every {interval} s"),
        };
        live.begin(name, begin_s + measured_s);
        let mut truth = Truth::begin(recipe(begin_s, silent_after_s))?;
        let mut followed = bed.follow(&truth, interval)?;
        sleep_until(&truth, begin_s, |passed| live.passed(passed));
        let before = followed.answers();
        let tally = reader::read(&mut truth, &followed.clock, self.span, |passed| live.passed(begin_s + passed));
        followed.check()?;
        let differences = tally.finish();
        let differences = differences.with_context(|| format!("the clock never knew the time: {}", followed.said()))?;
        Ok(ClockRow {
            origin: Origin::Lab,
            interval_s: Some(interval),
            silent_after_s,
            measured_s,
            exchanges: Some(followed.answers() - before),
            differences,
        })
    }
}

/// The reference time of a row.
fn recipe(begin_s: f64, silent_after_s: Option<f64>) -> Recipe {
    // An outage without end.
    let outages = silent_after_s.map(|after| Outage { from_s: begin_s + after, to_s: 1e9 }).into_iter().collect();
    Recipe {
        ahead_us: 1000.0,
        rate_ppm: 10.0,
        wander: Some(SineWander { ppm: 0.05, period_s: 600.0 }),
        path: PathModel { outages, ..PathModel::default() },
        ..Recipe::default()
    }
}

impl CardComparison {
    fn measure(&self, live: &mut Live<'_>) -> Result<(ClockRow, String), TestbedError> {
        let (phc, device) = card::open(&self.name)?;
        let clock = Clock::open(&self.page).map_err(|error| TestbedError::Refused(error.to_string()))?;
        let mut reference = CardClock::new(phc, &device, &clock)?;
        let measured_s = self.span.duration.as_secs_f64();
        live.begin(format!("beside {device}"), measured_s);
        let tally: Tally = reader::read(&mut reference, &clock, self.span, |passed| live.passed(passed));
        let differences = tally.finish().with_context(|| format!("the clock could never be read beside {device}"))?;
        let row = ClockRow {
            origin: Origin::Card,
            interval_s: self.interval_s,
            silent_after_s: None,
            measured_s,
            exchanges: None,
            differences,
        };
        Ok((row, format!("This machine's clock, beside {}.", reference.words(&device))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(intervals: &[f64], seconds: f64) -> ClockPlan {
        let span = ComparisonSpan { duration: Duration::from_secs_f64(seconds), reads: 10 };
        let lab = LabComparison { tickwire: "tickwire".into(), intervals: intervals.to_vec(), span, busy: 0 };
        ClockPlan { real: Some(Real::Lab(lab)), simulated: Vec::new(), simulated_reads: 0, command: Vec::new() }
    }

    #[test]
    fn every_interval_has_a_row_and_the_first_one_more_without_its_server() {
        let plan = plan(&[1.0, 30.0], 120.0);
        let Some(Real::Lab(lab)) = &plan.real else { unreachable!() };
        let rows: Vec<_> = lab.rows().iter().map(|row| (row.interval, row.begin_s, row.silent_after_s)).collect();
        assert_eq!(rows, [(1.0, 5.0, None), (30.0, 60.0, None), (1.0, 5.0, Some(30.0))]);
        assert_eq!(plan.length(), (3, Duration::from_secs(3 * 120 + 5 + 60 + 5)));
        let outages = recipe(5.0, Some(30.0)).path.outages;
        assert_eq!(outages.iter().map(|outage| outage.from_s).collect::<Vec<_>>(), [35.0]);
        assert!(recipe(5.0, None).path.outages.is_empty());
    }

    #[test]
    fn an_interval_that_hardly_fits_is_refused_before_anything_is_started() {
        let Err(TestbedError::Refused(why)) = plan(&[1.0, 60.0], 119.0).conduct(&mut |_| ()) else {
            panic!("it was begun")
        };
        assert!(why.contains("an interval of 60 s: measure it for 120 s at least"), "{why}");
    }

    #[test]
    fn a_lab_takes_no_longer_than_it_may_and_has_as_many_intervals_as_fit() {
        let within = |seconds: u64| {
            let lab = LabComparison::within(Duration::from_secs(seconds), "tickwire".into(), 1)?;
            let (intervals, span, busy) = (lab.intervals.clone(), lab.span, lab.busy);
            let plan = ClockPlan { real: Some(Real::Lab(lab)), ..plan(&[], 1.0) };
            plan.check().unwrap();
            assert!(plan.length().1 <= Duration::from_secs(seconds) && busy == 1);
            Some((intervals, span.duration.as_secs(), span.reads))
        };
        assert_eq!(within(30), Some((vec![1.0], 10, 20_000)));
        assert_eq!(within(60), Some((vec![1.0, 4.0], 14, 28_000)));
        assert_eq!(within(600).map(|(intervals, ..)| intervals), Some(vec![1.0, 8.0, 30.0]));
        assert_eq!(within(LabComparison::LEAST.as_secs()), Some((vec![1.0], 2, 4_000)));
        assert_eq!(within(LabComparison::LEAST.as_secs() - 1), None);
        assert_eq!(within(0), None);
    }

    #[test]
    fn virtual_rows_alone_need_no_lab() {
        let plan = ClockPlan { real: None, simulated: vec![480.0], simulated_reads: 5_000, ..plan(&[], 1.0) };
        let mut told = Vec::new();
        let found = plan.conduct(&mut |moment| told.push((moment.row, moment.rows, moment.name.clone()))).unwrap();
        assert_eq!(told, [(1, 2, "480 s, virtual".to_owned()), (2, 2, "no sync, virtual".to_owned())]);
        assert!(found.is_inside() && found.rows.iter().all(|row| row.origin == Origin::Virtual));
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<TimeFigures>(&json).unwrap(), found);
    }
}
