//! The canvas of all figures: an image in the page's own colours, with uniform axes and mesh.

use crate::axis::number;
use crate::figure::{COLOURS, Size};
use crate::page::escape;
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

/// Shown instead of a figure that has no values.
pub(crate) const NOTHING: &str = "<p>Nothing was measured.</p>";
/// Placeholder colours, which the page's CSS variables replace, so that light and dark mode take
/// effect.
pub(crate) const INK: RGBColor = RGBColor(1, 2, 3);
pub(crate) const LINE: RGBColor = RGBColor(1, 2, 4);
pub(crate) const BAD: RGBColor = RGBColor(1, 2, 5);
const SERIES: u8 = 200;

/// The colour of a series; beyond the last colour they repeat.
pub(crate) const fn colour(series: usize) -> RGBColor {
    RGBColor(SERIES, 0, (series % COLOURS) as u8)
}

/// What is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// A drawing error. None occurs: drawing into a string does not fail.
pub(crate) type Error = DrawingAreaErrorKind<std::io::Error>;

/// The drawing as SVG in the colours of the page, with a name for screen readers.
pub(crate) fn drawn(pixels: (u32, u32), name: &str, draw: impl FnOnce(&Area<'_>) -> Result<(), Error>) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, pixels).into_drawing_area();
    draw(&area).and_then(|()| area.present()).expect("a string takes what is drawn");
    drop(area);
    in_page_colours(&svg, pixels, name)
}

/// How text looks.
pub(crate) fn text(size: Size) -> TextStyle<'static> {
    ("sans-serif", size.text()).into_font().color(&INK)
}

/// The axes and mesh of all figures. The caller adds the settings of its figure and draws them.
pub(crate) fn mesh<'a, 'b, 'c, X, Y>(
    chart: &'b mut ChartContext<'a, SVGBackend<'c>, Cartesian2d<X, Y>>,
    size: Size,
) -> MeshStyle<'a, 'b, X, Y, SVGBackend<'c>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(if size == Size::Wide { 10 } else { 5 })
        .label_style(text(size))
        .axis_desc_style(text(size))
        .axis_style(INK)
        .bold_line_style(LINE)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|&value| number(value))
        .y_label_formatter(&|&value| number(value));
    mesh
}

/// Replaces the drawing's colours by those of the page, and adds a name for screen readers.
fn in_page_colours(svg: &str, (width, height): (u32, u32), name: &str) -> String {
    // Elements are opaque by default, so the attribute is redundant.
    let mut svg = svg.replace(" opacity=\"1\"", "");
    for (drawn, variable) in [(INK, "ink"), (LINE, "line"), (BAD, "bad")] {
        svg = svg.replace(&hex(drawn), &format!("var(--{variable})"));
    }
    for series in 0..COLOURS {
        svg = svg.replace(&hex(colour(series)), &format!("var(--s{series})"));
    }
    let size = format!("width=\"{width}\" height=\"{height}\"");
    svg.replacen(&size, &format!("role=\"img\" aria-label=\"{}\"", escape(name)), 1)
}

fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
