//! Waiting, in one call on one socket and for many. It uses `base`, `table` and `lane`, and asks
//! `socket` what a descriptor is.
//!
//! | file | purpose |
//! |---|---|
//! | `call` | how a call waits: it polls the lane for a while, then sleeps; reached as `wait::wait` and `wait::transfer` |
//! | `budget` | for how long a thread polls before it sleeps, and when it is awake for a message |
//! | `rivals` | whether others want the processor on which a thread polls |
//! | `crowd` | whether more threads want to run than there are processors |
//! | `watch` | the bell of a sleeping thread |
//! | `same` | whether it still has the socket with which it began |
//! | `readiness` | what a descriptor of ours is ready for |
//! | `poll` | `poll` and `select` |
//! | `epoll`, `epoll_wait` | what is registered in `epoll` instances, and waiting on one |

mod budget;
mod call;
pub(crate) mod crowd;
pub(crate) mod epoll;
pub(crate) mod epoll_wait;
pub(crate) mod poll;
pub(crate) mod readiness;
mod rivals;
mod same;
mod watch;

pub(crate) use crate::base::errno::AGAIN;
pub(crate) use crate::c::sys::{NO_FD, readable};
pub(crate) use call::{Kernel, OWN, Plan, TIMED_OUT, and, disturb, transfer, wait};
pub(crate) use same::Same;
