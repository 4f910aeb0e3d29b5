//! Figures on the page, alone or side by side, with their legends.

use crate::page::escape;
use crate::{Figure, ReportPage, Sign, Size};

impl ReportPage {
    /// A figure of the page's width, with its legend above and its caption below. The page has it
    /// twice: a phone shows the variant for half of the width, because the text of the wide one
    /// would be too small.
    pub fn figure(&mut self, figure: &impl Figure, caption: &str) {
        self.legend(&figure.legend());
        let drawn = [(Size::Wide, "broad"), (Size::Half, "narrow")]
            .map(|(size, class)| format!("<div class=\"{class}\">{}</div>", figure.svg(size)));
        self.push(&framed(&drawn.join("\n"), caption));
    }

    /// Figures side by side, as many as the screen has room for, each with its caption.
    pub fn figures<F: Figure>(&mut self, size: Size, figures: impl IntoIterator<Item = (F, String)>) {
        let figures: String =
            figures.into_iter().map(|(figure, caption)| framed(&figure.svg(size), &caption)).collect();
        self.push(&format!("<div class=\"figures {}\">\n{figures}</div>\n", size.class()));
    }

    /// The legend of the figures that follow.
    pub fn legend(&mut self, signs: &[(Sign, &str)]) {
        if signs.is_empty() {
            return;
        }
        let one = |(sign, meaning): &(Sign, &str)| {
            format!("<li><span class=\"{}\">{}</span> {}</li>", sign.class(), sign.character(), escape(meaning))
        };
        let signs: String = signs.iter().map(one).collect();
        self.push(&format!("<ul class=\"legend\">{signs}</ul>\n"));
    }
}

fn framed(svg: &str, caption: &str) -> String {
    format!("<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>\n", escape(caption))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Plot, Series};

    #[test]
    fn figures_stand_beside_each_other_below_their_legend() {
        let plot = |name: &str| Plot {
            x: Axis::linear(""),
            y: Axis::linear(""),
            series: vec![Series { name: name.to_owned(), points: vec![(0.0, 1.0), (1.0, 2.0)] }],
        };
        let mut page = ReportPage::new("page");
        page.legend(&[(Sign::Line(9), "a < b"), (Sign::Cross, "missed")]);
        page.figures(Size::Third, [(plot("one"), "first & only".to_owned()), (plot("two"), String::new())]);
        let mut wide = plot("<three>");
        wide.series.push(wide.series[0].clone());
        page.figure(&wide, "the last");
        let html = page.finish();
        assert_eq!(html.matches("</span> &lt;three&gt;</li>").count(), 2, "a wide one tells what it knows");
        assert!(html.contains("<li><span class=\"s1\">\u{2501}</span> a &lt; b</li><li><span class=\"bad\">"));
        assert_eq!(html.matches("<svg role=\"img\" aria-label=").count(), 4, "the wide one for two widths");
        assert_eq!((html.matches("class=\"broad\"").count(), html.matches("class=\"narrow\"").count()), (1, 1));
        assert!(html.contains("aria-label=\"two\"") && html.contains("<figcaption>first &amp; only</figcaption>"));
    }
}
