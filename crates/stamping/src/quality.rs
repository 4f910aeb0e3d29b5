//! The source of an exchange's timestamps.

/// The source of a pair of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quality {
    /// Taken in the program, next to the system calls: they include microseconds of scheduling.
    Program,
    /// The kernel's, in the driver.
    Kernel,
    /// The network card's, at the wire.
    Hardware,
}

impl Quality {
    /// Random error of such timestamps, in ns, beyond what shows in the round trip.
    #[must_use]
    pub const fn stamp_error(self) -> u32 {
        match self {
            Self::Program => 5_000,
            // The card's uncertainty is already in the round trip: see `hardware`.
            Self::Kernel | Self::Hardware => 0,
        }
    }

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Hardware => "hardware",
        }
    }
}
