//! What differs between operating systems: waiting, clocks, processors, the daemon's private files,
//! the connection for reports, and what the system does not have. Each has the same functions.
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
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
