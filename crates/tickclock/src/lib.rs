//! Reads the machine's Tickwire clock: the time in some nanoseconds and without a system call, with
//! a bound that says how wrong it can be.
//!
//! The clock daemon publishes what the clock is in a page of shared memory
//! (`tickwire_clock::page`); a reader maps it, reads the counter, and reckons. Readers need no
//! rights but to read the page's file, never wait, and go on when the daemon has died, with a bound
//! that grows.
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
//! | `clock` | what a program calls |
//! | `boot` | which start of the machine this is |
//! | `wait` | waiting until an instant |
//! | `c` | the same for C |
//!
//! `unsafe` is in `counter` (the instructions that read it), `map` and `c`.

mod boot;
pub mod c;
mod clock;
pub mod counter;
mod map;
mod wait;

pub use boot::boot_id;
pub use clock::{Clock, DEFAULT_PATH, OpenError, VARIABLE, default_path};
pub use map::{CreateError, Writer};
pub use tickwire_clock::page::{CounterKind, Fault, Leap, Parameters, Reading, Root, Status};
pub use tickwire_clock::{Count, Nanos, Scale};
