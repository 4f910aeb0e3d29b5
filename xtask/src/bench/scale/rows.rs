//! The rows, measured in this order in every round.

use super::topology::{Cable, Load, Measured, Stream, Topology};
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
    /// The unit of its rate per second.
    pub(super) unit: &'static str,
    /// Measures it once.
    pub(super) measure: fn(&Topology, Ends) -> Result<Measured>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.name, self.ends)
    }
}

pub(super) const FEW: &str = "10 connections";
pub(super) const MANY: &str = "1000 active of 11000";
pub(super) const OPEN: &str = "connections opened";
pub(super) const FIRST_SOCKET: &str = "a program's first socket";
pub(super) const IN_A_ROW: &str = "first sockets of programs in a row";
pub(super) const SHORT_PROGRAM: &str = "a short Python program";
pub(super) const ONE_STREAM: &str = "one stream";
pub(super) const TWO_STREAMS: &str = "two programs' streams";
pub(super) const ALONE: &str = "ping-pong";
pub(super) const BESIDE: &str = "ping-pong beside another's stream";
pub(super) const OWN: &str = "ping-pong beside the program's own stream";
pub(super) const THREADS: &str = "16 threads, a connection each";
pub(super) const ONE_QUEUE: &str = "100 connections, one queue";
pub(super) const TWO_QUEUES: &str = "100 connections, two queues";

const FEW_LOAD: Load = Load { connections: 10, active: 10 };
const MANY_LOAD: Load = Load { connections: 11_000, active: 1000 };
const QUEUES_LOAD: Load = Load { connections: 100, active: 100 };

const fn row(
    name: &'static str,
    ends: Ends,
    unit: &'static str,
    measure: fn(&Topology, Ends) -> Result<Measured>,
) -> Row {
    Row { name, ends, unit, measure }
}

/// All rows. HostPairs are adjacent, so that the machine's drift affects them alike.
pub(super) static ROWS: [Row; 30] = [
    row(FEW, Ends::Kernel, "messages", |bed, ends| bed.exchange(Cable::OneQueue, ends, FEW_LOAD)),
    row(FEW, Ends::Both, "messages", |bed, ends| bed.exchange(Cable::OneQueue, ends, FEW_LOAD)),
    row(MANY, Ends::Kernel, "messages", |bed, ends| bed.exchange(Cable::OneQueue, ends, MANY_LOAD)),
    row(MANY, Ends::Both, "messages", |bed, ends| bed.exchange(Cable::OneQueue, ends, MANY_LOAD)),
    row(OPEN, Ends::Kernel, "connections", Topology::open),
    row(OPEN, Ends::Client, "connections", Topology::open),
    row(OPEN, Ends::Server, "connections", Topology::open),
    row(OPEN, Ends::Both, "connections", Topology::open),
    row(FIRST_SOCKET, Ends::Kernel, "programs", Topology::first_socket),
    row(FIRST_SOCKET, Ends::Client, "programs", Topology::first_socket),
    row(IN_A_ROW, Ends::Kernel, "programs", Topology::in_a_row),
    row(IN_A_ROW, Ends::Client, "programs", Topology::in_a_row),
    row(SHORT_PROGRAM, Ends::Kernel, "programs", Topology::short_program),
    row(SHORT_PROGRAM, Ends::Client, "programs", Topology::short_program),
    row(ONE_STREAM, Ends::Kernel, "Gbit", |bed, ends| bed.streams(ends, 1)),
    row(ONE_STREAM, Ends::Both, "Gbit", |bed, ends| bed.streams(ends, 1)),
    row(TWO_STREAMS, Ends::Kernel, "Gbit", |bed, ends| bed.streams(ends, 2)),
    row(TWO_STREAMS, Ends::Both, "Gbit", |bed, ends| bed.streams(ends, 2)),
    row(ALONE, Ends::Kernel, "messages", |bed, ends| bed.ping_pong(ends, Stream::None)),
    row(ALONE, Ends::Both, "messages", |bed, ends| bed.ping_pong(ends, Stream::None)),
    row(BESIDE, Ends::Kernel, "messages", |bed, ends| bed.ping_pong(ends, Stream::Others)),
    row(BESIDE, Ends::Both, "messages", |bed, ends| bed.ping_pong(ends, Stream::Others)),
    row(OWN, Ends::Kernel, "messages", |bed, ends| bed.ping_pong(ends, Stream::Own)),
    row(OWN, Ends::Both, "messages", |bed, ends| bed.ping_pong(ends, Stream::Own)),
    row(THREADS, Ends::Kernel, "messages", Topology::threads),
    row(THREADS, Ends::Both, "messages", Topology::threads),
    row(ONE_QUEUE, Ends::Kernel, "messages", |bed, ends| bed.exchange(Cable::OneQueue, ends, QUEUES_LOAD)),
    row(ONE_QUEUE, Ends::Both, "messages", |bed, ends| bed.exchange(Cable::OneQueue, ends, QUEUES_LOAD)),
    row(TWO_QUEUES, Ends::Kernel, "messages", |bed, ends| bed.exchange(Cable::TwoQueues, ends, QUEUES_LOAD)),
    row(TWO_QUEUES, Ends::Both, "messages", |bed, ends| bed.exchange(Cable::TwoQueues, ends, QUEUES_LOAD)),
];
