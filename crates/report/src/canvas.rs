//! What figures are drawn on: an image in the page's own colours, with axes and a mesh that look
//! the same in all.

use crate::axis::number;
use crate::figure::Size;
use crate::page::escape;
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

/// What stands where there is nothing to draw.
pub(crate) const NOTHING: &str = "<p>Nothing was measured.</p>";
/// Colours that stand for the page's: replaced by its variables, so that light and dark take
/// effect.
pub(crate) const INK: RGBColor = RGBColor(1, 2, 3);
pub(crate) const LINE: RGBColor = RGBColor(1, 2, 4);
pub(crate) const BAD: RGBColor = RGBColor(1, 2, 5);
const SERIES: u8 = 200;
/// How many colours `page.css` has for series.
pub(crate) const COLOURS: usize = 8;

/// The colour of a series; those beyond the last begin again.
pub(crate) const fn colour(series: usize) -> RGBColor {
    RGBColor(SERIES, 0, (series % COLOURS) as u8)
}

/// What is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Why something cannot be drawn: a string takes all that can.
pub(crate) type Error = DrawingAreaErrorKind<std::io::Error>;

/// What is drawn, as SVG in the colours of the page, with a name for who cannot see it.
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

/// Axes and mesh as they are in all figures. What is one figure's own is added before they are
/// drawn.
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

/// Colours of the page instead of those that were drawn with, and a name for who cannot see it.
fn in_page_colours(svg: &str, (width, height): (u32, u32), name: &str) -> String {
    // Opaque is what everything is that says nothing.
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
