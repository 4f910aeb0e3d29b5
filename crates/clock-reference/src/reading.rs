//! The cost of reading the time, measured alternately: Tickwire's clock with its bound, the
//! kernel's and ClockBound's.

use crate::probe::Probed;
use std::hint::black_box;
use std::time::Instant;
use tickwire_bench::reading::Cost;

/// Default number of readings in a batch: small enough that most batches are not interrupted.
pub const BATCH: u32 = 100;

/// Reads the clocks alternately, in `batches` batches of `batch` readings each.
#[must_use]
pub fn cost(clocks: &mut [(&'static str, Probed)], batches: u32, batch: u32) -> Vec<Cost> {
    let mut taken = vec![Vec::with_capacity(batches as usize); clocks.len()];
    for _ in 0..batches {
        for ((_, clock), taken) in clocks.iter_mut().zip(&mut taken) {
            let begin = Instant::now();
            clock.read_times(batch);
            taken.push(begin.elapsed().as_nanos() as f64 / f64::from(batch));
        }
    }
    let costs = clocks.iter().zip(taken).map(|((name, _), mut taken)| {
        taken.sort_by(f64::total_cmp);
        let at = |part: f64| taken.get((taken.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN);
        let reads = u64::from(batches) * u64::from(batch);
        Cost { clock: (*name).to_owned(), reads, min_ns: at(0.0), p50_ns: at(0.5), p99_ns: at(0.99) }
    });
    costs.collect()
}

impl Probed {
    /// Reads the clock as a program would, with its interval if it has one, and discards the time.
    fn read_times(&mut self, times: u32) {
        match self {
            Self::Page(clock) => {
                for _ in 0..times {
                    black_box(black_box(&*clock).now().interval());
                }
            }
            Self::Unordered(clock) => {
                for _ in 0..times {
                    black_box(black_box(&*clock).now_unordered().interval());
                }
            }
            Self::System => {
                for _ in 0..times {
                    let _ = black_box(nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME));
                }
            }
            Self::ClockBound(client) => {
                for _ in 0..times {
                    let _ = black_box(black_box(&mut *client).now().map(|window| (window.earliest, window.latest)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_has_a_row() {
        let [cost] = &cost(&mut [("kernel", Probed::System)], 200, BATCH)[..] else { panic!("one row") };
        assert_eq!((&*cost.clock, cost.reads), ("kernel", 20_000));
        assert!(cost.min_ns > 0.0 && cost.min_ns <= cost.p50_ns && cost.p50_ns <= cost.p99_ns, "{cost:?}");
    }
}
