//! What all other modules build on. It uses the C boundary (`c`) and no other module.
//!
//! | file | purpose |
//! |---|---|
//! | `config` | what the environment asks of the library |
//! | `errno` | the C library's error number, and the stack's errors as such numbers |
//! | `reentrancy` | whether the calling thread is inside the lane, where no handler may run |
//! | `wakeup_fd` | the wakeup eventfd of the helper thread |
//! | `locked`, `small_vec` | locks and lists that are safe with signal handlers |
//! | `scheduling` | how the helper thread is scheduled |

pub(crate) mod config;
pub(crate) mod errno;
pub(crate) mod locked;
pub(crate) mod reentrancy;
pub(crate) mod scheduling;
pub(crate) mod small_vec;
pub(crate) mod wakeup_fd;
