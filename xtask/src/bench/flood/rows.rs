//! The rows, measured in this order in every round.

use std::fmt;

/// The kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// SYNs on the same cable to an absent host: the cost of just sending beside the connection.
    AbsentHost,
    Syn,
    Rst,
    Data,
    Fragments,
    Overlaps,
    Land,
}

impl Flood {
    /// The argument of the program `flood`.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::AbsentHost | Self::Syn => "syn",
            Self::Rst => "rst",
            Self::Data => "ack",
            Self::Fragments => "fragment",
            Self::Overlaps => "overlap",
            Self::Land => "land",
        }
    }
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name; the flood's follows the comma. `--only` looks for a part of it.
    pub(super) name: &'static str,
    /// Both ends are accelerated.
    pub(super) ours: bool,
    pub(super) flood: Option<Flood>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn row(name: &'static str, ours: bool, flood: Option<Flood>) -> Row {
    Row { name, ours, flood }
}

/// All rows.
pub(super) static ROWS: [Row; 16] = [
    row("Tickwire", true, None),
    row("kernel", false, None),
    row("Tickwire, to an absent host", true, Some(Flood::AbsentHost)),
    row("kernel, to an absent host", false, Some(Flood::AbsentHost)),
    row("Tickwire, SYN", true, Some(Flood::Syn)),
    row("kernel, SYN", false, Some(Flood::Syn)),
    row("Tickwire, RST", true, Some(Flood::Rst)),
    row("kernel, RST", false, Some(Flood::Rst)),
    row("Tickwire, data", true, Some(Flood::Data)),
    row("kernel, data", false, Some(Flood::Data)),
    row("Tickwire, fragments", true, Some(Flood::Fragments)),
    row("kernel, fragments", false, Some(Flood::Fragments)),
    row("Tickwire, overlapping fragments", true, Some(Flood::Overlaps)),
    row("kernel, overlapping fragments", false, Some(Flood::Overlaps)),
    row("Tickwire, land", true, Some(Flood::Land)),
    row("kernel, land", false, Some(Flood::Land)),
];
