//! The rows, measured in this order in every round.

use super::topology::{Idle, Measured, Topology};
use crate::bench::harness::host_pairs::Ends;
use anyhow::Result;
use std::fmt;

/// One row of the table.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name; rows of the same name are compared. `--only` looks for a part of it.
    pub(super) name: &'static str,
    /// Which ends are accelerated.
    pub(super) ends: Ends,
    /// Measures it once.
    pub(super) measure: fn(&Topology, Ends) -> Result<Measured>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.name, self.ends)
    }
}

pub(super) const ONE: &str = "1 thread";
pub(super) const FOUR: &str = "4 threads";
pub(super) const SIXTEEN: &str = "16 threads";
pub(super) const IDLE_THREADS: &str = "1 thread beside 300 idle ones";
pub(super) const IDLE_PROCESSES: &str = "1 process beside 32 idle ones";
pub(super) const REAL_TIME: &str = "1 SCHED_FIFO thread beside 32 idle ones";
pub(super) const SENDS: &str = "send() of a SCHED_FIFO thread beside an ordinary one";
pub(super) const OWN_STREAM: &str = "1 thread beside the program's own stream";

const fn row(name: &'static str, ends: Ends, measure: fn(&Topology, Ends) -> Result<Measured>) -> Row {
    Row { name, ends, measure }
}

/// All rows. HostPairs are adjacent, so that the machine's drift affects them alike.
pub(super) static ROWS: [Row; 23] = [
    row(ONE, Ends::Kernel, |bed, ends| bed.threads(ends, 1)),
    row(ONE, Ends::Client, |bed, ends| bed.threads(ends, 1)),
    row(ONE, Ends::Both, |bed, ends| bed.threads(ends, 1)),
    row(FOUR, Ends::Kernel, |bed, ends| bed.threads(ends, 4)),
    row(FOUR, Ends::Client, |bed, ends| bed.threads(ends, 4)),
    row(FOUR, Ends::Both, |bed, ends| bed.threads(ends, 4)),
    row(SIXTEEN, Ends::Kernel, |bed, ends| bed.threads(ends, 16)),
    row(SIXTEEN, Ends::Client, |bed, ends| bed.threads(ends, 16)),
    row(SIXTEEN, Ends::Both, |bed, ends| bed.threads(ends, 16)),
    row(IDLE_THREADS, Ends::Kernel, |bed, ends| bed.beside(ends, Idle::Threads(300))),
    row(IDLE_THREADS, Ends::Client, |bed, ends| bed.beside(ends, Idle::Threads(300))),
    row(IDLE_THREADS, Ends::Both, |bed, ends| bed.beside(ends, Idle::Threads(300))),
    row(IDLE_PROCESSES, Ends::Kernel, |bed, ends| bed.beside(ends, Idle::Processes(32))),
    row(IDLE_PROCESSES, Ends::Client, |bed, ends| bed.beside(ends, Idle::Processes(32))),
    row(IDLE_PROCESSES, Ends::Both, |bed, ends| bed.beside(ends, Idle::Processes(32))),
    row(REAL_TIME, Ends::Kernel, |bed, ends| bed.real_time(ends, Idle::Threads(32))),
    row(REAL_TIME, Ends::Client, |bed, ends| bed.real_time(ends, Idle::Threads(32))),
    row(REAL_TIME, Ends::Both, |bed, ends| bed.real_time(ends, Idle::Threads(32))),
    row(SENDS, Ends::Kernel, Topology::sends),
    row(SENDS, Ends::Client, Topology::sends),
    row(OWN_STREAM, Ends::Kernel, Topology::beside_own_stream),
    row(OWN_STREAM, Ends::Client, Topology::beside_own_stream),
    row(OWN_STREAM, Ends::Both, Topology::beside_own_stream),
];
