//! Which servers agree, and which of them is followed.
//!
//! Each server's clock says that the time lies within its bound. Truth is where most of these intervals overlap (Marzullo 1984; RFC 5905 §11.2.1); a server
//! whose interval lies elsewhere is outvoted. Of those that agree, the one with the smallest bound is followed, and kept until another's is clearly smaller.

use crate::time::Nanos;

/// A server's clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) time: Nanos,
    /// In ns.
    pub(super) bound: f64,
}

/// How a server stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Standing {
    /// It has told nothing that could be used.
    #[default]
    Silent,
    /// It agrees with most, and is followed.
    Followed,
    /// It agrees with most.
    Agrees,
    /// Most others say that it is wrong.
    Outvoted,
    /// It spreads leap seconds, and others tell UTC itself: it is not asked (RFC 8633 §3.7.1).
    Smeared,
    /// There is no majority: by so many ns it is beyond the one that is followed.
    Disputed(f64),
}

impl Standing {
    /// Whether it is one of the majority.
    #[must_use]
    pub const fn agrees(self) -> bool {
        matches!(self, Self::Followed | Self::Agrees)
    }
}

/// Another server must be better by this before it is followed.
const BETTER: f64 = 0.8;

/// Judges the servers; `None` for one that is silent.
pub(super) fn choose(candidates: &[Option<Candidate>], followed: Option<usize>) -> (Vec<Standing>, Option<usize>) {
    let voters = candidates.iter().flatten().count();
    let overlap = overlap(candidates);
    let majority = overlap.filter(|overlap| overlap.servers * 2 > voters);
    let agrees = |candidate: &Candidate| {
        majority.is_some_and(|m| interval(candidate).0 <= m.latest && interval(candidate).1 >= m.earliest)
    };
    let best = |filter: &dyn Fn(&Candidate) -> bool| {
        let bounds = candidates.iter().enumerate().filter_map(|(i, c)| c.filter(|c| filter(c)).map(|c| (i, c.bound)));
        let best = bounds.clone().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let kept = bounds.clone().find(|&(i, _)| Some(i) == followed);
        Some(kept.filter(|kept| best.1 > kept.1 * BETTER).unwrap_or(best).0)
    };
    let chosen = match majority {
        Some(_) => best(&agrees),
        // Nobody can tell who is right. Whoever was followed still is; the bound takes all of them in.
        None => followed.filter(|&i| candidates[i].is_some()).or_else(|| best(&|_| true)),
    };
    let beyond = |candidate: &Candidate| {
        let followed = chosen.and_then(|i| candidates[i]);
        followed.map_or(0.0, |followed| {
            let apart = candidate.time.since(followed.time).unsigned_abs() as f64;
            (apart + candidate.bound - followed.bound).max(0.0)
        })
    };
    let standing = |(i, candidate): (usize, &Option<Candidate>)| match candidate {
        None => Standing::Silent,
        Some(_) if Some(i) == chosen => Standing::Followed,
        Some(candidate) if majority.is_none() => Standing::Disputed(beyond(candidate)),
        Some(candidate) if agrees(candidate) => Standing::Agrees,
        Some(_) => Standing::Outvoted,
    };
    (candidates.iter().enumerate().map(standing).collect(), chosen)
}

/// By how much the followed clock's bound must grow to take in all servers that nobody could outvote, in ns.
pub(super) fn disagreement(standings: &[Standing]) -> f64 {
    let beyond = |standing: &Standing| if let Standing::Disputed(ns) = standing { *ns } else { 0.0 };
    standings.iter().map(beyond).fold(0.0, f64::max)
}

/// Where most intervals overlap.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Overlap {
    earliest: i64,
    latest: i64,
    servers: usize,
}

fn interval(candidate: &Candidate) -> (i64, i64) {
    let bound = libm::ceil(candidate.bound) as i64;
    (candidate.time.0.saturating_sub(bound), candidate.time.0.saturating_add(bound))
}

fn overlap(candidates: &[Option<Candidate>]) -> Option<Overlap> {
    let mut edges: Vec<_> = candidates
        .iter()
        .flatten()
        .flat_map(|candidate| [(interval(candidate).0, false), (interval(candidate).1, true)])
        .collect();
    // Where one begins and another ends, both hold.
    edges.sort_unstable();
    let mut depth = 0;
    let mut deepest: Option<Overlap> = None;
    for (i, &(at, ends)) in edges.iter().enumerate() {
        if ends {
            depth -= 1;
            continue;
        }
        depth += 1;
        if deepest.is_none_or(|deepest| depth > deepest.servers) {
            // The deepest place ends where the first interval does.
            let latest = edges[i..].iter().find(|(_, ends)| *ends).map_or(at, |(latest, _)| *latest);
            deepest = Some(Overlap { earliest: at, latest, servers: depth });
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: i64, bound: f64) -> Option<Candidate> {
        Some(Candidate { time: Nanos(time), bound })
    }

    #[test]
    fn the_best_of_the_majority_is_followed_and_liars_are_outvoted() {
        let (standings, chosen) = choose(&[at(0, 50.0), at(10, 30.0), at(5000, 1.0), None], None);
        assert_eq!(chosen, Some(1));
        assert_eq!(standings, [Standing::Agrees, Standing::Followed, Standing::Outvoted, Standing::Silent]);
    }

    #[test]
    fn nobody_changes_for_a_little() {
        let candidates = [at(0, 50.0), at(10, 45.0)];
        assert_eq!(choose(&candidates, Some(0)).1, Some(0));
        assert_eq!(choose(&[at(0, 50.0), at(10, 30.0)], Some(0)).1, Some(1));
        assert_eq!(choose(&[at(0, 50.0), at(900, 30.0), at(910, 30.0)], Some(0)).1, Some(1), "but for an outvoted one");
    }

    #[test]
    fn two_that_disagree_are_both_within_the_bound() {
        let (standings, chosen) = choose(&[at(0, 50.0), at(1000, 30.0)], Some(0));
        assert_eq!(chosen, Some(0));
        assert_eq!(standings, [Standing::Followed, Standing::Disputed(980.0)]);
        assert_eq!(disagreement(&standings), 980.0, "0 + 50 + 980 = 1000 + 30");
    }

    #[test]
    fn nobody_is_nobody() {
        assert_eq!(choose(&[None, None], Some(1)), (vec![Standing::Silent; 2], None));
        assert_eq!(choose(&[], None), (vec![], None));
    }
}
