//! Programs that do not read the same counter values as others.

use thiserror::Error;

/// Why the offset of the clock in this program's time namespace cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Moved {
    /// The namespace that the kernel reports is that of the program's children.
    #[error("it has made a time namespace for its children, and the kernel tells of that one only")]
    Between,
    /// The kernel's file cannot be read (no /proc, or that of another PID namespace) or parsed.
    #[error("/proc/self/timens_offsets cannot be read")]
    Unread,
}
