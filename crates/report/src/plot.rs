//! Lines over linear or logarithmic axes.

use crate::axis::{Axis, tick};
use crate::canvas::{Area, Error, INK, NOTHING, colour, drawn, mesh};
use crate::figure::{Figure, Sign, Size};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order in which the line joins them.
    pub points: Vec<(f64, f64)>,
}

/// A figure. A series has the colour of its index, also if others have no points.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

impl Figure for Plot {
    fn svg(&self, size: Size) -> String {
        let shown = |&(x, y): &(f64, f64)| self.x.shows(x) && self.y.shows(y);
        let lines: Vec<Vec<(f64, f64)>> =
            self.series.iter().map(|one| one.points.iter().copied().filter(shown).collect()).collect();
        let points = || lines.iter().flatten();
        let (Some(x), Some(y)) = (self.x.range(points().map(|p| p.0)), self.y.range(points().map(|p| p.1))) else {
            return NOTHING.to_owned();
        };
        let names: Vec<&str> = self.series.iter().map(|one| one.name.as_str()).collect();
        let name = if self.y.label.is_empty() { names.join(", ") } else { self.y.label.clone() };
        let spans = (x.clone(), y.clone());
        drawn(size.pixels(), &name, |area| match (self.x.logarithmic, self.y.logarithmic) {
            (false, false) => self.draw(area, size, (x, y), spans, &lines),
            (true, false) => self.draw(area, size, (x.log_scale(), y), spans, &lines),
            (false, true) => self.draw(area, size, (x, y.log_scale()), spans, &lines),
            (true, true) => self.draw(area, size, (x.log_scale(), y.log_scale()), spans, &lines),
        })
    }

    fn legend(&self) -> Vec<(Sign, &str)> {
        let drawn = self.series.iter().enumerate().filter(|(_, one)| !one.points.is_empty());
        let signs: Vec<_> = drawn.map(|(index, one)| (Sign::Line(index), one.name.as_str())).collect();
        if signs.len() > 1 { signs } else { Vec::new() }
    }
}

impl Plot {
    fn draw<X, Y>(
        &self,
        area: &Area<'_>,
        size: Size,
        (x, y): (X, Y),
        (x_span, y_span): (Range<f64>, Range<f64>),
        lines: &[Vec<(f64, f64)>],
    ) -> Result<(), Error>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let beside = |axis: &Axis, alone: u32| if axis.label.is_empty() { alone } else { alone + 22 };
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(beside(&self.x, 24))
            .y_label_area_size(beside(&self.y, 52))
            .build_cartesian_2d(x, y)?;
        let labels = if size == Size::Wide { 10 } else { 6 };
        let label = |value: &f64| tick(&self.x, *value, x_span.end - x_span.start);
        mesh(&mut chart, size)
            .y_labels(labels)
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&label)
            .draw()?;
        let across = |value: f64| [(value, y_span.start), (value, y_span.end)];
        let along = |value: f64| [(x_span.start, value), (x_span.end, value)];
        let marks = self.x.marks.iter().copied().map(across).chain(self.y.marks.iter().copied().map(along));
        chart.draw_series(marks.map(|ends| PathElement::new(ends, INK.stroke_width(1))))?;
        for (index, points) in lines.iter().enumerate().filter(|(_, points)| !points.is_empty()) {
            chart.draw_series(LineSeries::new(points.iter().copied(), colour(index).stroke_width(2)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let series = vec![
            Series { name: "<first>".to_owned(), points: points.clone() },
            Series { name: "second".to_owned(), points },
        ];
        Plot { x: Axis::logarithmic("time, s"), y: Axis::logarithmic("deviation"), series }
    }

    #[test]
    fn a_plot_has_axes_lines_and_the_pages_colours() {
        let svg = plot(vec![(0.1, 1e-6), (1.0, 1e-7), (10.0, 3e-8)]).svg(Size::Wide);
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"deviation\" viewBox="), "{}", &svg[..200]);
        for part in ["var(--ink)", "var(--line)", "var(--s0)", "var(--s1)", "time, s"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(!svg.contains("#C800") && !svg.contains("#0102"), "a colour was not replaced");
    }

    #[test]
    fn labels_of_two_decades_do_not_stand_upon_each_other() {
        let svg = plot(vec![(1.9, 1.0), (98.0, 0.01)]).svg(Size::Wide);
        let labelled = |label: &str| svg.contains(&format!("\n{label}\n</text>"));
        assert!(labelled("10") && labelled("20") && labelled("50") && labelled("100"), "{svg}");
        assert!(!["30", "40", "60", "70", "80", "90"].iter().any(|label| labelled(label)), "{svg}");
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let svg = plot(vec![(0.0, 1.0), (1.0, f64::NAN), (-1.0, 2.0)]).svg(Size::Wide);
        assert_eq!(svg, NOTHING);
        assert!(plot(vec![(0.0, 1.0), (1.0, 1.0)]).svg(Size::Wide).contains("<svg"), "one point is enough");
    }

    #[test]
    fn a_series_keeps_its_colour_where_another_has_nothing_and_a_limit_is_drawn() {
        let mut plot = plot(vec![(1.0, 1.0), (2.0, 0.1)]);
        let without = plot.svg(Size::Half);
        assert_eq!(plot.legend(), [(Sign::Line(0), "<first>"), (Sign::Line(1), "second")]);
        plot.series[0].points.clear();
        plot.x = plot.x.mark(1.5);
        let svg = plot.svg(Size::Half);
        assert!(plot.legend().is_empty(), "one needs none");
        assert!(svg.contains("var(--s1)") && !svg.contains("var(--s0)"), "{svg}");
        let lines = |svg: &str| svg.matches("stroke=\"var(--ink)\"").count();
        assert_eq!(lines(&svg), lines(&without) + 1);
    }
}
