//! Reports: one self-contained HTML file, without network access or scripts, in light or dark mode
//! as the reader prefers, and printable.
//!
//! | module | purpose |
//! |---|---|
//! | `page` | the file: headings, verdict, paragraphs, tables, lists, parts opened on demand |
//! | `gallery` | figures on the page, alone or side by side, with their legends |
//! | `figure` | what all figures have in common: sizes, signs |
//! | `canvas` | the canvas of figures: the page's colours, axes and mesh |
//! | `axis` | axes |
//! | `bars` | histograms of differences |
//! | `plot` | lines over linear or logarithmic axes |
//! | `dots` | values of many items, each against its own limit |
//! | `command` | a command, to be typed again |
//! | `profile` | latency profiles of histograms |
//! | `machine` | the machine that the figures are from |
//!
//! It does not depend on what is reported.
#![forbid(unsafe_code)]

mod axis;
mod bars;
mod canvas;
mod command;
mod dots;
mod figure;
mod gallery;
mod machine;
mod page;
mod plot;
mod profile;

pub use axis::Axis;
pub use bars::{Bar, Bars};
pub use dots::{Dot, DotLine, Dots};
pub use figure::{Figure, Sign, Size};
pub use machine::machine;
pub use page::{ReportPage, Tone};
pub use plot::{Plot, Series};
pub use profile::profile;
