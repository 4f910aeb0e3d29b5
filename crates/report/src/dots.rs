//! Values of many items, each against its own limit: a line for each item, a dot for each value,
//! logarithmic.

use crate::axis::Axis;
use crate::canvas::{Area, BAD, Error, INK, LINE, NOTHING, colour, drawn, mesh, text};
use crate::figure::{Figure, Sign, Size};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// The height of a line.
const LINE_HEIGHT: u32 = 24;
/// The height of the axis below.
const AXIS_HEIGHT: u32 = 54;
/// The most characters of a name.
const LONGEST_NAME: usize = 14;

/// A figure of lines.
#[derive(Clone, Debug)]
pub struct Dots {
    /// The horizontal axis, always logarithmic.
    pub x: Axis,
    /// How the values of a line are drawn, in their order.
    pub signs: Vec<Sign>,
    /// From top to bottom.
    pub lines: Vec<DotLine>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct DotLine {
    /// The label on its left; a long name is cut.
    pub name: String,
    /// The limit for its values.
    pub limit: f64,
    /// Its values.
    pub values: Vec<Dot>,
}

/// One value of a line.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// Its position; none if there is no value.
    pub value: Option<f64>,
    /// Marked as a failure: a cross on the value, or at the limit if it has no value.
    pub bad: bool,
}

impl Figure for Dots {
    fn svg(&self, size: Size) -> String {
        let axis = Axis { logarithmic: true, ..self.x.clone() };
        let values = self.lines.iter().flat_map(|line| {
            line.values.iter().filter_map(|dot| dot.value).chain([line.limit]).filter(|&value| axis.shows(value))
        });
        let Some(x) = axis.range(values) else { return NOTHING.to_owned() };
        let pixels = (size.pixels().0, LINE_HEIGHT * self.lines.len() as u32 + AXIS_HEIGHT);
        drawn(pixels, &self.x.label, |area| self.draw(area, size, &axis, x))
    }
}

impl Dots {
    fn draw(&self, area: &Area<'_>, size: Size, axis: &Axis, x: Range<f64>) -> Result<(), Error> {
        let names: Vec<String> = self.lines.iter().map(|line| line.name.chars().take(LONGEST_NAME).collect()).collect();
        let longest = names.iter().map(|name| name.chars().count() as u32).max().unwrap_or(0);
        let shown = |&value: &f64| axis.shows(value);
        let (left, right) = (x.start, x.end);
        let mut chart = ChartBuilder::on(area)
            .margin_right(16)
            .x_label_area_size(AXIS_HEIGHT - 8)
            .y_label_area_size(longest * 9 + 16)
            .build_cartesian_2d(x.log_scale(), -0.5..self.lines.len() as f64 - 0.5)?;
        mesh(&mut chart, size).disable_y_mesh().y_labels(0).x_desc(&axis.label).draw()?;
        let beside = text(size).pos(Pos::new(HPos::Right, VPos::Center));
        for (index, (line, name)) in self.lines.iter().zip(names).enumerate() {
            let y = (self.lines.len() - 1 - index) as f64;
            let plane = chart.plotting_area();
            plane.draw(&PathElement::new([(left, y), (right, y)], LINE))?;
            plane.draw(&(EmptyElement::at((left, y)) + Text::new(name, (-8, 0), beside.clone())))?;
            if shown(&line.limit) {
                let ends = [(line.limit, y - 0.34), (line.limit, y + 0.34)];
                plane.draw(&PathElement::new(ends, INK.stroke_width(3)))?;
            }
            for (&dot, &sign) in line.values.iter().zip(&self.signs) {
                let value = dot.value.filter(shown);
                match (value, sign) {
                    (Some(at), Sign::Ring(series)) => {
                        plane.draw(&Circle::new((at, y), 6, colour(series).stroke_width(2)))?;
                    }
                    (Some(at), Sign::Line(series) | Sign::Dot(series)) => {
                        plane.draw(&Circle::new((at, y), 5, colour(series).filled()))?;
                    }
                    (Some(at), Sign::Limit | Sign::Cross) => plane.draw(&Circle::new((at, y), 5, INK.filled()))?,
                    (None, _) => {}
                }
                let at = value.or(Some(line.limit).filter(shown));
                if let Some(at) = at.filter(|_| dot.bad) {
                    plane.draw(&Cross::new((at, y), 7, BAD.stroke_width(3)))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(values: Vec<Dot>) -> Dots {
        let line = DotLine { name: "<a long name of a line>".to_owned(), limit: 10.0, values };
        Dots { x: Axis::logarithmic("worst, ms"), signs: vec![Sign::Ring(0), Sign::Dot(1)], lines: vec![line] }
    }

    fn dot(value: Option<f64>, bad: bool) -> Dot {
        Dot { value, bad }
    }

    #[test]
    fn each_value_has_its_sign_and_each_line_its_limit() {
        let svg = dots(vec![dot(Some(0.5), false), dot(Some(0.1), false)]).svg(Size::Half);
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"worst, ms\" viewBox=\"0 0 420 78\""), "{svg}");
        assert!(svg.contains("&lt;a long name ") && !svg.contains("of a line"), "names are cut: {svg}");
        assert!(svg.contains("fill=\"none\" stroke=\"var(--s0)\"") && svg.contains("fill=\"var(--s1)\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("var(--bad)").count(), 0);
    }

    #[test]
    fn what_is_not_as_it_should_be_is_a_cross_even_if_nothing_came() {
        for (bad, circles) in [(dot(Some(12.0), true), 1), (dot(None, true), 0)] {
            let svg = dots(vec![bad, dot(None, false)]).svg(Size::Half);
            assert_eq!((svg.matches("var(--bad)").count(), svg.matches("<circle").count()), (2, circles), "{svg}");
        }
    }

    #[test]
    fn nothing_and_nonsense_are_no_figure() {
        assert_eq!(Dots { lines: Vec::new(), ..dots(Vec::new()) }.svg(Size::Half), NOTHING);
        let mut odd = dots(vec![dot(Some(f64::NAN), true), dot(Some(-1.0), false)]);
        odd.lines[0].limit = f64::INFINITY;
        assert_eq!(odd.svg(Size::Half), NOTHING);
    }
}
