//! A random walk of the rate: the wander of an oscillator at constant temperature.

use serde::{Deserialize, Serialize};
use tickwire_sim::Rng;

/// The parameters of the random walk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Standard deviation of its change within a second, in ppm.
    pub ppm_per_s: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Length of the walk in seconds; longer than any run.
const SECONDS: usize = 86_400;

/// Rate and phase at the start of each second.
#[derive(Clone, Debug)]
pub(crate) struct Table(Vec<Point>);

#[derive(Clone, Copy, Debug)]
struct Point {
    /// In ns/s, until the next point.
    rate: f64,
    /// In ns.
    phase: f64,
}

impl Table {
    pub(crate) fn new(walk: Walk) -> Self {
        let mut rng = Rng::new(walk.seed);
        let mut here = Point { rate: 0.0, phase: 0.0 };
        let mut points = Vec::with_capacity(SECONDS);
        for _ in 0..SECONDS {
            points.push(here);
            here.phase += here.rate;
            here.rate += walk.ppm_per_s * 1e3 * rng.normal();
        }
        Self(points)
    }

    /// Its contribution to the time after `t` seconds, in ns; 0 before the start.
    pub(crate) fn phase(&self, t: f64) -> f64 {
        if t < 0.0 {
            return 0.0;
        }
        let second = (t as usize).min(SECONDS - 1);
        let Point { rate, phase } = self.0[second];
        phase + rate * (t - second as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_continuous_and_goes_as_far_as_it_should() {
        let far: Vec<f64> = (0..50)
            .map(|seed| {
                let table = Table::new(Walk { ppm_per_s: 0.001, seed });
                for second in 1..1000 {
                    let (before, at) = (table.phase(f64::from(second) - 1e-9), table.phase(f64::from(second)));
                    assert!((before - at).abs() < 1e-3, "{seed} {second}");
                }
                table.phase(1000.0)
            })
            .collect();
        let spread = (far.iter().map(|x| x * x).sum::<f64>() / far.len() as f64).sqrt();
        // 1 ns/s per sqrt(s), summed twice over 1000 s: sqrt(1000^3 / 3).
        assert!((0.7..1.4).contains(&(spread / 18_257.0)), "{spread}");
    }
}
