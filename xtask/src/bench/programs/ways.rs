//! The four ways to run a program: which end is on Tickwire.

use std::fmt;

/// Which ends are accelerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// None: the baseline.
    Kernel,
    /// The client.
    Client,
    /// The server.
    Server,
    /// Both.
    Both,
}

impl Way {
    /// All, the baseline first.
    pub(super) const ALL: [Self; 4] = [Self::Kernel, Self::Client, Self::Server, Self::Both];
    /// Those that have an accelerated end.
    pub(super) const OURS: [Self; 3] = [Self::Client, Self::Server, Self::Both];

    /// Its place in [`Way::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }

    pub(super) fn accelerates(self, end: End) -> bool {
        match end {
            End::Client => matches!(self, Self::Client | Self::Both),
            End::Server => matches!(self, Self::Server | Self::Both),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "both on the kernel",
            Self::Client => "client on Tickwire",
            Self::Server => "server on Tickwire",
            Self::Both => "both on Tickwire",
        })
    }
}

/// One of the two programs of a measurement, and its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_place_and_its_ends() {
        assert!(Way::ALL.iter().enumerate().all(|(place, way)| way.index() == place));
        let ends = Way::ALL.map(|way| [way.accelerates(End::Client), way.accelerates(End::Server)]);
        assert_eq!(ends, [[false, false], [true, false], [false, true], [true, true]]);
    }
}
