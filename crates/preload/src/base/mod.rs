//! What all other modules build on. It uses `sys`.
//!
//! | file | purpose |
//! |---|---|
//! | `config` | what the environment asks of the library |
//! | `reentrancy` | whether the calling thread is inside the lane, where no handler may run |
//! | `cancel_shield` | no thread is cancelled in a request to the service |
//! | `deferred_signals` | signals that are put off meanwhile |
//! | `own_stack` | a thread for what needs more stack than the program may have left |
//! | `realtime` | the real-time priority that the service grants |
//! | `helper_work` | whether the helper thread is at work |
//! | `wakeup_fd` | the wakeup eventfd of the helper thread |
//! | `locked`, `small_vec` | locks and lists that are safe with signal handlers |

pub(crate) mod cancel_shield;
pub(crate) mod config;
pub(crate) mod deferred_signals;
pub(crate) mod helper_work;
pub(crate) mod locked;
pub(crate) mod own_stack;
pub(crate) mod realtime;
pub(crate) mod reentrancy;
pub(crate) mod small_vec;
pub(crate) mod wakeup_fd;
