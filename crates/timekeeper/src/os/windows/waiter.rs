//! Waiting for sockets and events.
//!
//! All sockets set one event (`WSAEventSelect`): after each wait the daemon looks at all of them
//! anyway. So their number is not limited, as it is for `WaitForMultipleObjects`. Each wait says
//! anew what is waited for, which sets the event at once where a socket is ready already.

use super::report_pipe::ReportListener;
use super::stop_event::{Stop, event};
use std::io;
use std::os::windows::io::{AsRawHandle, AsRawSocket, BorrowedSocket, OwnedHandle};
use windows_sys::Win32::Foundation::{HANDLE, WAIT_FAILED, WAIT_OBJECT_0};
use windows_sys::Win32::Networking::WinSock::{
    FD_ACCEPT, FD_CLOSE, FD_READ, FD_WRITE, SOCKET, SOCKET_ERROR, WSAEventSelect, WSAGetLastError,
};
use windows_sys::Win32::System::Threading::{ResetEvent, WaitForMultipleObjects};

/// What a socket is waited for.
const READABLE: i32 = (FD_READ | FD_ACCEPT | FD_CLOSE) as i32;
const WRITABLE: i32 = (FD_WRITE | FD_CLOSE) as i32;

/// Waits for sockets.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Set when a socket is ready.
    network: OwnedHandle,
}

impl Waiter {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { network: event()? })
    }

    /// Sleeps until a socket is ready, a client has connected for a report, or so many ns have
    /// passed. Returns whether it is time to stop.
    pub(crate) fn wait<'a>(
        &self,
        stop: Stop<'a>,
        readable: impl Iterator<Item = BorrowedSocket<'a>>,
        writable: impl Iterator<Item = BorrowedSocket<'a>>,
        reports: &'a ReportListener,
        ns: i64,
    ) -> io::Result<bool> {
        // SAFETY: an open event.
        unsafe { ResetEvent(self.network.as_raw_handle()) };
        for socket in readable {
            self.select(socket, READABLE)?;
        }
        for socket in writable {
            self.select(socket, WRITABLE)?;
        }
        let handles: Vec<HANDLE> =
            [stop.as_raw_handle(), self.network.as_raw_handle()].into_iter().chain(reports.event()).collect();
        let ms = u32::try_from((ns + 999_999) / 1_000_000).unwrap_or(0);
        // SAFETY: so many open handles.
        let woken = unsafe { WaitForMultipleObjects(handles.len() as u32, handles.as_ptr(), 0, ms) };
        match woken {
            WAIT_FAILED => Err(io::Error::last_os_error()),
            // The first of those that are signalled.
            WAIT_OBJECT_0 => Ok(true),
            _ => Ok(false),
        }
    }

    /// Has the event set when the socket is ready.
    fn select(&self, socket: BorrowedSocket<'_>, events: i32) -> io::Result<()> {
        // SAFETY: an open socket and an open event.
        let code =
            unsafe { WSAEventSelect(socket.as_raw_socket() as SOCKET, self.network.as_raw_handle() as isize, events) };
        if code == SOCKET_ERROR {
            // SAFETY: it reads a variable of this thread.
            return Err(io::Error::from_raw_os_error(unsafe { WSAGetLastError() }));
        }
        Ok(())
    }
}
