//! Reports: one HTML file that needs nothing else, no network and no script; light or dark as the
//! reader has it, and printable.
//!
//! | module | purpose |
//! |---|---|
//! | `page` | the file: headings, verdict, paragraphs, tables, lists, parts that are opened on demand |
//! | `gallery` | figures on the page, alone or beside each other, and what their signs mean |
//! | `figure` | what figures have in common for who shows them: sizes, signs |
//! | `canvas` | what they are drawn on: the page's colours, axes and mesh |
//! | `axis` | axes |
//! | `bars` | histograms of differences |
//! | `plot` | lines over linear or logarithmic axes |
//! | `dots` | values of many things, each against its own limit |
//! | `command` | a command, to be typed again |
//! | `profile` | latency profiles of histograms |
//! | `machine` | on what machine figures were taken |
//!
//! Knows nothing of what is reported.
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
pub use page::{Page, Tone};
pub use plot::{Plot, Series};
pub use profile::profile;
