//! The round loop, and what comes of it.

use super::medians::Figures;
use crate::progress::Progress;
use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::Instant;

/// A cell of the table, mostly a whole row, with all its rounds.
#[derive(Debug)]
pub(crate) struct Outcome<C, M> {
    /// What was measured.
    pub(crate) cell: C,
    /// One entry for each round that succeeded.
    pub(crate) rounds: Vec<M>,
    /// The errors of the rounds that failed.
    pub(crate) failures: Vec<String>,
}

impl<C, M> Outcome<C, M> {
    pub(crate) const fn new(cell: C) -> Self {
        Self { cell, rounds: Vec::new(), failures: Vec::new() }
    }

    /// What the table has instead of figures: why the last round failed, in so many characters.
    pub(crate) fn failure_text(&self, most: usize) -> String {
        self.failures.last().map_or_else(|| "not measured".into(), |why| format!("failed: {why:.most$}"))
    }

    /// For the JSON file: the cell's own fields, and every round.
    pub(crate) fn json(&self, own: Value, round: impl Fn(&M) -> Value) -> Value {
        let rounds: Vec<Value> = self.rounds.iter().map(round).collect();
        super::report::joined(own, json!({ "rounds": rounds, "failures": self.failures }))
    }
}

impl<C, M: Figures> Outcome<C, M> {
    /// The medians of the rounds.
    pub(crate) fn median(&self) -> Option<M::Median> {
        M::of_rounds(&self.rounds)
    }
}

/// The rounds of a measurement.
pub(crate) struct Rounds<'a> {
    pub(crate) progress: &'a mut Progress,
    pub(crate) number: u32,
    /// What is measured in each, for a log: `40 rows`.
    pub(crate) what: String,
}

impl Rounds<'_> {
    /// Measures every cell in every round, one after the other. A cell that fails is reported and
    /// kept as failed. `measure` is also told the number of the round.
    pub(crate) fn measure<C: Display, M>(
        mut self,
        cells: impl IntoIterator<Item = C>,
        mut measure: impl FnMut(&C, u32) -> Result<M>,
    ) -> Vec<Outcome<C, M>> {
        let mut outcomes: Vec<_> = cells.into_iter().map(Outcome::new).collect();
        for round in 1..=self.number {
            let order = 0..outcomes.len();
            self.measure_once(round, &mut outcomes, order, |cell| measure(cell, round), |_, _| None);
        }
        self.progress.clear();
        outcomes
    }

    /// Measures every cell once, in an order of their indices. `brief` shows figures in a log.
    pub(crate) fn measure_once<C: Display, M>(
        &mut self,
        round: u32,
        outcomes: &mut [Outcome<C, M>],
        order: impl IntoIterator<Item = usize>,
        mut measure: impl FnMut(&C) -> Result<M>,
        brief: impl Fn(&C, &M) -> Option<String>,
    ) {
        let began = Instant::now();
        let round = format!("round {round} of {}", self.number);
        for index in order {
            let Outcome { cell, rounds, failures } = &mut outcomes[index];
            let step = format!("{round}: {cell}");
            self.progress.begin(step.clone());
            match measure(cell) {
                Ok(measured) => {
                    if let Some(figures) = brief(cell, &measured) {
                        self.progress.sum(&format!("{step}: {figures}"));
                    }
                    rounds.push(measured);
                }
                Err(error) => {
                    tickwire_lab::wait_if_interrupted();
                    self.progress.keep(&format!("failed: {error:#}"));
                    failures.push(format!("{error:#}"));
                }
            }
        }
        let seconds = began.elapsed().as_secs();
        self.progress.sum(&format!("{round}: {} in {seconds} s", self.what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn rounds_are_interleaved_and_a_failure_is_kept_beside_the_figures_of_other_rounds() {
        let mut order = Vec::new();
        let rounds = Rounds { progress: &mut Progress::new(), number: 2, what: "2 rows".into() };
        let outcomes = rounds.measure(["a", "b"], |cell, round| {
            order.push(format!("{cell}{round}"));
            if (*cell, round) == ("b", 1) {
                bail!("no host");
            }
            Ok(round)
        });
        assert_eq!(order, ["a1", "b1", "a2", "b2"]);
        assert_eq!((&outcomes[0].rounds[..], outcomes[0].failures.len()), (&[1, 2][..], 0));
        assert_eq!((&outcomes[1].rounds[..], &outcomes[1].failures[..]), (&[2][..], &["no host".to_owned()][..]));
        assert_eq!(
            (outcomes[0].failure_text(60), outcomes[1].failure_text(4)),
            ("not measured".into(), "failed: no h".into())
        );
        let written = outcomes[1].json(json!({ "row": "b" }), |round| json!(round));
        assert_eq!(written, json!({ "row": "b", "rounds": [2], "failures": ["no host"] }));
    }
}
