//! Latency profiles, as Lisovy et al. (2013) draw them: the reversed cumulative histogram, whose
//! logarithmic vertical axis magnifies the worst.

/// The resolution of a line along an axis; points that are closer together are merged.
const PLACES: f64 = 240.0;

/// For each value of a histogram, in units of `unit`, the fraction of all that was at least that
/// value. It falls from 1 at the smallest value to the fraction at the largest. `pairs` are values
/// with their counts, ascending. Points that would coincide on a logarithmic figure are left out,
/// but never the first and the last.
#[must_use]
pub fn profile(pairs: &[(u64, u64)], unit: f64) -> Vec<(f64, f64)> {
    let all: u64 = pairs.iter().map(|&(_, count)| count).sum();
    let (Some(&(least, _)), Some(&(greatest, _))) = (pairs.first(), pairs.last()) else { return Vec::new() };
    if all == 0 {
        return Vec::new();
    }
    let width = (greatest.max(1) as f64 / least.max(1) as f64).ln().max(1e-9);
    let height = (all as f64).ln().max(1e-9);
    let place = |value: f64, part: f64| (value.max(1.0).ln() / width * PLACES, part.ln() / height * PLACES);
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    let mut before = 0;
    for (index, &(value, count)) in pairs.iter().enumerate() {
        let part = (all - before) as f64 / all as f64;
        before += count;
        let here = place(value as f64, part);
        let apart = last.is_none_or(|last| (last.0 - here.0).abs() >= 1.0 || (last.1 - here.1).abs() >= 1.0);
        if apart || index + 1 == pairs.len() {
            points.push((value as f64 / unit, part));
            last = Some(here);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_goes_from_all_at_the_least_to_one_at_the_greatest() {
        let points = profile(&[(1_000, 90), (2_000, 9), (50_000, 1)], 1e3);
        assert_eq!(points, [(1.0, 1.0), (2.0, 0.1), (50.0, 0.01)]);
    }

    #[test]
    fn a_long_histogram_has_no_more_points_than_can_be_seen() {
        let pairs: Vec<(u64, u64)> = (0..20_000).map(|i| (1_000 + i * 7, 1 + i % 3)).collect();
        let points = profile(&pairs, 1.0);
        assert!(points.len() < 3 * PLACES as usize, "{}", points.len());
        assert_eq!(points[0], (1_000.0, 1.0));
        assert_eq!(points.last().unwrap().0, (1_000 + 19_999 * 7) as f64);
        assert!(points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 > two[1].1));
    }

    #[test]
    fn nothing_has_no_profile() {
        assert!(profile(&[], 1.0).is_empty() && profile(&[(5, 0)], 1.0).is_empty());
        assert_eq!(profile(&[(5, 3)], 1.0), [(5.0, 1.0)], "all alike");
    }
}
