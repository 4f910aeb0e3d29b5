//! The two directions of the cable.

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    /// From the first device to the second.
    Forth,
    /// From the second to the first.
    Back,
}

impl Way {
    pub(crate) const BOTH: [Self; 2] = [Self::Forth, Self::Back];

    /// The number of the device that packets come from.
    pub(crate) const fn from(self) -> usize {
        self as usize
    }

    /// The number of the device that packets go to.
    pub(crate) const fn to(self) -> usize {
        1 - self as usize
    }
}
