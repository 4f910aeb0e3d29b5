//! Waiting, in one call on one socket and for many. It uses `lane`, `table`, `base` and `sys`.
//!
//! | file | purpose |
//! |---|---|
//! | `call` | how a call waits: `wait::wait`, and `wait::transfer` for one that moves data |
//! | `plan` | on what a call waits, and until when |
//! | `spin`, `change` | polling the lane, and what another thread took in meanwhile |
//! | `sleep` | sleeping on the lane's descriptors and the program's own together |
//! | `budget` | how long a thread polls before it sleeps, and when it is awake for a message |
//! | `preemption` | whether other threads compete for the processor on which a thread polls |
//! | `watch` | what wakes a sleeping thread |
//! | `same` | whether a call still has the socket with which it began |
//! | `readiness` | what a descriptor of ours is ready for |
//! | `poll` | `poll` and `select` |
//! | `epoll`, `epoll_wait` | registrations in `epoll` instances, and waiting on one |

mod budget;
mod call;
mod change;
pub(crate) mod epoll;
pub(crate) mod epoll_wait;
mod plan;
pub(crate) mod poll;
mod preemption;
pub(crate) mod readiness;
mod same;
mod sleep;
mod spin;
mod watch;

pub(crate) use crate::sys::errno::AGAIN;
pub(crate) use crate::sys::{NO_FD, readable};
pub(crate) use call::{disturb, transfer, wait};
pub(crate) use plan::{KernelHint, OWN, TIMED_OUT, WaitPlan, and};
pub(crate) use same::Same;
