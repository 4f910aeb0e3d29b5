//! What every other room stands on. It knows the C boundary, and no other room.
//!
//! | file | purpose |
//! |---|---|
//! | `config` | what the environment asks of the library |
//! | `errno` | the C library's error number, and the stack's errors as such numbers |
//! | `locked`, `few` | what signal handlers ask of locks and lists |

pub(crate) mod config;
pub(crate) mod errno;
pub(crate) mod few;
pub(crate) mod locked;
