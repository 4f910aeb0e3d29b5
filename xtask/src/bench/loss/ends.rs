//! The columns of the table.

use std::fmt;

/// The stack at each end; the sender of the messages is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    KernelKernel,
    OursKernel,
    KernelOurs,
    OursOurs,
}

impl Ends {
    pub(super) const ALL: [Self; 4] = [Self::KernelKernel, Self::OursKernel, Self::KernelOurs, Self::OursOurs];

    /// Whether the sender and the receiver are accelerated.
    pub(super) fn ours(self) -> [bool; 2] {
        match self {
            Self::KernelKernel => [false, false],
            Self::OursKernel => [true, false],
            Self::KernelOurs => [false, true],
            Self::OursOurs => [true, true],
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KernelKernel => "kernel-kernel",
            Self::OursKernel => "ours-kernel",
            Self::KernelOurs => "kernel-ours",
            Self::OursOurs => "ours-ours",
        })
    }
}
