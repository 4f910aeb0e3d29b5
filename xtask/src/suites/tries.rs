//! Retries of cases. Some depend on the scheduling of a busy machine, and expect sent data to
//! arrive at once, as over the loopback device. So a case that failed on one side only is tried
//! again on that side, and a case that then passes is reported.

use std::collections::BTreeMap;

/// The outcome of each case: `ok`, `failed` or `skipped`. After a timeout, a module's remaining
/// cases are missing.
pub(super) type Outcomes = BTreeMap<String, String>;

/// A side's cases.
#[derive(Debug)]
struct Side {
    name: &'static str,
    /// The best outcome of each case.
    best: Outcomes,
    /// How often the module has run.
    tries: usize,
    /// Cases that passed after a failure, with the number of that try.
    later: BTreeMap<String, usize>,
}

impl Side {
    fn new(name: &'static str, first: Outcomes) -> Self {
        Self { name, best: first, tries: 1, later: BTreeMap::new() }
    }

    fn passes(&self, case: &str) -> bool {
        self.best.get(case).is_some_and(|how| how == "ok")
    }

    /// Cases that failed here and passed on the other side. Missing cases do not count: a module
    /// that crashed or hung is not tried again.
    fn behind<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let failed = self.best.iter().filter(|(_, how)| *how == "failed").map(|(case, _)| case.as_str());
        failed.filter(|case| other.passes(case))
    }
}

/// The outcomes of a module on both sides.
#[derive(Debug)]
pub(super) struct Tries {
    kernel: Side,
    ours: Side,
}

impl Tries {
    /// After the first run of each.
    pub(super) fn new(kernel: Outcomes, ours: Outcomes) -> Self {
        Self { kernel: Side::new("the kernel", kernel), ours: Side::new("Tickwire", ours) }
    }

    /// Whether a case failed on this side only, so that another try may show that it is flaky.
    pub(super) fn wants(&self, ours: bool) -> bool {
        let (side, other) = if ours { (&self.ours, &self.kernel) } else { (&self.kernel, &self.ours) };
        side.behind(other).next().is_some()
    }

    /// Adds another run of a side. Only the cases that failed on this side alone are updated.
    pub(super) fn again(&mut self, ours: bool, outcomes: &Outcomes) {
        let (side, other) = if ours { (&mut self.ours, &self.kernel) } else { (&mut self.kernel, &self.ours) };
        side.tries += 1;
        let passes = |case: &&str| outcomes.get(*case).is_some_and(|how| how == "ok");
        let passed: Vec<_> = side.behind(other).filter(passes).map(str::to_owned).collect();
        for case in passed {
            side.best.insert(case.clone(), "ok".into());
            side.later.insert(case, side.tries);
        }
    }

    /// The cases that passed on the kernel only, with their outcomes on Tickwire.
    pub(super) fn worse(&self) -> Vec<(&str, &str)> {
        let ok = self.kernel.best.keys().filter(|case| self.kernel.passes(case) && !self.ours.passes(case));
        ok.map(|case| (case.as_str(), self.ours.best.get(case).map_or("not run", String::as_str))).collect()
    }

    /// How many there are.
    pub(super) fn cases(&self) -> usize {
        self.kernel.best.len()
    }

    /// How many passed on the kernel, and on Tickwire.
    pub(super) fn ok(&self) -> [usize; 2] {
        [&self.kernel, &self.ours].map(|side| side.best.values().filter(|how| *how == "ok").count())
    }

    /// A line for each case that needed another try.
    pub(super) fn later(&self) -> impl Iterator<Item = String> {
        let lines = |side: &'static str, later: &BTreeMap<String, usize>| {
            let line = |(case, attempt): (&String, &usize)| format!("passed at try {attempt} on {side}: {case}");
            later.iter().map(line).collect::<Vec<_>>()
        };
        [&self.kernel, &self.ours].into_iter().flat_map(move |side| lines(side.name, &side.later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(cases: &[(&str, &str)]) -> Outcomes {
        cases.iter().map(|(case, how)| ((*case).to_owned(), (*how).to_owned())).collect()
    }

    fn kernel() -> Outcomes {
        told(&[("a", "ok"), ("b", "ok"), ("c", "failed"), ("d", "skipped"), ("e", "ok")])
    }

    #[test]
    fn what_is_worse_is_told_from_what_is_not() {
        let ours = told(&[("a", "ok"), ("b", "failed"), ("c", "failed"), ("d", "ok")]);
        let tries = Tries::new(kernel(), ours);
        assert_eq!(tries.worse(), [("b", "failed"), ("e", "not run")]);
        assert_eq!((tries.cases(), tries.ok()), (5, [3, 2]));
        let alike = Tries::new(kernel(), kernel());
        assert!(alike.worse().is_empty() && !alike.wants(true) && !alike.wants(false));
    }

    #[test]
    fn what_passes_at_a_later_try_is_no_worse_and_is_told() {
        let failed = |case: &str| {
            let mut all = kernel();
            all.insert(case.into(), "failed".into());
            all
        };
        let mut tries = Tries::new(kernel(), failed("b"));
        assert!(tries.wants(true) && !tries.wants(false));
        tries.again(true, &failed("b"));
        assert_eq!((tries.worse(), tries.later().count()), (vec![("b", "failed")], 0));
        // A case that passed before and fails in this try is ignored.
        tries.again(true, &failed("a"));
        assert_eq!((tries.worse(), tries.wants(true)), (vec![], false));
        assert_eq!(tries.later().collect::<Vec<_>>(), ["passed at try 3 on Tickwire: b"]);
    }

    #[test]
    fn the_kernel_has_the_same_chances() {
        let ours = || told(&[("a", "ok"), ("b", "ok"), ("c", "ok"), ("d", "skipped"), ("e", "ok")]);
        let mut tries = Tries::new(kernel(), ours());
        assert!(tries.wants(false) && !tries.wants(true));
        tries.again(false, &ours());
        assert_eq!(tries.later().collect::<Vec<_>>(), ["passed at try 2 on the kernel: c"]);
        assert_eq!(tries.ok(), [4, 4]);
    }

    #[test]
    fn a_case_that_is_missing_is_never_forgiven() {
        let mut tries = Tries::new(kernel(), told(&[("a", "ok"), ("b", "ok")]));
        assert!(!tries.wants(true));
        tries.again(true, &kernel());
        assert_eq!(tries.worse(), [("e", "not run")]);
    }
}
