//! Getting a lane, what it consists of, and how it talks with the service. It uses `base` and
//! `table`; it tells `socket` when a claim or the lane is lost, and `process` when another process
//! died or a helper thread is needed.
//!
//! | file | purpose |
//! |---|---|
//! | `start` | how a process gets its lane, and another when the service came back |
//! | `access` | the lane as this process has it: the stack in the shared region and the lock around it; reached as `lane::Lane` |
//! | `here` | which lane is this process's, and what else is true of it alone |
//! | `ending` | its end in this process, for which others wait |
//! | `held_acks` | acknowledgements that wait until the program has what it waited for |
//! | `kernel_rows` | the rows by which sockets that stay on the kernel are shown |
//! | `wire` | where the stack's packets come from and go to |
//! | `session` | this process's control connection |
//! | `service` | what is asked of the service by it, and what the service says unasked |
//! | `ports` | ports to connect from |
//! | `waiters` | the threads that sleep on the lane: which of them polls for the others, and how each is woken |
//! | `gate` | who may enter the lane while the program ends |

mod access;
mod course;
pub(crate) mod ending;
pub(crate) mod gate;
mod held_acks;
mod here;
mod kernel_rows;
pub(crate) mod ports;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod start;
mod waiters;
pub(crate) mod wire;

pub(crate) use access::{Access, Handover, Lane, Parts};
pub(crate) use ending::await_ending;
pub(crate) use here::{current, disinherit, heard_of, inherit, install, is_stray, process};
pub(crate) use waiters::{Asleep, priority};
