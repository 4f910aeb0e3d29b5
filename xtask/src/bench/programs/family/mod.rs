//! One file for each family of programs: how they are installed and started, and what they print.

pub(super) mod dds;
pub(super) mod epics;
pub(super) mod industrial;
pub(super) mod iperf;
pub(super) mod messaging;
pub(super) mod nginx;
pub(super) mod postgres;
pub(super) mod redis;
pub(super) mod runtimes;
