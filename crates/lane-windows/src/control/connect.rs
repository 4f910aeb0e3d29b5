//! How a program finds the service, and makes sure that it is the service.

use super::frame::{MAX_FRAME, Parts};
use super::overlapped::Pipe;
use super::security::{CLIENT_ACCESS, is_owner_trusted};
use super::sys::{Event, adopt, wait};
use super::wide_pipe_name;
use crate::sys::{code, own};
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};
use tickwire_lane::control::Reason;
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_FILE_NOT_FOUND, ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ENOUGH_MEMORY,
    ERROR_PATH_NOT_FOUND, ERROR_PIPE_BUSY, ERROR_TOO_MANY_OPEN_FILES,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_FLAG_OVERLAPPED, OPEN_EXISTING, SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT,
};
use windows_sys::Win32::System::Pipes::{PIPE_READMODE_MESSAGE, SetNamedPipeHandleState, WaitNamedPipeW};

/// Why a program has no connection to the service.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It is no name of a pipe.
    #[error(r"{0:?} is no name of a pipe: set TICKWIRE_SOCKET to \\.\pipe\NAME, or to nothing")]
    Name(String),
    /// There is no pipe of this name.
    #[error("no service answers at {0}: start it with `tickwire service`")]
    NoService(String),
    /// This user may not open it.
    #[error(
        "this user may not use the service at {0}: be administrator, or have one add this user to the group that may (`net localgroup \"Tickwire Users\" USER /add`), then log in again"
    )]
    NotPermitted(String),
    /// It accepts no client in time, or does not greet one.
    #[error("the service at {0} does not answer: it may be stuck (its log may say why; start it again)")]
    Silent(String),
    /// It is not what the service makes.
    #[error("what is at {0} is not the service's pipe: set TICKWIRE_SOCKET to that, or start `tickwire service`")]
    NotService(String),
    /// Its owner is another user: a program of that user may pretend to be the service.
    #[error(
        "the pipe {0} belongs to another user, not to the service: end that program, then start `tickwire service`"
    )]
    NotTrusted(String),
    /// The service ended the connection at once, as it does if it has no room for another client.
    #[error("the service at {0} refused the connection: see its log")]
    Refused(String),
    /// Windows cannot make the connection.
    #[error("cannot connect to the service at {name}: {source}")]
    Failed {
        /// The name of the pipe.
        name: String,
        /// The error of Windows.
        source: io::Error,
    },
}

impl ConnectError {
    /// The reason for which the program's sockets stay on the host's stack.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::NoService(_) => Reason::NoService,
            Self::NotPermitted(_) => Reason::NotPermitted,
            Self::Silent(_) => Reason::Silent,
            Self::Name(_) | Self::NotService(_) | Self::NotTrusted(_) => Reason::NotService,
            Self::Refused(_) => Reason::Lost,
            Self::Failed { source, .. } => match code(source) {
                ERROR_TOO_MANY_OPEN_FILES | ERROR_NO_SYSTEM_RESOURCES | ERROR_NOT_ENOUGH_MEMORY => Reason::Descriptors,
                _ => Reason::NoService,
            },
        }
    }
}

/// Connects to the service, and proves to it which process this is.
pub(super) fn connect(name: &str, timeout: Duration) -> Result<Pipe, ConnectError> {
    let end = Instant::now() + timeout;
    let failed = |source| ConnectError::Failed { name: name.into(), source };
    let handle = open(name, end)?;
    let mode = PIPE_READMODE_MESSAGE;
    // SAFETY: an open pipe and a mode; the other settings are not changed.
    if unsafe { SetNamedPipeHandleState(handle.as_raw_handle(), &raw const mode, null(), null()) } == 0 {
        // A pipe of bytes has no messages.
        return Err(ConnectError::NotService(name.into()));
    }
    let mut pipe = Pipe::new(handle, MAX_FRAME).map_err(failed)?;
    if !is_owner_trusted(pipe.handle()).map_err(failed)? {
        return Err(ConnectError::NotTrusted(name.into()));
    }
    pipe.start_read();
    loop {
        match pipe.poll_read() {
            Ok(Some(frame)) => {
                prove(frame).ok_or_else(|| ConnectError::NotService(name.into()))?;
                pipe.start_read();
                return Ok(pipe);
            }
            Ok(None) => {}
            Err(_) => return Err(ConnectError::Refused(name.into())),
        }
        if !wait_until(pipe.read_event(), end).map_err(failed)? {
            return Err(ConnectError::Silent(name.into()));
        }
    }
}

/// Waits for a handle until an instant. Returns whether it was set in time.
pub(super) fn wait_until(handle: BorrowedHandle<'_>, end: Instant) -> io::Result<bool> {
    wait(handle, end.saturating_duration_since(Instant::now()))
}

/// Opens the pipe. The service may identify this user, and not act as it.
fn open(name: &str, end: Instant) -> Result<OwnedHandle, ConnectError> {
    let wide = wide_pipe_name(name).ok_or_else(|| ConnectError::Name(name.into()))?;
    let flags = FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION;
    loop {
        // SAFETY: a name that ends with a zero; no attributes, no template.
        let handle = unsafe { CreateFileW(wide.as_ptr(), CLIENT_ACCESS, 0, null(), OPEN_EXISTING, flags, null_mut()) };
        // SAFETY: the result of that call.
        let error = match unsafe { own(handle) } {
            Ok(handle) => return Ok(handle),
            Err(error) => error,
        };
        match code(&error) {
            ERROR_FILE_NOT_FOUND | ERROR_PATH_NOT_FOUND => return Err(ConnectError::NoService(name.into())),
            ERROR_ACCESS_DENIED => return Err(ConnectError::NotPermitted(name.into())),
            // The service has not accepted the client before this one yet.
            ERROR_PIPE_BUSY => {}
            _ => return Err(ConnectError::Failed { name: name.into(), source: error }),
        }
        let left = end.saturating_duration_since(Instant::now()).as_millis().min(60_000) as u32;
        // 0 would mean the pipe's own timeout.
        if left == 0 {
            return Err(ConnectError::Silent(name.into()));
        }
        // Whatever comes of it, opening says more.
        // SAFETY: a name that ends with a zero.
        unsafe { WaitNamedPipeW(wide.as_ptr(), left) };
    }
}

/// Sets the event of the greeting.
fn prove(frame: &[u8]) -> Option<()> {
    let value = Parts::new(frame).ok()?.greeting()?;
    // SAFETY: the service has put the event into this process, and says so once.
    let event = Event::from_handle(unsafe { adopt(value) }.ok()?);
    event.set().ok()
}
