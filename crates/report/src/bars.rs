//! Histograms of differences: bars over a linear axis, dashed lines where it is marked.

use crate::axis::{Axis, tick};
use crate::canvas::{Area, Error, INK, NOTHING, colour, drawn, mesh};
use crate::figure::{Figure, Size};
use plotters::prelude::*;
use std::ops::Range;

/// Length of a dash, and from it to the next.
const DASH: (i32, i32) = (6, 4);

/// A histogram.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The horizontal axis, always linear.
    pub x: Axis,
    /// The vertical axis, always linear, from 0.
    pub y: Axis,
    /// What is drawn.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The left edge.
    pub from: f64,
    /// The right edge.
    pub to: f64,
    /// The height.
    pub height: f64,
}

impl Figure for Bars {
    fn svg(&self, size: Size) -> String {
        let axis = Axis { logarithmic: false, ..self.x.clone() };
        let sound = |bar: &&Bar| [bar.from, bar.to, bar.height].iter().all(|value| value.is_finite());
        let bars: Vec<Bar> = self.bars.iter().filter(sound).copied().collect();
        let x = axis.range(bars.iter().flat_map(|bar| [bar.from, bar.to]));
        let highest = bars.iter().map(|bar| bar.height).fold(0.0, f64::max);
        let Some(x) = x.filter(|_| highest > 0.0) else { return NOTHING.to_owned() };
        let y = 0.0..highest * 1.05;
        drawn(size.pixels(), &self.x.label, |area| self.draw(area, size, (x, y), &bars))
    }
}

impl Bars {
    fn draw(&self, area: &Area<'_>, size: Size, (x, y): (Range<f64>, Range<f64>), bars: &[Bar]) -> Result<(), Error> {
        let (top, length) = (y.end, x.end - x.start);
        let linear = Axis::linear("");
        let label = |value: &f64| tick(&linear, *value, length);
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(46)
            .y_label_area_size(82)
            .build_cartesian_2d(x, y)?;
        mesh(&mut chart, size)
            .disable_x_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&label)
            .draw()?;
        let bar = |bar: &Bar| Rectangle::new([(bar.from, 0.0), (bar.to, bar.height)], colour(0).filled());
        chart.draw_series(bars.iter().filter(|bar| bar.height > 0.0).map(bar))?;
        for &mark in &self.x.marks {
            let ends = [(mark, 0.0), (mark, top)];
            chart.draw_series(DashedLineSeries::new(ends, DASH.0, DASH.1, INK.stroke_width(1)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(heights: &[f64]) -> Bars {
        let bar = |(number, &height): (usize, &f64)| Bar { from: number as f64, to: number as f64 + 1.0, height };
        let x = Axis::linear("<us>").mark(0.2).mark(2.9);
        Bars { x, y: Axis::linear("how many"), bars: heights.iter().enumerate().map(bar).collect() }
    }

    #[test]
    fn each_bar_that_is_one_is_drawn_and_marks_are_dashed() {
        let svg = bars(&[3.0, 0.0, 12.0]).svg(Size::Wide);
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"&lt;us&gt;\""), "{svg}");
        assert_eq!(svg.matches("fill=\"var(--s0)\"").count(), 2, "{svg}");
        let plain = Bars { x: Axis::linear("us"), ..bars(&[3.0, 0.0, 12.0]) }.svg(Size::Wide);
        let lines = |svg: &str| svg.matches("<polyline").count();
        assert!(lines(&svg) > lines(&plain) + 20, "two lines of many dashes each");
        assert!(svg.contains("how many") && !svg.contains("#C800") && !svg.contains("#0102"), "{svg}");
    }

    #[test]
    fn an_axis_across_0_says_0() {
        let bar = |from: f64| Bar { from, to: from + 0.1, height: 1.0 };
        let bars = Bars { x: Axis::linear("us"), y: Axis::linear(""), bars: vec![bar(-0.4), bar(0.37)] };
        let svg = bars.svg(Size::Half);
        assert!(svg.contains("\n-0.4\n</text>") && svg.contains("\n0\n</text>"), "{svg}");
        assert!(!svg.contains("e-1"), "{svg}");
    }

    #[test]
    fn nothing_and_nonsense_are_no_figure() {
        assert_eq!(bars(&[]).svg(Size::Wide), NOTHING);
        assert_eq!(bars(&[0.0, f64::NAN]).svg(Size::Half), NOTHING);
        assert!(bars(&[f64::NAN, 1.0]).svg(Size::Half).contains("<svg"));
    }
}
