//! What all figures have in common: sizes, and signs with their meaning.

/// How many colours `page.css` has for series.
pub(crate) const COLOURS: usize = 8;

/// Something that can be drawn.
pub trait Figure {
    /// The figure as SVG; a sentence instead if there is nothing to draw.
    fn svg(&self, size: Size) -> String;

    /// The legend of its signs, where it knows one; empty if there is only one sign.
    fn legend(&self) -> Vec<(Sign, &str)> {
        Vec::new()
    }
}

/// The size of a figure. Text has the same height in all sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The whole width.
    Wide,
    /// Two side by side, where the screen has room for two.
    Half,
    /// Three side by side.
    Third,
}

impl Size {
    /// Width and height; the page scales it.
    pub(crate) const fn pixels(self) -> (u32, u32) {
        match self {
            Self::Wide => (840, 420),
            Self::Half => (420, 300),
            Self::Third => (300, 200),
        }
    }

    /// The height of text. The library scales it, so the drawn text is smaller by a fifth.
    pub(crate) const fn text(self) -> u32 {
        match self {
            Self::Wide => 18,
            Self::Half | Self::Third => 17,
        }
    }

    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Half => "half",
            Self::Third => "third",
        }
    }
}

/// How a value is drawn; the number identifies the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A line.
    Line(usize),
    /// An empty circle.
    Ring(usize),
    /// A filled circle.
    Dot(usize),
    /// A limit.
    Limit,
    /// A value that is a failure.
    Cross,
}

impl Sign {
    /// The class that gives it its colour.
    pub(crate) fn class(self) -> String {
        match self {
            Self::Line(series) | Self::Ring(series) | Self::Dot(series) => format!("s{}", series % COLOURS),
            Self::Limit => "ink".to_owned(),
            Self::Cross => "bad".to_owned(),
        }
    }

    /// A character that looks like it.
    pub(crate) const fn character(self) -> char {
        match self {
            Self::Line(_) => '\u{2501}',
            Self::Ring(_) => '\u{25CB}',
            Self::Dot(_) => '\u{25CF}',
            Self::Limit => '\u{2503}',
            Self::Cross => '\u{2715}',
        }
    }
}
