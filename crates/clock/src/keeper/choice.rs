//! Which servers agree, and which of them is followed.
//!
//! Each server's clock says that the time lies within its bound. Truth is where most of these
//! intervals overlap (Marzullo 1984; RFC 5905 §11.2.1); a server whose interval lies elsewhere is
//! outvoted. Of those that agree, the one with the smallest bound is followed, and kept until
//! another's is clearly smaller. Where that is more than one place, or none, nobody can tell who is
//! right: whoever was followed still is, and the bound takes all of them in.

use crate::time::Nanos;

/// A server's clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) time: Nanos,
    /// In ns.
    pub(super) bound: f64,
    /// It has told something within its patience.
    pub(super) alive: bool,
    /// RFC 5905's root distance: half of all round trips to the reference, and the dispersion, in
    /// ns.
    pub(super) distance: f64,
    /// It does not contradict what the clock has said so far.
    pub(super) loyal: bool,
}

impl Candidate {
    /// What is no number bounds nothing. It must not be compared, either: what x86 computes has its
    /// sign set, and is less than any number.
    const fn with_a_figure(self) -> Self {
        Self { bound: if self.bound.is_nan() { f64::INFINITY } else { self.bound }, ..self }
    }
}

/// How a server stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Standing {
    /// It has told nothing that could be used, or nothing for longer than its patience.
    #[default]
    Silent,
    /// It tells the time, but is too far from the reference while others are near.
    Far,
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
/// A server that is further from the reference has no say (RFC 5905 §11.2.1 and Figure 27:
/// MAXDIST), in ns, if there is another.
const FAR: f64 = 1.5e9;

/// Judges the servers; `None` for one that is silent.
pub(super) fn choose(candidates: &[Option<Candidate>], followed: Option<usize>) -> (Vec<Standing>, Option<usize>) {
    let voters = voters(candidates, followed);
    let places = deepest(&voters);
    let depth = places.first().map_or(0, |place| place.servers);
    let most = depth * 2 > voters.iter().flatten().count();
    // A wide interval can make a majority with each of two that contradict each other. That says
    // nothing of which of them is right.
    let majority = most && places.len() == 1;
    let right = |candidate: &Candidate| {
        let (earliest, latest) = interval(candidate);
        !most || places.iter().any(|place| earliest <= place.latest && latest >= place.earliest)
    };
    let best = |filter: &dyn Fn(&Candidate) -> bool| {
        let bounds = voters.iter().enumerate().filter_map(|(i, c)| c.filter(|c| filter(c)).map(|c| (i, c.bound)));
        let best = bounds.clone().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let kept = bounds.clone().find(|&(i, _)| Some(i) == followed);
        Some(kept.filter(|kept| best.1 > kept.1 * BETTER).unwrap_or(best).0)
    };
    let chosen = if majority {
        // Who is dead has a say while it is followed, but nobody holds on to it.
        best(&|candidate| right(candidate) && candidate.alive).or_else(|| best(&right))
    } else {
        // Nobody can tell who is right. Whoever was followed still is, unless it is the one that
        // has changed its mind; the bound takes all of them in.
        let loyal = |candidate: &Candidate| right(candidate) && candidate.loyal;
        let kept = |filter: &dyn Fn(&Candidate) -> bool| followed.filter(|&i| voters[i].is_some_and(|c| filter(&c)));
        kept(&loyal).or_else(|| best(&loyal)).or_else(|| kept(&right)).or_else(|| best(&right))
    };
    let beyond = |candidate: &Candidate| {
        let followed = chosen.and_then(|i| voters[i]);
        followed.map_or(0.0, |followed| {
            let apart = candidate.time.since(followed.time).unsigned_abs() as f64;
            (apart + candidate.bound - followed.bound).max(0.0)
        })
    };
    let standing = |(i, voter): (usize, &Option<Candidate>)| match voter {
        None if candidates[i].is_some_and(|candidate| candidate.alive) => Standing::Far,
        None => Standing::Silent,
        Some(_) if Some(i) == chosen => Standing::Followed,
        Some(candidate) if !right(candidate) => Standing::Outvoted,
        Some(_) if majority => Standing::Agrees,
        Some(candidate) => Standing::Disputed(beyond(candidate)),
    };
    (voters.iter().enumerate().map(standing).collect(), chosen)
}

/// Who has a say. The one that is followed has, dead or alive: what it told is what the clock still
/// says, and after an outage of all the first that is back shall not be believed alone. Those that
/// are far from the reference have, if there is nobody else.
fn voters(candidates: &[Option<Candidate>], followed: Option<usize>) -> Vec<Option<Candidate>> {
    let near = |candidate: &Candidate| candidate.distance <= FAR;
    let heard = |(i, candidate): (usize, &Option<Candidate>)| candidate.filter(|c| c.alive || Some(i) == followed);
    let heard: Vec<_> = candidates.iter().enumerate().map(heard).collect();
    let any_near = heard.iter().flatten().any(near);
    let has_say = |candidate: &Candidate| near(candidate) || !any_near;
    heard.into_iter().map(|candidate| candidate.filter(has_say).map(Candidate::with_a_figure)).collect()
}

/// By how much the followed clock's bound must grow to take in all servers that nobody could
/// outvote, in ns.
pub(super) fn disagreement(standings: &[Standing]) -> f64 {
    let beyond = |standing: &Standing| if let Standing::Disputed(ns) = standing { *ns } else { 0.0 };
    standings.iter().map(beyond).fold(0.0, f64::max)
}

/// A place where most intervals overlap.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Overlap {
    earliest: i64,
    latest: i64,
    servers: usize,
}

fn interval(candidate: &Candidate) -> (i64, i64) {
    // What is too large is all of time.
    let bound = (libm::ceil(candidate.bound) as i64).max(0);
    (candidate.time.0.saturating_sub(bound), candidate.time.0.saturating_add(bound))
}

/// Where no other place has more intervals: often one place, but there can be several.
fn deepest(candidates: &[Option<Candidate>]) -> Vec<Overlap> {
    let mut edges: Vec<_> = candidates
        .iter()
        .flatten()
        .flat_map(|candidate| [(interval(candidate).0, false), (interval(candidate).1, true)])
        .collect();
    // Where one begins and another ends, both hold.
    edges.sort_unstable();
    let mut depth = 0;
    let mut deepest: Vec<Overlap> = Vec::new();
    for (i, &(at, ends)) in edges.iter().enumerate() {
        if ends {
            depth -= 1;
            continue;
        }
        depth += 1;
        let servers = deepest.first().map_or(0, |place| place.servers);
        if depth > servers {
            deepest.clear();
        }
        if depth >= servers {
            // The deepest place ends where the first interval does.
            let latest = edges[i..].iter().find(|(_, ends)| *ends).map_or(at, |(latest, _)| *latest);
            deepest.push(Overlap { earliest: at, latest, servers: depth });
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: i64, bound: f64) -> Option<Candidate> {
        Some(Candidate { time: Nanos(time), bound, alive: true, distance: bound, loyal: true })
    }

    fn dead(time: i64, bound: f64) -> Option<Candidate> {
        at(time, bound).map(|candidate| Candidate { alive: false, ..candidate })
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
    fn who_is_right_is_open_where_a_wide_one_agrees_with_two_that_contradict_each_other() {
        let (near, liar, wide) = (at(0, 50.0), at(-40_000, 50.0), at(0, 100_000.0));
        for (followed, expected, beyond) in [(Some(0), 0, 40_000.0), (Some(1), 1, 40_000.0), (None, 0, 40_000.0)] {
            let (standings, chosen) = choose(&[near, liar, None], followed);
            assert_eq!((chosen, disagreement(&standings)), (Some(expected), beyond), "two alone");
            let (standings, chosen) = choose(&[near, liar, wide], followed);
            assert_eq!(chosen, Some(expected));
            let reach = if expected == 0 { 100_000.0 } else { 140_000.0 };
            assert_eq!(disagreement(&standings), reach - 50.0, "the bound takes in all: {standings:?}");
        }
        let outvoted = at(900_000, 50.0);
        let (standings, chosen) = choose(&[near, near, liar, liar, wide, outvoted], Some(5));
        assert_eq!((chosen, standings[5]), (Some(5), Standing::Followed), "3 of 6 are no majority");
        let (standings, chosen) = choose(&[near, near, liar, liar, wide, wide, outvoted], Some(6));
        assert_eq!((chosen, standings[6]), (Some(0), Standing::Outvoted), "4 of 7 here and there, but not for it");
    }

    #[test]
    fn the_dead_have_no_vote_but_the_one_that_is_followed() {
        let (honest, liar) = (at(0, 50.0), at(5000, 50.0));
        let (standings, chosen) = choose(&[honest, liar, dead(2500, 9000.0)], Some(0));
        assert_eq!((chosen, standings[2]), (Some(0), Standing::Silent));
        assert!(matches!(standings[1], Standing::Disputed(_)), "{standings:?}");
        // After an outage of all the first that is back is not believed alone.
        let (standings, chosen) = choose(&[dead(0, 50.0), dead(3, 50.0), liar], Some(0));
        assert_eq!((chosen, &standings[1..]), (Some(0), &[Standing::Silent, Standing::Disputed(5000.0)][..]));
        assert_eq!(choose(&[dead(0, 50.0), at(3, 90.0), liar], Some(0)).1, Some(1), "and is left for one that lives");
    }

    #[test]
    fn in_a_dispute_who_has_changed_its_mind_is_not_followed() {
        let set = at(9000, 10.0).map(|candidate| Candidate { loyal: false, ..candidate });
        assert_eq!(choose(&[set, at(0, 50.0)], Some(0)).1, Some(1));
        assert_eq!(choose(&[set, at(9000, 50.0), at(0, 50.0)], Some(0)).1, Some(0), "but a majority may");
    }

    #[test]
    fn who_is_too_far_from_the_reference_has_a_say_only_if_there_is_nobody_else() {
        let far = at(0, 1.6e9);
        assert_eq!(choose(&[far, at(0, 50.0)], Some(0)), (vec![Standing::Far, Standing::Followed], Some(1)));
        let (standings, _) = choose(&[dead(0, 1.6e9), at(0, 50.0)], Some(0));
        assert_eq!(standings, [Standing::Silent, Standing::Followed], "who tells nothing is not near or far");
        assert_eq!(choose(&[far, None], None), (vec![Standing::Followed, Standing::Silent], Some(0)));
    }

    #[test]
    fn a_bound_that_is_no_figure_is_none() {
        assert!(choose(&[at(0, -50.0), at(10, 30.0), at(0, 30.0)], None).1.is_some());
        let at = |time: i64, bound: f64| at(time, bound).map(|candidate| Candidate { distance: 0.0, ..candidate });
        for bound in [f64::NAN, -f64::NAN, f64::INFINITY] {
            for time in [0, 1_000_000] {
                let (standings, chosen) = choose(&[at(time, bound), at(10, 30.0), at(0, 30.0)], None);
                assert_eq!((chosen, standings[0]), (Some(1), Standing::Agrees), "{bound}: it may be any time");
            }
            let (standings, _) = choose(&[at(0, 30.0), at(1000, 30.0), at(0, bound)], Some(0));
            assert_eq!(disagreement(&standings), f64::INFINITY, "{bound}");
        }
    }

    #[test]
    fn nobody_is_nobody() {
        assert_eq!(choose(&[None, None], Some(1)), (vec![Standing::Silent; 2], None));
        assert_eq!(choose(&[], None), (vec![], None));
    }
}
