//! Statistics of many times: percentiles, jitter, and the latency profile. The profile is a
//! cumulative histogram with a reversed axis (section IV of the paper): on a logarithmic scale it
//! shows the worst cases as clearly as the common ones.

use serde::Serialize;

/// Points of a profile for each decade of its axis.
const POINTS: f64 = 30.0;

/// Statistics of many times, all in ns. A time from an instant to a timestamp may be negative,
/// within the error of reading the two clocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeStatistics {
    /// Number of times.
    pub samples: usize,
    /// The least.
    pub min_ns: i64,
    /// Their mean.
    pub mean_ns: f64,
    /// Half of them are at most this.
    pub p50_ns: i64,
    /// 99 of 100 are at most this.
    pub p99_ns: i64,
    /// 999 of 1000 are at most this.
    pub p999_ns: i64,
    /// The greatest.
    pub max_ns: i64,
    /// Jitter as the paper defines it: the greatest minus the least.
    pub jitter_ns: i64,
    /// The latency profile, from the least time, with part 1, to the greatest.
    pub profile: Vec<AtLeast>,
}

/// The part of the times that are at least `ns`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AtLeast {
    /// The time in ns.
    pub ns: i64,
    /// The part, above 0 and up to 1.
    pub part: f64,
}

impl TimeStatistics {
    /// The statistics of these times; `None` if there are none.
    #[must_use]
    pub fn of(mut times: Vec<i64>) -> Option<Self> {
        times.sort_unstable();
        let (&min, &max) = (times.first()?, times.last()?);
        let all = times.len();
        // Nearest-rank percentile: the least time that this part of all times does not exceed.
        let at = |thousandths: usize| times[(all * thousandths).div_ceil(1000).max(1) - 1];
        let sum: i128 = times.iter().copied().map(i128::from).sum();
        Some(Self {
            samples: all,
            min_ns: min,
            mean_ns: sum as f64 / all as f64,
            p50_ns: at(500),
            p99_ns: at(990),
            p999_ns: at(999),
            max_ns: max,
            jitter_ns: max.saturating_sub(min),
            profile: profile(&times),
        })
    }
}

/// The profile of sorted times. Its points are spaced evenly on the logarithmic axis, so a million
/// times need fewer than 200; the last is the greatest.
fn profile(sorted: &[i64]) -> Vec<AtLeast> {
    let all = sorted.len();
    let mut points: Vec<AtLeast> = Vec::new();
    for step in 0_u32.. {
        let left = (all as f64 * 10_f64.powf(-f64::from(step) / POINTS)) as usize;
        if left == 0 {
            break;
        }
        let ns = sorted[all - left];
        if points.last().is_none_or(|last| last.ns != ns) {
            let less = sorted.partition_point(|&other| other < ns);
            points.push(AtLeast { ns, part: (all - less) as f64 / all as f64 });
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(times: Vec<i64>) -> Vec<(i64, f64)> {
        TimeStatistics::of(times).unwrap().profile.into_iter().map(|one| (one.ns, one.part)).collect()
    }

    #[test]
    fn figures_of_known_times() {
        let figures = TimeStatistics::of((1..=1000).rev().collect()).unwrap();
        assert_eq!((figures.samples, figures.min_ns, figures.max_ns, figures.jitter_ns), (1000, 1, 1000, 999));
        assert_eq!((figures.p50_ns, figures.p99_ns, figures.p999_ns), (500, 990, 999));
        assert_eq!(figures.mean_ns, 500.5);
        let one = TimeStatistics::of(vec![-7]).unwrap();
        assert_eq!((one.min_ns, one.p50_ns, one.p999_ns, one.max_ns, one.jitter_ns), (-7, -7, -7, -7, 0));
        assert_eq!(TimeStatistics::of(Vec::new()), None);
    }

    #[test]
    fn the_profile_is_the_reversed_cumulative_histogram() {
        // 90 of 100 take 5, 9 take 20, one takes 300.
        let times = [vec![5; 90], vec![20; 9], vec![300]].concat();
        assert_eq!(points(times), [(5, 1.0), (20, 0.1), (300, 0.01)]);
        assert_eq!(points(vec![3]), [(3, 1.0)]);
        assert_eq!(points(vec![2, 1]), [(1, 1.0), (2, 0.5)]);
    }

    #[test]
    fn a_profile_of_many_times_is_short_falls_and_ends_with_the_worst() {
        let all = 100_000;
        let profile = points((0..all).collect());
        assert!(profile.len() <= 151, "{}", profile.len());
        assert!(profile.is_sorted_by(|a, b| a.0 < b.0 && a.1 > b.1));
        assert_eq!((profile[0], *profile.last().unwrap()), ((0, 1.0), (all - 1, 1e-5)));
        for (ns, part) in profile {
            assert_eq!(part, (all - ns) as f64 / all as f64);
        }
    }
}
