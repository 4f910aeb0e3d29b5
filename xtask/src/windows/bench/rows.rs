//! The rows, measured in this order in every round.

use std::fmt;

/// The program's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// By which stack its packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// The kernel's sockets.
    Kernel,
    /// The lane.
    Lane,
}

/// How it waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// In the call, and the thread sleeps.
    Asleep,
    /// In the call, and the library polls, as it does unless it is told otherwise.
    LibraryPolls,
    /// The program calls until there is an answer, and no call blocks.
    ProgramPolls,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name; rows of the same name are compared. `--only` looks for a part of it.
    pub(super) name: &'static str,
    pub(super) transport: Transport,
    pub(super) stack: Stack,
    pub(super) wait: Wait,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Lane => "lane",
        })
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asleep => "sleeps in its calls",
            Self::LibraryPolls => "blocks in its calls, the library polls",
            Self::ProgramPolls => "polls by calls that do not block",
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: the program {}", self.name, self.stack, self.wait)
    }
}

const fn row(name: &'static str, transport: Transport, stack: Stack, wait: Wait) -> Row {
    Row { name, transport, stack, wait }
}

pub(super) const UDP_ASLEEP: &str = "UDP, asleep";
pub(super) const UDP_POLLING: &str = "UDP, polling";
pub(super) const TCP_ASLEEP: &str = "TCP, asleep";
pub(super) const TCP_POLLING: &str = "TCP, polling";

/// All rows. Those of one name are adjacent, so that the machine's drift affects them alike.
pub(super) static ROWS: [Row; 10] = [
    row(UDP_ASLEEP, Transport::Udp, Stack::Kernel, Wait::Asleep),
    row(UDP_ASLEEP, Transport::Udp, Stack::Lane, Wait::Asleep),
    row(UDP_POLLING, Transport::Udp, Stack::Kernel, Wait::ProgramPolls),
    row(UDP_POLLING, Transport::Udp, Stack::Lane, Wait::ProgramPolls),
    row(UDP_POLLING, Transport::Udp, Stack::Lane, Wait::LibraryPolls),
    row(TCP_ASLEEP, Transport::Tcp, Stack::Kernel, Wait::Asleep),
    row(TCP_ASLEEP, Transport::Tcp, Stack::Lane, Wait::Asleep),
    row(TCP_POLLING, Transport::Tcp, Stack::Kernel, Wait::ProgramPolls),
    row(TCP_POLLING, Transport::Tcp, Stack::Lane, Wait::ProgramPolls),
    row(TCP_POLLING, Transport::Tcp, Stack::Lane, Wait::LibraryPolls),
];
