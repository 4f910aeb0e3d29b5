//! Linux: `epoll`, and timestamps of packets.

mod groups;
mod process;
mod readiness;
mod receiving;
mod sending;

pub(crate) use groups::{interface_index, send_to_groups_by};
pub(crate) use process::{host_name, processor_time, set_exact_timers, take_descriptors};
pub(crate) use readiness::Readiness;
pub(crate) use receiving::{receive, stamp_arrivals};
pub(crate) use sending::{connected, limit_datagrams, limit_reads, limit_stream, wait_for_room};

/// What has a socket.
pub(crate) use std::os::fd::AsFd as AsSocket;
