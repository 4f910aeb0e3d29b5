//! What differs between operating systems: files, mappings, sleeping, and the counter that no
//! daemon steers. Each has the same functions.
//!
//! | module | purpose |
//! |---|---|
//! | `unix` | Linux |
//! | `windows` | Windows |

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
