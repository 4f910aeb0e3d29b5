//! Selection: which servers agree, and which of them is followed.
//!
//! Each server's clock gives an interval, its time plus or minus its bound. The true time is taken
//! to lie where most of these intervals overlap (Marzullo 1984; RFC 5905 §11.2.1), and a server
//! whose interval lies elsewhere is outvoted. Of the servers that agree, the one with the smallest
//! bound is followed until another's bound is clearly smaller. If there are several such overlaps,
//! or no majority, it is undecidable which server is right. Then the followed server stays
//! followed, and the bound grows to cover all of them.

use tickwire_clockpage::Nanos;

/// A server's clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) time: Nanos,
    /// Maximum error in ns.
    pub(super) bound: f64,
    /// It has given a usable exchange within its silence timeout.
    pub(super) alive: bool,
    /// Root distance (RFC 5905): half of all round trips to the reference plus the dispersion, in
    /// ns.
    pub(super) distance: f64,
    /// It does not contradict the clock as it was until now.
    pub(super) loyal: bool,
}

impl Candidate {
    /// Replaces a NaN bound by infinity. `total_cmp` would order the NaN that x86 produces, whose
    /// sign is set, before any number.
    const fn with_a_figure(self) -> Self {
        Self { bound: if self.bound.is_nan() { f64::INFINITY } else { self.bound }, ..self }
    }
}

/// The result of the selection for one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Standing {
    /// It has given no usable exchange yet, or none within its silence timeout.
    #[default]
    Silent,
    /// It is reachable, but too far from the reference while others are near.
    Far,
    /// It is followed.
    Followed,
    /// It agrees with the majority.
    Agrees,
    /// Its interval lies outside the majority's.
    Outvoted,
    /// It smears leap seconds and others do not, so it is excluded (RFC 8633 §3.7.1).
    Smeared,
    /// There is no majority. Its interval reaches this many ns beyond that of the followed server.
    Disputed(f64),
}

impl Standing {
    /// Whether it is followed or agrees with the majority.
    #[must_use]
    pub const fn agrees(self) -> bool {
        matches!(self, Self::Followed | Self::Agrees)
    }
}

/// Another server is followed only if its bound is below this fraction of the current one's.
const BETTER: f64 = 0.8;
/// A server whose root distance in ns exceeds this does not vote if another one is nearer (RFC 5905
/// §11.2.1 and Figure 27: MAXDIST).
const FAR: f64 = 1.5e9;

/// Runs the selection; `None` stands for a server without a clock.
pub(super) fn choose(candidates: &[Option<Candidate>], followed: Option<usize>) -> (Vec<Standing>, Option<usize>) {
    let voters = voters(candidates, followed);
    let places = deepest(&voters);
    let depth = places.first().map_or(0, |place| place.servers);
    let most = depth * 2 > voters.iter().flatten().count();
    // A wide interval can form a majority with each of two that contradict each other. That does
    // not show which of them is right.
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
        // A silent server votes while it is followed, but is replaced if a live one of the majority
        // exists.
        best(&|candidate| right(candidate) && candidate.alive).or_else(|| best(&right))
    } else {
        // It is undecidable which server is right. The followed one stays followed unless it now
        // contradicts its own earlier time; the bound covers all of them.
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

/// Which servers vote. The followed server votes even when it is silent: the clock still runs by
/// it, and after an outage of all servers the first one back must not win alone. Servers far from
/// the reference vote only if none is near.
fn voters(candidates: &[Option<Candidate>], followed: Option<usize>) -> Vec<Option<Candidate>> {
    let near = |candidate: &Candidate| candidate.distance <= FAR;
    let heard = |(i, candidate): (usize, &Option<Candidate>)| candidate.filter(|c| c.alive || Some(i) == followed);
    let heard: Vec<_> = candidates.iter().enumerate().map(heard).collect();
    let any_near = heard.iter().flatten().any(near);
    let has_say = |candidate: &Candidate| near(candidate) || !any_near;
    heard.into_iter().map(|candidate| candidate.filter(has_say).map(Candidate::with_a_figure)).collect()
}

/// By how much the followed clock's bound must grow to cover all disputed servers, in ns.
pub(super) fn disagreement(standings: &[Standing]) -> f64 {
    let beyond = |standing: &Standing| if let Standing::Disputed(ns) = standing { *ns } else { 0.0 };
    standings.iter().map(beyond).fold(0.0, f64::max)
}

/// A time span where the most intervals overlap.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Overlap {
    earliest: i64,
    latest: i64,
    servers: usize,
}

fn interval(candidate: &Candidate) -> (i64, i64) {
    // The cast saturates: a bound that is too large covers all of time.
    let bound = (libm::ceil(candidate.bound) as i64).max(0);
    (candidate.time.0.saturating_sub(bound), candidate.time.0.saturating_add(bound))
}

/// The overlaps with the most intervals: often one, but there can be several.
fn deepest(candidates: &[Option<Candidate>]) -> Vec<Overlap> {
    let mut edges: Vec<_> = candidates
        .iter()
        .flatten()
        .flat_map(|candidate| [(interval(candidate).0, false), (interval(candidate).1, true)])
        .collect();
    // Begin edges sort before end edges, so intervals that only touch overlap.
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
            // The overlap ends where the first of its intervals ends.
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
    fn a_slightly_better_server_is_not_followed() {
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
    fn it_is_undecided_where_a_wide_one_agrees_with_two_that_contradict_each_other() {
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
        // After an outage of all servers, the first one back does not win alone.
        let (standings, chosen) = choose(&[dead(0, 50.0), dead(3, 50.0), liar], Some(0));
        assert_eq!((chosen, &standings[1..]), (Some(0), &[Standing::Silent, Standing::Disputed(5000.0)][..]));
        assert_eq!(choose(&[dead(0, 50.0), at(3, 90.0), liar], Some(0)).1, Some(1), "and is left for one that lives");
    }

    #[test]
    fn in_a_dispute_a_server_that_has_stepped_is_not_followed() {
        let set = at(9000, 10.0).map(|candidate| Candidate { loyal: false, ..candidate });
        assert_eq!(choose(&[set, at(0, 50.0)], Some(0)).1, Some(1));
        assert_eq!(choose(&[set, at(9000, 50.0), at(0, 50.0)], Some(0)).1, Some(0), "but a majority may");
    }

    #[test]
    fn a_server_too_far_from_the_reference_votes_only_if_there_is_no_other() {
        let far = at(0, 1.6e9);
        assert_eq!(choose(&[far, at(0, 50.0)], Some(0)), (vec![Standing::Far, Standing::Followed], Some(1)));
        let (standings, _) = choose(&[dead(0, 1.6e9), at(0, 50.0)], Some(0));
        assert_eq!(standings, [Standing::Silent, Standing::Followed], "a silent server is neither near nor far");
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
    fn without_servers_none_is_followed() {
        assert_eq!(choose(&[None, None], Some(1)), (vec![Standing::Silent; 2], None));
        assert_eq!(choose(&[], None), (vec![], None));
    }
}
