//! Figures for Prometheus: the text format, and an HTTP responder that serves it.
//!
//! | module | purpose |
//! |---|---|
//! | `exposition` | the text format: families of samples with help, type and labels |
//! | `responder` | the HTTP responder: it never blocks, and limits what clients can take from it |
//!
//! It uses the standard library only, and does not depend on what the figures are.
#![forbid(unsafe_code)]

mod exposition;
mod responder;

pub use exposition::{Exposition, Labels, MetricKind};
pub use responder::Responder;
