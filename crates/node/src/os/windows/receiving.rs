//! One receive call.

use super::{AsSocket, handle};
use crate::os::Taken;
use std::io;
use windows_sys::Win32::Networking::WinSock::{SOCKET_ERROR, recv};

/// Packets of streams have no timestamps on Windows.
pub(crate) const fn stamp_arrivals(_: &impl AsSocket) {}

/// One receive call, without parsing.
pub(crate) fn receive<T>(
    socket: &impl AsSocket,
    buffer: &mut [u8],
    read_clock: impl FnOnce() -> T,
) -> io::Result<Taken<T>> {
    let room = i32::try_from(buffer.len()).unwrap_or(i32::MAX);
    // SAFETY: so many bytes may be written there.
    let count = unsafe { recv(handle(socket), buffer.as_mut_ptr(), room, 0) };
    let now = read_clock();
    if count == SOCKET_ERROR {
        return Err(io::Error::last_os_error());
    }
    Ok(Taken { length: count as usize, now, waited_ns: None })
}
