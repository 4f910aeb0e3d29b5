//! Runs the whole study.

use crate::access::{self, Access};
use crate::load::CounterLoad;
use crate::reach::{self, AbsentCounter};
use crate::stability::{self, Stability};
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use tickwire_timekeeper::hardware;

/// What to study.
#[derive(Clone, Debug)]
pub struct CounterOptions {
    /// Readings of each counter under each load.
    pub reads: u64,
    /// How long the counters are compared with the reference.
    pub watch: Duration,
    /// The reference, by its name.
    pub reference: String,
}

/// The results of the study.
#[derive(Clone, Debug, Serialize)]
pub struct CounterStudy {
    /// The machine: processor and kernel.
    pub machine: String,
    /// The counter that latencies are measured with.
    pub stamp: String,
    /// Readings of each counter under each load.
    pub reads: u64,
    /// The counters that were read.
    pub counters: Vec<Present>,
    /// Counters that cannot be read here.
    pub absent: Vec<AbsentCounter>,
    /// The durations of readings.
    pub access: Vec<Access>,
    /// The reference that the others were compared with.
    pub reference: String,
    /// Duration of the comparison, in seconds.
    pub watched_s: f64,
    /// The stability of the counters against it.
    pub stability: Vec<Stability>,
}

/// A counter that can be read here.
#[derive(Clone, Debug, Serialize)]
pub struct Present {
    /// Its name.
    pub name: String,
    /// How a program reads it.
    pub how: String,
}

/// Why the study failed.
#[derive(Debug)]
pub enum CounterStudyError {
    /// No such reference.
    Reference {
        /// The requested name.
        named: String,
        /// Why the counter of this name cannot be read here, if it is a known one.
        why: Option<String>,
        /// The possible references.
        possible: Vec<String>,
    },
    /// The period of the processor's counter cannot be determined.
    Counter(&'static str),
    /// A load could not be started.
    Load(&'static str, std::io::Error),
}

impl std::error::Error for CounterStudyError {}

impl fmt::Display for CounterStudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference { named, why, possible } => {
                let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                write!(f, "{named} is no clock that can be read here{why}: choose one of {}", possible.join(", "))
            }
            Self::Counter(name) => write!(f, "the counter {name} stands still"),
            Self::Load(name, error) => write!(f, "cannot put the machine under {name}: {error}"),
        }
    }
}

/// Runs the study and reports each step to `progress`. It takes about `watch` plus, for each load,
/// some microseconds for each reading.
///
/// # Errors
/// There is no such reference, or the machine refuses a load.
pub fn study(options: &CounterOptions, mut progress: impl FnMut(&str)) -> Result<CounterStudy, CounterStudyError> {
    let (counters, absent) = reach::all();
    let clocks = counters.iter().filter(|counter| counter.is_clock());
    let Some(reference) = clocks.clone().find(|clock| clock.name.eq_ignore_ascii_case(&options.reference)) else {
        let possible = clocks.map(|clock| clock.name.clone()).collect();
        let named = options.reference.clone();
        let why = absent.into_iter().find(|one| one.name.eq_ignore_ascii_case(&named)).map(|one| one.why);
        return Err(CounterStudyError::Reference { named, why, possible });
    };
    let (stamp, _) = hardware::choose();
    let scale = hardware::nominal(stamp).ok_or(CounterStudyError::Counter(stamp.name()))?;
    let mut access = Vec::new();
    for load in CounterLoad::ALL {
        progress(&format!("reading each counter {} times: {}", options.reads, load.name()));
        let running = load.begin().map_err(|error| CounterStudyError::Load(load.name(), error))?;
        access.push(access::measure(None, load, options.reads, stamp, scale));
        access.extend(counters.iter().map(|one| access::measure(Some(one), load, options.reads, stamp, scale)));
        drop(running);
    }
    progress(&format!("watching them beside {} for {} s", reference.name, options.watch.as_secs_f64()));
    let stability = stability::watch(&counters, reference, options.watch);
    Ok(CounterStudy {
        machine: tickwire_report::machine(),
        stamp: stamp.name().to_owned(),
        reads: options.reads,
        counters: counters.iter().map(|one| Present { name: one.name.clone(), how: one.how.clone() }).collect(),
        absent,
        access,
        reference: reference.name.clone(),
        watched_s: options.watch.as_secs_f64(),
        stability,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_study_has_every_counter_under_every_load() {
        let options = CounterOptions {
            reads: 200,
            watch: Duration::from_millis(100),
            reference: "clock_monotonic_raw".to_owned(),
        };
        let mut said = Vec::new();
        let study = study(&options, |what| said.push(what.to_owned())).unwrap();
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(study.access.len(), (study.counters.len() + 1) * CounterLoad::ALL.len());
        assert_eq!(study.stability.len(), study.counters.len() - 1);
        let table = crate::table(&study);
        let html = crate::html(&study, &["tickwire".to_owned(), "counters".to_owned()]);
        for Present { name, .. } in &study.counters {
            assert!(table.contains(name) && html.contains(name), "{name}");
        }
        for AbsentCounter { name, .. } in &study.absent {
            assert!(table.contains(name) && html.contains(name), "{name} is absent and not named");
        }
    }

    #[test]
    fn a_reference_that_does_not_exist_is_an_error_that_names_those_that_do() {
        let options = CounterOptions { reads: 1, watch: Duration::ZERO, reference: "sundial".to_owned() };
        let error = study(&options, |_| {}).unwrap_err().to_string();
        assert!(error.starts_with("sundial is no clock") && error.contains("CLOCK_TAI"), "{error}");
        let absent =
            CounterStudyError::Reference { named: "x".into(), why: Some("no page".into()), possible: vec!["y".into()] };
        assert_eq!(absent.to_string(), "x is no clock that can be read here (no page): choose one of y");
    }
}
