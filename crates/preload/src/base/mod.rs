//! What all other modules build on. It uses `sys`, and delivers signals that were put off
//! (`exports::signal`).
//!
//! | file | purpose |
//! |---|---|
//! | `config` | what the environment asks of the library |
//! | `reentrancy` | whether the calling thread is inside the lane, where no handler may run |
//! | `wakeup_fd` | the wakeup eventfd of the helper thread |
//! | `locked`, `small_vec` | locks and lists that are safe with signal handlers |

pub(crate) mod config;
pub(crate) mod locked;
pub(crate) mod reentrancy;
pub(crate) mod small_vec;
pub(crate) mod wakeup_fd;
