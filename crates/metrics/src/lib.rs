//! Figures for Prometheus: the text format, and an HTTP responder that serves it.
//!
//! | module | purpose |
//! |---|---|
//! | `exposition` | the text format: families of samples with help, type and labels |
//! | `responder` | the HTTP responder: it never blocks, and limits what clients can take from it |
//! | `os` | how its owner waits for its sockets: what differs between operating systems |
//!
//! It uses the standard library only, and does not depend on what the figures are.
#![forbid(unsafe_code)]

mod exposition;
mod os;
mod responder;

pub use exposition::{Exposition, Labels, MetricKind};
pub use os::BorrowedSocket;
pub use responder::Responder;
