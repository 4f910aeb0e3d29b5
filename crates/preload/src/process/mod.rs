//! The program's processes and threads, as far as the lane must know of them. It uses every other
//! module.
//!
//! | file | purpose |
//! |---|---|
//! | `lane_processes` | several processes on one lane: fork, exit, death |
//! | `fork_inheritance` | what a child is given before it is made |
//! | `exec`, `spawn` | sockets that outlive exec; programs that the C library starts by itself |
//! | `helper`, `control_poll` | the helper thread, and when it watches the service's connection |
//! | `leave` | leaving the lane because the service is about to end |

mod control_poll;
pub(crate) mod exec;
pub(crate) mod fork_inheritance;
pub(crate) mod helper;
pub(crate) mod lane_processes;
pub(crate) mod leave;
pub(crate) mod spawn;
