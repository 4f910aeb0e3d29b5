//! One clock from a counter and NTP exchanges, by feed-forward synchronisation after RADclock
//! (Veitch, Ridoux, Babu 2009; Ridoux and Veitch 2012).
//!
//! The crate does no I/O and makes no system calls.
//!
//! | module | purpose |
//! |---|---|
//! | `time`, `scale` | nanoseconds, counts, and the integer conversion between them |
//! | `exchange` | the timestamps and server state of one request and its reply |
//! | `sync` | one server: exchanges in, parameters of a clock out; no I/O, no clock |
//! | `ensemble` | several servers: selection, leap seconds; parameters of the page out |
//! | `page` | the clock in shared memory: publisher and readers |
#![forbid(unsafe_code)]

pub mod ensemble;
pub mod exchange;
pub mod page;
pub mod scale;
pub mod sync;
pub mod time;

pub use ensemble::Ensemble;
pub use exchange::{Exchange, ServerState};
pub use scale::Scale;
pub use time::{Count, Nanos};
