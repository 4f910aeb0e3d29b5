//! One clock from a counter and NTP exchanges, by feed-forward synchronisation after RADclock
//! (Veitch, Ridoux, Babu 2009; Ridoux and Veitch 2012).
//!
//! The crate does no I/O and makes no system calls. Its results are the parameters of the page
//! (`tickwire-clockpage`), which programs read without it.
//!
//! | module | purpose |
//! |---|---|
//! | `exchange` | the timestamps and server state of one request and its reply |
//! | `sync` | one server: exchanges in, parameters of a clock out; no I/O, no clock |
//! | `ensemble` | several servers: selection, leap seconds; parameters of the page out |
#![forbid(unsafe_code)]

pub mod ensemble;
pub mod exchange;
pub mod sync;

pub use ensemble::Ensemble;
pub use exchange::{Exchange, ServerState};
