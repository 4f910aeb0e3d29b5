//! A program with all its rounds.

use super::catalog::Program;
use super::figure::{Direction, Part, median, times};
use super::run::Measured;
use super::ways::Way;
use crate::bench::harness;
use std::fmt;

/// A program, one way: what is measured in each round.
pub(super) struct Cell<'a> {
    pub(super) program: &'a Program,
    pub(super) way: Way,
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.program.name, self.way)
    }
}

/// All rounds of one program.
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) unit: &'static str,
    pub(super) direction: Direction,
    /// In the order of [`Way::ALL`].
    pub(super) ways: [Rounds; 4],
}

/// All rounds of one program, one way.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) measured: Vec<Measured>,
    pub(super) failures: Vec<String>,
}

impl Outcome {
    fn new(program: &Program) -> Self {
        let Program { name, about, unit, direction, .. } = *program;
        Self { name, about, unit, direction, ways: Default::default() }
    }

    /// The programs of some cells, in their order; the cells of a program are adjacent.
    pub(super) fn of_cells(cells: Vec<harness::Outcome<Cell<'_>, Measured>>) -> Vec<Self> {
        let mut outcomes: Vec<Self> = Vec::new();
        for harness::Outcome { cell, rounds, failures } in cells {
            if outcomes.last().is_none_or(|last| last.name != cell.program.name) {
                outcomes.push(Self::new(cell.program));
            }
            if let Some(last) = outcomes.last_mut() {
                last.ways[cell.way.index()] = Rounds { measured: rounds, failures };
            }
        }
        outcomes
    }

    /// The median of the rounds of a part of the figure.
    pub(super) fn median(&self, way: Way, part: Part) -> Option<f64> {
        median(self.ways[way.index()].measured.iter().filter_map(|measured| part.of(&measured.figure)))
    }

    /// How many times better than both on the kernel.
    pub(super) fn times(&self, way: Way, part: Part) -> Option<f64> {
        let direction = if part == Part::Value { self.direction } else { Direction::LowerIsBetter };
        times(self.median(Way::Kernel, part)?, self.median(way, part)?, direction)
    }

    /// Why the last failed round of a way failed.
    pub(super) fn failure(&self, way: Way) -> Option<&str> {
        self.ways[way.index()].failures.last().map(String::as_str)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::figure::Figure;
    use super::*;

    /// A latency with these medians in the four ways; none: it failed.
    pub(crate) fn outcome(name: &'static str, values: [Option<f64>; 4]) -> Outcome {
        let ways = values.map(|value| match value {
            Some(value) => {
                let figure = Figure { value, p50_us: Some(value), p99_us: Some(value * 2.0), packets: 1 };
                Rounds {
                    measured: vec![Measured { figure, crossed: Vec::new(), notes: Vec::new() }],
                    failures: Vec::new(),
                }
            }
            None => Rounds { measured: Vec::new(), failures: vec!["it hung".into()] },
        });
        Outcome { name, about: "a test", unit: "us", direction: Direction::LowerIsBetter, ways }
    }

    #[test]
    fn the_cells_of_a_program_become_its_ways() {
        let all = super::super::catalog::all();
        let cell = |program, way| {
            let failures = vec![format!("{way}")];
            harness::Outcome { failures, ..harness::Outcome::new(Cell { program, way }) }
        };
        let programs = [&all[1], &all[0]];
        let outcomes = Outcome::of_cells(programs.iter().flat_map(|p| Way::ALL.map(|way| cell(p, way))).collect());
        assert_eq!(outcomes.iter().map(|one| one.name).collect::<Vec<_>>(), [all[1].name, all[0].name]);
        assert!(outcomes.iter().all(|one| one.failure(Way::Server) == Some("server on Tickwire")));
    }

    #[test]
    fn ways_are_compared_with_both_on_the_kernel() {
        let outcome = outcome("echo", [Some(40.0), Some(20.0), None, Some(50.0)]);
        assert_eq!(outcome.times(Way::Client, Part::Value), Some(2.0));
        assert_eq!((outcome.times(Way::Server, Part::Value), outcome.failure(Way::Server)), (None, Some("it hung")));
        assert_eq!(outcome.times(Way::Both, Part::P99), Some(0.8));
    }
}
