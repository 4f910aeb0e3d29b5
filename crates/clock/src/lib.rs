//! One clock from a counter and NTP exchanges: feed-forward synchronisation after RADclock (Veitch,
//! Ridoux, Babu 2009; Ridoux and Veitch 2012).
//!
//! It knows nothing of the network, nor of an operating system.
//!
//! | module | purpose |
//! |---|---|
//! | `time`, `scale` | nanoseconds, counts, and the way between them in whole numbers |
//! | `exchange` | what one request and its answer tell |
//! | `sync` | one server: exchanges in, parameters of a clock out; no I/O, no clock |
//! | `keeper` | several servers: which agree, which is followed, leap seconds; parameters of the page out |
//! | `page` | the clock in shared memory: how it is published and read
#![forbid(unsafe_code)]

pub mod exchange;
pub mod keeper;
pub mod page;
pub mod scale;
pub mod sync;
pub mod time;

pub use exchange::{Exchange, ServerState};
pub use keeper::Keeper;
pub use scale::Scale;
pub use time::{Count, Nanos};
