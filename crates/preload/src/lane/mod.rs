//! Getting a lane, what it consists of, and its communication with the service. It uses `table`,
//! `base` and `sys`. The modules above learn through its [`Observer`] when a claim or the lane is
//! lost, when another process died, and when a helper thread is needed.
//!
//! | file | purpose |
//! |---|---|
//! | `start` | how a process gets its lane, and another one when the service is back |
//! | `parts` | the lane as this process has it, and what it can be asked: `lane::Lane` |
//! | `entry` | entering it, before and after the work on the stack: `lane::Access` |
//! | `sleep` | sleeping on it and polling it |
//! | `process_state` | which lane is this process's, and other state of this process alone |
//! | `transmit` | how one call sends the stack's packets, in several passes |
//! | `observer` | what the modules above do when something happens to a lane |
//! | `crowd` | whether more threads are runnable than there are processors |
//! | `teardown` | its end in this process, for which others wait |
//! | `held_acks` | acknowledgements held back until the program has the data it waited for |
//! | `kernel_rows` | the rows by which sockets that stay on the kernel are shown |
//! | `session` | this process's control connection |
//! | `service` | requests to the service, and its unsolicited messages |
//! | `ports` | ports to connect from |
//! | `waiters` | threads that sleep on the lane: which one polls, and how each is woken |
//! | `exit_gate` | which threads may enter the lane while the program ends |

pub(crate) mod crowd;
mod entry;
pub(crate) mod exit_gate;
mod held_acks;
mod kernel_rows;
mod observer;
mod parts;
pub(crate) mod ports;
mod process_state;
pub(crate) mod service;
pub(crate) mod session;
mod sleep;
pub(crate) mod start;
pub(crate) mod teardown;
mod transmit;
mod waiters;

pub(crate) use entry::Access;
pub(crate) use observer::{Observer, observe, observer};
pub(crate) use parts::{Handover, Lane, Parts};
pub(crate) use process_state::{current, disinherit, heard_of, inherit, install, is_stray, process};
pub(crate) use teardown::await_ending;
pub(crate) use waiters::{Asleep, priority};
