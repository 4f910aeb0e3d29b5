//! What every other room stands on. It knows the C boundary, and no other room.
//!
//! | file | purpose |
//! |---|---|
//! | `config` | what the environment asks of the library |
//! | `errno` | the C library's error number, and the stack's errors as such numbers |
//! | `inside` | whether the calling thread is inside the lane, where no handler may run |
//! | `bell` | rings for the helper thread |
//! | `locked`, `few` | what signal handlers ask of locks and lists |

pub(crate) mod bell;
pub(crate) mod config;
pub(crate) mod errno;
pub(crate) mod few;
pub(crate) mod inside;
pub(crate) mod locked;
pub(crate) mod scheduling;
