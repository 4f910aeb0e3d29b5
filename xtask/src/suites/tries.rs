//! Cases of which some depend on how a busy machine divides its time, and want what they have sent
//! to be there at once, as on the loopback's device: one that failed on one side only is tried
//! again, on whichever side that was, and what passes then is told.

use std::collections::BTreeMap;

/// How each case ended: `ok`, `failed` or `skipped`. A module that was ended lacks the rest.
pub(super) type Outcomes = BTreeMap<String, String>;

/// A side's cases.
#[derive(Debug)]
struct Side {
    name: &'static str,
    /// How each ended at its best.
    best: Outcomes,
    /// How often the module has run.
    tries: usize,
    /// At which try cases passed that had failed before.
    later: BTreeMap<String, usize>,
}

impl Side {
    fn new(name: &'static str, first: Outcomes) -> Self {
        Self { name, best: first, tries: 1, later: BTreeMap::new() }
    }

    fn passes(&self, case: &str) -> bool {
        self.best.get(case).is_some_and(|how| how == "ok")
    }

    /// Cases that failed here and passed on the other side. What is missing is none: a module that
    /// crashed or hung is not forgiven.
    fn behind<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let failed = self.best.iter().filter(|(_, how)| *how == "failed").map(|(case, _)| case.as_str());
        failed.filter(|case| other.passes(case))
    }
}

/// What a module has shown on either side.
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

    /// Whether a case failed on this side only, so that another try may show that it was chance.
    pub(super) fn wants(&self, ours: bool) -> bool {
        let (side, other) = if ours { (&self.ours, &self.kernel) } else { (&self.kernel, &self.ours) };
        side.behind(other).next().is_some()
    }

    /// Another run of a side. It counts for those cases only that were behind.
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

    /// The cases that went well on the kernel only, and how they ended on Tickwire.
    pub(super) fn worse(&self) -> Vec<(&str, &str)> {
        let ok = self.kernel.best.keys().filter(|case| self.kernel.passes(case) && !self.ours.passes(case));
        ok.map(|case| (case.as_str(), self.ours.best.get(case).map_or("not run", String::as_str))).collect()
    }

    /// How many there are.
    pub(super) fn cases(&self) -> usize {
        self.kernel.best.len()
    }

    /// How many went well on the kernel, and on Tickwire.
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
        // Another case that fails now is none of this try's business.
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
