//! Axes of figures.

use std::ops::Range;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity and its unit. Empty if the caption names them.
    pub label: String,
    /// Logarithmic: values at or below 0 are not shown.
    pub logarithmic: bool,
    /// Fixed limits; without them the axis follows the values.
    pub(crate) span: Option<(f64, f64)>,
    /// Positions of lines across the figure.
    pub(crate) marks: Vec<f64>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: false, span: None, marks: Vec::new() }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn logarithmic(label: &str) -> Self {
        Self { logarithmic: true, ..Self::linear(label) }
    }

    /// Sets fixed limits, so that several figures can be compared at a glance. Limits that the axis
    /// cannot show (an empty range, or values not above 0 on a logarithmic axis) are ignored.
    #[must_use]
    pub fn within(mut self, (low, high): (f64, f64)) -> Self {
        self.span = (low < high && self.shows(low) && self.shows(high)).then_some((low, high));
        self
    }

    /// Adds a line across the figure at this value, for a limit.
    #[must_use]
    pub fn mark(mut self, value: f64) -> Self {
        if self.shows(value) {
            self.marks.push(value);
        }
        self
    }

    /// Whether it can show this value.
    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || !self.logarithmic)
    }

    /// The range that shows these values, each of which the axis can show, and its marks; none
    /// without values.
    pub(crate) fn range(&self, values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
        let wider = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let nothing = (f64::INFINITY, f64::NEG_INFINITY);
        let span = values.fold(nothing, wider);
        if span == nothing {
            return None;
        }
        if let Some((low, high)) = self.span {
            return Some(low..high);
        }
        let (low, high) = self.marks.iter().copied().fold(span, wider);
        Some(if self.logarithmic {
            low / 1.2..high * 1.2
        } else {
            let margin = ((high - low) * 0.05).max(high.abs() * 1e-6).max(1e-12);
            low - margin..high + margin
        })
    }
}

/// A number on an axis, as short as it can be.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if (1e-3..1e6).contains(&size) {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:e}")
    }
}

/// The label at a tick of an axis of this length.
pub(crate) fn tick(axis: &Axis, value: f64, length: f64) -> String {
    if axis.logarithmic {
        // Label only 1, 2, 5 and 10 of a decade: more have no room.
        let digit = value / 10_f64.powf(value.log10().floor());
        if [1.0, 2.0, 5.0, 10.0].iter().any(|shown| (digit - shown).abs() < 1e-6) {
            number(value)
        } else {
            String::new()
        }
    } else {
        // Adding up steps misses 0 by a rounding error.
        number(if value.abs() < length * 1e-9 { 0.0 } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_goes_as_far_as_it_was_told_or_as_its_values_and_marks_do() {
        let range = |axis: Axis| axis.range([2.0, 4.0].into_iter()).unwrap();
        assert_eq!(range(Axis::logarithmic("").within((1.0, 10.0))), 1.0..10.0);
        assert_eq!(range(Axis::logarithmic("").within((0.0, 10.0))), 2.0 / 1.2..4.0 * 1.2, "no 0 on this one");
        assert_eq!(range(Axis::logarithmic("").mark(6.0)).end, 6.0 * 1.2);
        assert_eq!(range(Axis::linear("").within((4.0, f64::NAN))), 1.9..4.1);
        assert_eq!(Axis::linear("").within((1.0, 2.0)).range([].into_iter()), None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.01, 250.0, 1e-7, 2.5].map(number), ["0", "0.01", "250", "1e-7", "2.5"]);
    }

    #[test]
    fn ticks_are_told_where_they_can_be_read() {
        let linear = |value| tick(&Axis::linear(""), value, 0.9);
        assert_eq!([-5.55e-17, -0.2, 1e-7].map(linear), ["0", "-0.2", "1e-7"]);
        let logarithmic = |value| tick(&Axis::logarithmic(""), value, 100.0);
        assert_eq!([0.1, 0.2, 0.3, 5.0, 70.0, 1e-4, 1e6].map(logarithmic), ["0.1", "0.2", "", "5", "", "1e-4", "1e6"]);
    }
}
