//! Figures: lines over linear or logarithmic axes, as SVG in the page's own colours.

use crate::page::escape;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// Width and height; the page scales it.
const SIZE: (u32, u32) = (840, 420);
/// Colours that stand for the page's: replaced by its variables, so that light and dark take effect.
const INK: RGBColor = RGBColor(1, 2, 3);
const LINE: RGBColor = RGBColor(1, 2, 4);
const SERIES: u8 = 200;
/// How many colours `page.css` has for series.
const COLOURS: usize = 8;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What, and in which unit.
    pub label: String,
    /// Logarithmic: values at or below 0 are not shown.
    pub logarithmic: bool,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: false }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn logarithmic(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: true }
    }
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Along.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

impl Plot {
    /// The figure as SVG; a word instead if there is nothing to draw.
    #[must_use]
    pub fn svg(&self) -> String {
        let shown = |&(x, y): &(f64, f64)| {
            x.is_finite() && y.is_finite() && (x > 0.0 || !self.x.logarithmic) && (y > 0.0 || !self.y.logarithmic)
        };
        let series: Vec<Series> = self
            .series
            .iter()
            .map(|s| Series { name: s.name.clone(), points: s.points.iter().copied().filter(shown).collect() })
            .filter(|s| !s.points.is_empty())
            .collect();
        let points = || series.iter().flat_map(|s| s.points.iter().copied());
        let (Some(x), Some(y)) = (span(points().map(|p| p.0), &self.x), span(points().map(|p| p.1), &self.y)) else {
            return "<p>Nothing was measured.</p>".to_owned();
        };
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let drawn = match (self.x.logarithmic, self.y.logarithmic) {
            (false, false) => self.draw(&area, x, y, &series),
            (true, false) => self.draw(&area, x.log_scale(), y, &series),
            (false, true) => self.draw(&area, x, y.log_scale(), &series),
            (true, true) => self.draw(&area, x.log_scale(), y.log_scale(), &series),
        };
        drawn.and_then(|()| area.present()).expect("a string takes what is drawn");
        drop(area);
        in_page_colours(&svg, &self.y.label)
    }

    fn draw<'a, X, Y>(
        &self,
        area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
        x: X,
        y: Y,
        series: &[Series],
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let text = ("sans-serif", 14).into_font().color(&INK);
        let mut chart =
            ChartBuilder::on(area).margin(8).x_label_area_size(44).y_label_area_size(72).build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .axis_style(INK)
            .bold_line_style(LINE)
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&|&value| number(value))
            .y_label_formatter(&|&value| number(value))
            .draw()?;
        for (index, one) in series.iter().enumerate() {
            let colour = RGBColor(SERIES, 0, (index % COLOURS) as u8);
            chart
                .draw_series(LineSeries::new(one.points.iter().copied(), colour.stroke_width(2)))?
                .label(&one.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
        }
        if series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .label_font(text)
                .border_style(TRANSPARENT)
                .draw()?;
        }
        Ok(())
    }
}

/// The smallest and the largest value, a little apart.
fn span(values: impl Iterator<Item = f64>, axis: &Axis) -> Option<std::ops::Range<f64>> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return None;
    }
    Some(if axis.logarithmic {
        low / 1.2..high * 1.2
    } else {
        let margin = ((high - low) * 0.05).max(high.abs() * 1e-6).max(1e-12);
        low - margin..high + margin
    })
}

/// A number on an axis, as short as it can be.
fn number(value: f64) -> String {
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

/// Colours of the page instead of those that were drawn with, and a name for who cannot see it.
fn in_page_colours(svg: &str, name: &str) -> String {
    let mut svg = svg.replace("#010203", "var(--ink)").replace("#010204", "var(--line)");
    for index in 0..COLOURS {
        svg = svg.replace(&format!("#{SERIES:02X}00{index:02X}"), &format!("var(--s{index})"));
    }
    let size = format!("width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1);
    svg.replacen(&size, &format!("role=\"img\" aria-label=\"{}\"", escape(name)), 1)
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
        let svg = plot(vec![(0.1, 1e-6), (1.0, 1e-7), (10.0, 3e-8)]).svg();
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"deviation\" viewBox="), "{}", &svg[..200]);
        for part in ["var(--ink)", "var(--line)", "var(--s0)", "var(--s1)", "time, s", "&lt;first&gt;", "second"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(!svg.contains("#C800"), "a colour was not replaced");
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let svg = plot(vec![(0.0, 1.0), (1.0, f64::NAN), (-1.0, 2.0)]).svg();
        assert_eq!(svg, "<p>Nothing was measured.</p>");
        assert!(plot(vec![(0.0, 1.0), (1.0, 1.0)]).svg().contains("<svg"), "one point is enough");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.01, 250.0, 1e-7, 2.5].map(number), ["0", "0.01", "250", "1e-7", "2.5"]);
    }
}
