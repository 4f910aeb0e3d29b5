//! Transmission schedules without collisions in the switch: a slot for each stream. No I/O and no
//! clock.
//!
//! | module | purpose |
//! |---|---|
//! | `wire` | how long a message occupies a link |
//! | `circle` | the condition for two periodic slots to never overlap |
//! | `slots` | a verified schedule, and its slots one by one |
//! | `plan` | the search for a schedule |

mod circle;
mod plan;
mod slots;
mod wire;

pub use plan::{CannotFit, UnschedulableReason, plan, plan_widest};
pub use slots::{Overlap, Schedule, ScheduleSlot};
pub use wire::{CableLink, wire_bytes};
