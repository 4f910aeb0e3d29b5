//! Reads the machine's Tickwire clock: the time within some nanoseconds and without a system call,
//! with a bound on its error.
//!
//! The clock daemon publishes the parameters of the clock in a page of shared memory
//! (`tickwire-clockpage`). A reader maps the page, reads the counter and computes the time.
//! Readers need only read permission for the page's file and never block. If the daemon dies, they
//! continue with a growing bound.
//!
//! ```no_run
//! let clock = tickclock::Clock::open_default()?;
//! let now = clock.now();
//! let (earliest, latest) = now.interval();
//! println!("{} ns since 1970, truly between {} and {}", now.utc().0, earliest.0, latest.0);
//! # Ok::<(), tickclock::OpenError>(())
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `counter` | the counters of this machine, and whether they can be trusted |
//! | `map` | the page's file, mapped: by readers, and by the one writer |
//! | `clock` | the API for programs |
//! | `boot` | the boot ID of the machine |
//! | `wait` | waits until an instant |
//! | `c` | the C API |
//! | `os` | what differs between operating systems |
//!
//! `unsafe` is in `counter` (instructions, I/O ports and mapped registers), `map`, `os` and `c`.

mod boot;
pub mod c;
mod clock;
pub mod counter;
mod map;
mod os;
mod wait;

pub use boot::boot_id;
pub use clock::{Clock, DEFAULT_PATH, OpenError, VARIABLE, default_path, service_path};
pub use map::{CreateError, Writer, foreign_owner};
pub use tickwire_clockpage::{Count, CounterKind, Leap, Nanos, PageFault, Parameters, Reading, Root, Scale, Status};
