//! Readiness, as Windows tells programs of it: what is the case at a socket, and the record of
//! network events that a program has asked for.
//!
//! | module | purpose |
//! |---|---|
//! | `condition` | what is the case at a socket, and what `select` and `WSAPoll` make of it |
//! | `record` | the rules by which network events are recorded, once |
//! | `target` | the event object or the window that is told |
//! | `notices` | a socket's record and target, behind a lock |

pub(crate) mod condition;
mod notices;
pub(crate) mod record;
mod target;

pub(crate) use condition::Condition;
pub(crate) use notices::{Enumerated, Notices};
pub(crate) use target::Target;
