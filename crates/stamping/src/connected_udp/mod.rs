//! A UDP socket to one peer, with the kernel's timestamps of its packets where there are some. It
//! never blocks. The same functions on each operating system.
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
pub use unix::LinuxUdp as ConnectedUdp;
#[cfg(windows)]
pub use windows::WinsockUdp as ConnectedUdp;
