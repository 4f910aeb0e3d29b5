//! The condition for two periodic slots to never overlap.
//!
//! Slot i begins at `p_i + k T_i` and slot j at `p_j + l T_j`, for any integers k and l, and they
//! last `d_i` and `d_j`. The distance from a beginning of i to one of j is `p_j - p_i + l T_j - k
//! T_i`. By Bézout's identity the last two terms are exactly the multiples of `g = gcd(T_i, T_j)`.
//! k and l need not be negative for that: both can grow by any common multiple. So the possible
//! distances are those with the remainder `r = (p_j - p_i) mod g`. Slots of which j begins a
//! distance v after i (before it, if v is negative) overlap if and only if `-d_j < v < d_i`. The
//! nearest distances are r and `r - g`, hence
//!
//! > streams i and j never overlap if and only if `d_i <= r` and `d_j <= g - r`.
//!
//! In words: mapped to a circle of circumference g, each slot has one position, and the slots must
//! be disjoint there. (Korst, Aarts, Lenstra, Wessels 1991: Periodic multiprocessor scheduling;
//! Korst, Aarts, Lenstra 1996: Scheduling periodic tasks, which shows that finding such positions
//! for many streams is NP-complete in the strong sense.)

/// A periodic slot, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    /// Start of one of its slots.
    pub(super) phase: u64,
    /// Its period, more than 0.
    pub(super) period: u64,
    /// Length of each slot, more than 0.
    pub(super) length: u64,
}

/// The greatest common divisor; of 0 and a number, the number.
pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Distance on a circle from a position forwards to another.
pub(super) fn ahead(from: u64, to: u64, circle: u64) -> u64 {
    let (from, to) = (from % circle, to % circle);
    if to >= from { to - from } else { circle - (from - to) }
}

/// The greatest overlap of a slot of one with a slot of the other; 0 if they never overlap.
pub(super) fn overlap(i: Repeated, j: Repeated) -> u64 {
    let circle = gcd(i.period, j.period);
    let after = ahead(i.phase, j.phase, circle);
    let behind_i = i.length.saturating_sub(after).min(j.length);
    let behind_j = j.length.saturating_sub(circle - after).min(i.length);
    behind_i.max(behind_j)
}

/// All slots of `all` that begin before `end`, in order: start and index.
#[cfg(test)]
pub(super) fn expand(all: &[Repeated], end: u64) -> Vec<(u64, usize)> {
    let one = |(number, slot): (usize, &Repeated)| {
        (slot.phase % slot.period..end).step_by(slot.period as usize).map(move |at| (at, number)).collect::<Vec<_>>()
    };
    let mut slots: Vec<_> = all.iter().enumerate().flat_map(one).collect();
    slots.sort_unstable();
    slots
}

/// Whether slots overlap, by brute force over two cycles: every possible overlap occurs by the
/// second.
#[cfg(test)]
pub(super) fn any_overlap(all: &[Repeated]) -> bool {
    let cycle = all.iter().fold(1, |cycle, slot| cycle / gcd(cycle, slot.period) * slot.period);
    let mut free_from = 0;
    expand(all, 2 * cycle).into_iter().any(|(at, number)| {
        let meets = at < free_from;
        free_from = free_from.max(at + all[number].length);
        meets
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_may_touch_and_not_more() {
        let slot = |phase, period, length| Repeated { phase, period, length };
        // gcd 10: 0 to 4 and, of the second, 4 to 10 or 5 to 11.
        assert_eq!(overlap(slot(0, 20, 4), slot(34, 30, 6)), 0);
        assert_eq!(overlap(slot(0, 20, 4), slot(35, 30, 6)), 1);
        assert_eq!(overlap(slot(0, 20, 4), slot(33, 30, 6)), 1);
        assert_eq!(overlap(slot(0, 20, 4), slot(0, 30, 6)), 4);
        // Slots with coprime periods always overlap at some time.
        assert_eq!(overlap(slot(0, 7, 1), slot(3, 11, 1)), 1);
        // A slot longer than its own period overlaps every other.
        assert_eq!(overlap(slot(0, 10, 20), slot(5, 10, 1)), 1);
    }

    proptest! {
        #[test]
        fn the_condition_holds_if_and_only_if_no_slots_of_two_cycles_overlap(
            periods in [1u64..40, 1u64..40], scale in 1u64..12, phases in [0u64..500, 0u64..500], lengths in [1u64..60, 1u64..60],
        ) {
            let slot = |n: usize| {
                let period = periods[n] * scale;
                // Shorter than the period: overlap of a stream with itself is tested elsewhere.
                Repeated { phase: phases[n], period, length: 1 + (lengths[n] - 1) % period }
            };
            let (i, j) = (slot(0), slot(1));
            prop_assert_eq!(overlap(i, j) > 0, any_overlap(&[i, j]));
            prop_assert_eq!(overlap(i, j), overlap(j, i));
        }
    }
}
