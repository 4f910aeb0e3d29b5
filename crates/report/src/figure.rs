//! What figures have in common for who shows them: sizes, and signs with their meaning.

use crate::canvas::COLOURS;

/// Something that can be drawn.
pub trait Figure {
    /// The figure as SVG; a word instead if there is nothing to draw.
    fn svg(&self, size: Size) -> String;

    /// What its signs mean, where it knows; nothing if there is only one.
    fn legend(&self) -> Vec<(Sign, &str)> {
        Vec::new()
    }
}

/// How much room a figure has. Text is of the same height in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A line of its own.
    Wide,
    /// Two beside each other, where the screen has room for two.
    Half,
    /// Three.
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

    /// The height of text. What is drawn is smaller than this by a fifth, as the library scales it.
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

/// How a value is drawn; a series is told by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A line.
    Line(usize),
    /// A circle that is empty.
    Ring(usize),
    /// A circle that is full.
    Dot(usize),
    /// A limit.
    Limit,
    /// A value that is not as it should be.
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
