//! Reports: one HTML file that needs nothing else, no network and no script; light or dark as the reader has it, and printable.
//!
//! | module | purpose |
//! |---|---|
//! | `page` | the file: headings, verdict, paragraphs, tables, figures |
//! | `plot` | figures: lines over linear or logarithmic axes, as SVG |
//! | `machine` | on what machine figures were taken |
//!
//! Knows nothing of what is reported.
#![forbid(unsafe_code)]

mod machine;
mod page;
mod plot;

pub use machine::machine;
pub use page::{Page, Tone};
pub use plot::{Axis, Plot, Series};
