//! One file for each family of programs: their installation, their start, and parsers of their
//! output.

pub(super) mod dds;
pub(super) mod epics;
pub(super) mod industrial;
pub(super) mod iperf;
pub(super) mod messaging;
pub(super) mod nginx;
pub(super) mod postgres;
pub(super) mod redis;
pub(super) mod runtimes;
