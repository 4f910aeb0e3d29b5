//! When messages are sent so that no two meet in the switch: a slot for each stream. No I/O and no
//! clock.
//!
//! | module | purpose |
//! |---|---|
//! | `wire` | how long a message occupies a link |
//! | `circle` | when two slots that are repeated for ever never overlap |
//! | `slots` | a schedule: phases of which that is proved, and its slots one by one |
//! | `plan` | the search for one |

mod circle;
mod plan;
mod slots;
mod wire;

pub use plan::{CannotFit, Why, plan, plan_widest};
pub use slots::{Overlap, Schedule, Slot};
pub use wire::{Link, wire_bytes};
