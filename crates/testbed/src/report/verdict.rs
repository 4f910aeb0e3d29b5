//! The overall result, in one sentence.

use super::words::{counted, on, seconds, shortcomings, total};
use crate::outcome::{Experiment, Run};
use serde::Serialize;

/// The most failed streams that are named.
const MOST_NAMED: usize = 5;

/// The overall result: that of the run of [`Experiment::judged`], and of the clock if it was also
/// measured. Runs for comparison do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExperimentVerdict {
    /// Whether every message of every stream arrived once, whole, in order and in time, no node
    /// failed, and the clock stayed within its own bound.
    pub met: bool,
    /// How many streams were met.
    pub streams_met: usize,
    /// Of how many streams.
    pub streams: usize,
    /// Whether true time lay within the clock's own bound at every comparison; none if not
    /// requested.
    pub clock: Option<bool>,
    /// The same in words, with the failed streams and reasons.
    pub sentence: String,
}

/// The verdict of an experiment.
#[must_use]
pub fn verdict(experiment: &Experiment) -> ExperimentVerdict {
    let streams = experiment.pattern.streams.len();
    let messages = match experiment.judged() {
        None => ExperimentVerdict {
            met: false,
            streams_met: 0,
            streams,
            clock: None,
            sentence: "Nothing was measured.".to_owned(),
        },
        Some(run) => of_messages(experiment, run),
    };
    let Some(time) = &experiment.time else { return messages };
    let (right, said) = match time {
        Ok(figures) => (!figures.rows.is_empty() && figures.is_inside(), figures.sentence()),
        Err(why) => (false, format!("The clock could not be measured: {why}.")),
    };
    // The failed part comes first.
    let clock_first = messages.met && !right;
    let (first, second) = if clock_first { (&said, &messages.sentence) } else { (&messages.sentence, &said) };
    let sentence = format!("{first} {second}");
    ExperimentVerdict { met: messages.met && right, clock: Some(right), sentence, ..messages }
}

fn of_messages(experiment: &Experiment, run: &Run) -> ExperimentVerdict {
    let streams = experiment.pattern.streams.len();
    let unmet: Vec<String> = experiment
        .pattern
        .streams
        .iter()
        .enumerate()
        .map(|(index, stream)| (stream.id, shortcomings(stream, run.streams.get(index))))
        .filter(|(_, words)| !words.is_empty())
        .map(|(id, words)| format!("stream {id} ({})", words.join(", ")))
        .collect();
    let streams_met = streams - unmet.len();
    let met = streams > 0 && unmet.is_empty() && run.faults.is_empty();
    ExperimentVerdict { met, streams_met, streams, clock: None, sentence: sentence(run, streams, &unmet) }
}

fn sentence(run: &Run, streams: usize, unmet: &[String]) -> String {
    let on = on(run.carrier);
    let messages = counted(total(run, |stream| stream.sent), "message");
    let seconds = seconds(run.duration_ns);
    let rate = if run.rate == 1 { String::new() } else { format!(" at {} times the pattern's rate", run.rate) };
    let mut text = if unmet.is_empty() {
        format!(
            "{streams} of {streams} streams met their deadlines on {on}{rate}: each of {messages} in {seconds} s came once, whole, in order and in time."
        )
    } else {
        let mut named = unmet.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join("; ");
        if unmet.len() > MOST_NAMED {
            named += &format!("; and {} more", unmet.len() - MOST_NAMED);
        }
        format!("{} of {streams} streams failed on {on}{rate} ({messages} in {seconds} s): {named}.", unmet.len())
    };
    if !run.faults.is_empty() {
        text += &format!(" The run did not go as it should: {}.", run.faults.join("; "));
    }
    text
}
