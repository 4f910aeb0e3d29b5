//! Whose stamps an exchange has.

/// How good a pair of stamps is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quality {
    /// Taken in the program, beside the system calls: microseconds of scheduling are in them.
    Program,
    /// The kernel's, in the driver.
    Kernel,
    /// The network card's, at the wire.
    Hardware,
}

impl Quality {
    /// How far such stamps are off at random, in ns, beyond what shows in the round trip.
    #[must_use]
    pub const fn stamp_error(self) -> u32 {
        match self {
            Self::Program => 5_000,
            // How far a card's may be off is in the round trip already: see `hardware`.
            Self::Kernel | Self::Hardware => 0,
        }
    }

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Hardware => "hardware",
        }
    }
}
