//! The Allan deviation: how much the mean rate differs between successive spans, for spans of many
//! lengths.

use serde::Serialize;

/// The Allan deviation over one span.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Deviation {
    /// In seconds.
    pub span_s: f64,
    /// Relative deviation of the rate.
    pub deviation: f64,
}

/// The overlapping Allan deviation of `phase`, the time errors in ns at intervals of `interval`
/// seconds. Spans double from `interval` on, up to a third of the whole (NIST SP 1065, equation
/// 11).
#[must_use]
pub(crate) fn deviation(phase: &[f64], interval: f64) -> Vec<Deviation> {
    let mut result = Vec::new();
    let mut step = 1;
    while 3 * step < phase.len() {
        let count = phase.len() - 2 * step;
        let sum: f64 = (0..count)
            .map(|i| (phase[i + 2 * step] - 2.0 * phase[i + step] + phase[i]) * 1e-9)
            .map(|second_difference| second_difference * second_difference)
            .sum();
        let span_s = step as f64 * interval;
        result.push(Deviation { span_s, deviation: (sum / (2.0 * count as f64)).sqrt() / span_s });
        step *= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_sim::Rng;

    #[test]
    fn a_wrong_but_even_rate_does_not_deviate() {
        let phase: Vec<f64> = (0..1000).map(|i| 7.0 + 50.0 * f64::from(i)).collect();
        assert!(deviation(&phase, 1.0).iter().all(|one| one.deviation < 1e-15));
    }

    #[test]
    fn a_drift_grows_with_the_span() {
        // x = D t^2 / 2 has the deviation D tau / sqrt 2 (SP 1065, section 5.2).
        let phase: Vec<f64> = (0..1000).map(|i| 0.5 * f64::from(i) * f64::from(i)).collect();
        for Deviation { span_s: span, deviation: d } in deviation(&phase, 1.0) {
            let expected = 1e-9 * span / 2_f64.sqrt();
            assert!((d / expected - 1.0).abs() < 1e-6, "{span} s: {d} for {expected}");
        }
    }

    #[test]
    fn white_noise_of_readings_falls_with_the_span() {
        // White phase noise of deviation s: sqrt 3 s / tau.
        let mut rng = Rng::new(1);
        let phase: Vec<f64> = (0..100_000).map(|_| rng.normal() * 10.0).collect();
        for Deviation { span_s: span, deviation: d } in deviation(&phase, 0.01).into_iter().take(8) {
            let expected = 3_f64.sqrt() * 10e-9 / span;
            assert!((d / expected - 1.0).abs() < 0.05, "{span} s: {d} for {expected}");
        }
    }
}
