//! The testbed: a person's own data pattern, sent by producers to one consumer, on the kernel and
//! on Tickwire, and what became of each message.
//!
//! Follows Shafer et al. (2015), sections 4 and 5, and Lisovy et al. (2013).
//!
//! | module | purpose |
//! |---|---|
//! | `pattern` | what is sent: streams with transport, size, period, deadline and phase; from CSV, TOML, or built in |
//! | `schedule` | when it is sent: slots such that no two messages meet in the switch (no I/O, no clock) |
//! | `outcome` | what became of it: figures of streams and runs, as they stand in JSON |
//! | `report` | the same for a program, a terminal and a person: JSON, a table, one page of HTML |
//! | `node` | the programs that send and receive, over plain sockets; and how they talk with the controller |
//! | `controller` | starts a node on each host, and gathers what became of the messages |
//! | `time` | how good the clock is, beside a reference |
//! | `live` | what a run shows of itself while it lasts, for who watches |
//! | `units` | times as numbers |
//! | `legible` | texts of others as they may be shown to a person |
//!
//! May know `tickclock`, the lab, the simulation, reports and the operating system's sockets;
//! nothing of lanes: the same program measures the kernel and Tickwire. `time` also knows the
//! truth's server and how network cards' clocks are read. No unsafe code.
#![forbid(unsafe_code)]

pub mod controller;
pub mod legible;
pub mod live;
pub mod node;
pub mod outcome;
pub mod pattern;
pub mod report;
pub mod schedule;
pub mod time;
mod units;
