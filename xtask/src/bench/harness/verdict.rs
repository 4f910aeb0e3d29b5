//! Promises: bounds of ratios between rows of one run.

use super::table;
use comfy_table::Table;

/// The bound of a promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    pub(crate) fn holds(self, measured: f64) -> bool {
        match self {
            Self::AtMost(bound) => measured <= bound,
            Self::AtLeast(bound) => measured >= bound,
        }
    }

    /// The bound itself.
    pub(crate) fn limit(self) -> f64 {
        let (Self::AtMost(limit) | Self::AtLeast(limit)) = self;
        limit
    }
}

/// A comparison, mostly with a promise.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What is compared, or promised.
    pub(crate) promise: String,
    pub(crate) measured: f64,
    /// The same between two kernels, if it exists.
    pub(crate) kernel: Option<f64>,
    /// `None`: nothing is promised.
    pub(crate) bound: Option<Bound>,
}

impl Verdict {
    /// A promise.
    pub(crate) const fn new(promise: String, measured: f64, bound: Bound) -> Self {
        Self { promise, measured, kernel: None, bound: Some(bound) }
    }

    /// Whether it is kept; `None` if nothing is promised.
    pub(crate) fn kept(&self) -> Option<bool> {
        self.bound.map(|bound| bound.holds(self.measured))
    }
}

/// How a table tells whether a promise is kept.
pub(crate) fn word(kept: Option<bool>) -> &'static str {
    match kept {
        Some(true) => "kept",
        Some(false) => "MISSED",
        None => "stated",
    }
}

/// One line for each promise.
pub(crate) fn table(verdicts: &[Verdict]) -> Table {
    let mut table = table::with(["promise", "measured", "bound", ""]);
    for verdict in verdicts {
        let bound = verdict.bound.map_or(String::new(), |bound| format!("{:.2}", bound.limit()));
        let measured = format!("{:.2}", verdict.measured);
        table.add_row([&*verdict.promise, &measured, &bound, word(verdict.kept())]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_includes_itself_and_a_line_tells_whether_it_holds() {
        for (bound, kept) in [(Bound::AtMost(1.0), [true, true, false]), (Bound::AtLeast(1.0), [false, true, true])] {
            let verdicts = [0.5, 1.0, 1.5].map(|measured| Verdict::new("one".into(), measured, bound));
            assert_eq!(verdicts.each_ref().map(Verdict::kept), kept.map(Some));
            let shown = table(&verdicts).to_string();
            assert_eq!((shown.matches("kept").count(), shown.matches("MISSED").count()), (2, 1), "{shown}");
        }
        let stated = Verdict { promise: "two".into(), measured: 1.0, kernel: None, bound: None };
        assert_eq!(word(stated.kept()), "stated");
    }
}
