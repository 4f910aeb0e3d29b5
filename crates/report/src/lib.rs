//! Reports: one HTML file that needs nothing else, no network and no script; light or dark as the reader has it, and printable.
//!
//! | module | purpose |
//! |---|---|
//! | `page` | the file: headings, verdict, paragraphs, tables, figures |
//! | `plot` | figures: lines over linear or logarithmic axes, as SVG |
//!
//! Knows nothing of what is reported.
#![forbid(unsafe_code)]

mod page;
mod plot;

pub use page::{Page, Tone};
pub use plot::{Axis, Plot, Series};
