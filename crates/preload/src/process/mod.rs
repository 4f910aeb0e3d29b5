//! The program's processes and threads, so far as the lane must know of them. It uses every other
//! room.
//!
//! | file | purpose |
//! |---|---|
//! | `family` | several processes on one lane: fork, exit, and processes that die alone |
//! | `share` | what a child is given before it is made |
//! | `exec`, `spawn` | sockets that outlive exec; programs that the C library starts by itself |
//! | `helper`, `ear` | the helper thread, and when it listens to the service |
//! | `leave` | leaving the lane because the service is about to end |
//! | `own_stack` | a thread for what needs more stack than the program may have left |
//! | `realtime` | the real-time priority that the service grants |

mod ear;
pub(crate) mod exec;
pub(crate) mod family;
pub(crate) mod helper;
pub(crate) mod leave;
pub(crate) mod own_stack;
pub(crate) mod realtime;
pub(crate) mod share;
pub(crate) mod spawn;
