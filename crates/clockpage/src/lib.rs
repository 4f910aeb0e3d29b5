//! The page by which a machine's programs share one clock, and the units that it is written in.
//!
//! The page's readers (`tickclock`) and the estimator whose results it publishes
//! (`tickwire-clock`) both use this crate, and it uses neither. It does no I/O, makes no system
//! call and depends on no other crate of ours: any memory of atomic words can hold a page.
//!
//! | module | purpose |
//! |---|---|
//! | `time`, `scale` | nanoseconds, counts, and the integer conversion between them |
//! | `double` | the protocol: two buffers and a sequence number |
//! | `parameters` | the state of the clock, as words |
//! | `reading` | converts a counter value to the time, its error and its bound |
//! | `page` | the clock in shared memory: publisher and readers |
#![forbid(unsafe_code)]

pub mod double;
mod page;
mod parameters;
mod reading;
mod scale;
mod time;

pub use page::{CounterKind, MAGIC, Page, PageFault, SIZE, VERSION, WORDS};
pub use parameters::{Leap, Parameters, Root, Status};
pub use reading::Reading;
pub use scale::Scale;
pub use time::{Count, Nanos};
