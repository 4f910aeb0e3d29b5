//! Windows: plain calls of Winsock, as programs without knowledge of the underlying stack make
//! them. There are no overlapped calls and no events.
//!
//! Windows has no timestamps of packets for streams, and for datagrams only newer versions. So it
//! is not known for how long a message has waited in this host.

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
pub(crate) use std::os::windows::io::AsSocket;

use std::io;
use std::os::windows::io::AsRawSocket;
use std::time::Duration;
use windows_sys::Win32::Networking::WinSock::{SOCKET, SOCKET_ERROR, WSAPOLLFD, WSAPoll};

/// A socket as calls have it.
fn handle(socket: &impl AsSocket) -> SOCKET {
    // (The two types have the same width.)
    socket.as_socket().as_raw_socket() as SOCKET
}

/// `WSAPoll`, for so long at most; to the next millisecond.
fn poll(sockets: &mut [WSAPOLLFD], time: Duration) -> io::Result<()> {
    let time_ms = i32::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX);
    let count = u32::try_from(sockets.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: as many entries as the call is told, which stay there while it runs.
    let found = unsafe { WSAPoll(sockets.as_mut_ptr(), count, time_ms) };
    if found == SOCKET_ERROR { Err(io::Error::last_os_error()) } else { Ok(()) }
}
