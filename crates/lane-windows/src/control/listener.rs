//! The pipe's name, and its clients one after the other.
//!
//! There is always an instance of the pipe that waits for the next client, so no other process can
//! take the name. If another instance cannot be made, the client is sent away and its instance
//! waits again.
//!
//! Wine 8 ignores `FILE_FLAG_FIRST_PIPE_INSTANCE`, so the instances of a new pipe are counted, too.

use super::frame::MAX_REQUEST_FRAME;
use super::overlapped::Pipe;
use super::process::{ClientProcess, client_of};
use super::server::ServerChannel;
use super::wide_pipe_name;
use crate::security_descriptor::SecurityDescriptor;
use crate::sys::{code, own};
use std::fmt;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{ERROR_ACCESS_DENIED, ERROR_PIPE_BUSY};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, PIPE_ACCESS_DUPLEX,
};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, GetNamedPipeHandleStateW, PIPE_READMODE_MESSAGE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_MESSAGE,
    PIPE_UNLIMITED_INSTANCES, PIPE_WAIT,
};

/// How many bytes Windows keeps in each direction until they are read. More wait with the sender.
const BUFFER: u32 = 8192;

/// Why a service cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// It is no name of a pipe.
    #[error(r"{0:?} is no name of a pipe: it must be \\.\pipe\NAME, without further backslashes")]
    Name(String),
    /// Another process has a pipe of this name.
    #[error("another process listens at {0}: is the service running already? end that process first")]
    Taken(String),
    /// It is not known which clients may connect.
    #[error("cannot make the access list for {clients:?} (it must be a SID such as S-1-5-11, or AU): {source}")]
    Clients {
        /// The SID that the caller gave.
        clients: String,
        /// The error of Windows.
        source: io::Error,
    },
    /// Windows cannot make the pipe.
    #[error("cannot make the pipe {name}: {source}")]
    Failed {
        /// Its name.
        name: String,
        /// The error of Windows.
        source: io::Error,
    },
}

/// Why a client was not accepted. It was sent away, and the listener waits for the next one.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// Its process has ended, or is protected.
    #[error("refused a client: cannot open its process {process_id}: {source}")]
    Process {
        /// The number of the process, 0 if that is not known either.
        process_id: u32,
        /// The error of Windows.
        source: io::Error,
    },
    /// There are no resources for another client.
    #[error("refused a client: cannot make another instance of the pipe: {0}")]
    Instance(io::Error),
    /// The instance that waited has failed. A new one waits now.
    #[error("the pipe failed while it waited for a client: {0}")]
    Waiting(io::Error),
}

/// Accepts the clients of a service.
pub struct PipeListener {
    name: Vec<u16>,
    security: SecurityDescriptor,
    /// The instance that waits for the next client.
    waiting: Pipe,
}

impl PipeListener {
    /// Listens at a name. `clients` is the user or group that may connect: a SID as SDDL writes it
    /// (`S-1-5-...`, or a short form such as `AU` for all users that have logged in).
    ///
    /// # Errors
    /// [`ListenError`], also if another process has the name already.
    pub fn new(name: &str, clients: &str) -> Result<Self, ListenError> {
        let wide = wide_pipe_name(name).ok_or_else(|| ListenError::Name(name.into()))?;
        let security = SecurityDescriptor::of_pipe(clients)
            .map_err(|source| ListenError::Clients { clients: clients.into(), source })?;
        let failed = |source: io::Error| match code(&source) {
            ERROR_ACCESS_DENIED | ERROR_PIPE_BUSY => ListenError::Taken(name.into()),
            _ => ListenError::Failed { name: name.into(), source },
        };
        let first = create(&wide, &security, FILE_FLAG_FIRST_PIPE_INSTANCE).map_err(failed)?;
        if instances(first.as_handle()).map_err(failed)? != 1 {
            return Err(ListenError::Taken(name.into()));
        }
        let mut waiting = Pipe::new(first, MAX_REQUEST_FRAME).map_err(failed)?;
        waiting.listen();
        Ok(Self { name: wide, security, waiting })
    }

    /// Set when there is a client to [`PipeListener::accept`]. Valid until that is called: the next
    /// client sets another event.
    #[must_use]
    pub fn event(&self) -> BorrowedHandle<'_> {
        self.waiting.read_event()
    }

    /// The next client, without blocking. `Ok(None)` if there is none.
    ///
    /// # Errors
    /// [`AcceptError`]: this client was sent away. The caller may go on.
    pub fn accept(&mut self) -> Result<Option<ServerChannel>, AcceptError> {
        let is_connected = self.waiting.poll_listen();
        if matches!(is_connected, Ok(false)) {
            return Ok(None);
        }
        // The name stays taken: the next instance is made before this one is given away.
        let next = create(&self.name, &self.security, 0).and_then(|next| Pipe::new(next, MAX_REQUEST_FRAME));
        let connected = match next {
            Ok(next) => std::mem::replace(&mut self.waiting, next),
            Err(error) => {
                self.waiting.disconnect();
                self.waiting.listen();
                return Err(AcceptError::Instance(error));
            }
        };
        self.waiting.listen();
        is_connected.map_err(AcceptError::Waiting)?;
        served(connected).map(Some)
    }
}

/// The channel to a client, whose process is opened here.
fn served(pipe: Pipe) -> Result<ServerChannel, AcceptError> {
    let refused = |process_id| move |source| AcceptError::Process { process_id, source };
    let id = client_of(pipe.handle()).map_err(refused(0))?;
    let process = ClientProcess::open(id).map_err(refused(id))?;
    // The greeting proves the same more strongly.
    if client_of(pipe.handle()).map_err(refused(id))? != process.id() {
        return Err(refused(id)(io::Error::other("the pipe has another client now")));
    }
    ServerChannel::new(pipe, process).map_err(refused(id))
}

/// Makes an instance of the pipe.
fn create(name: &[u16], security: &SecurityDescriptor, flags: u32) -> io::Result<OwnedHandle> {
    let attributes = security.attributes();
    // SAFETY: a name that ends with a zero, and valid attributes.
    let handle = unsafe {
        CreateNamedPipeW(
            name.as_ptr(),
            PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | flags,
            PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS,
            PIPE_UNLIMITED_INSTANCES,
            BUFFER,
            BUFFER,
            0,
            &raw const attributes,
        )
    };
    // SAFETY: the result of that call.
    unsafe { own(handle) }
}

/// How many instances a pipe has.
fn instances(pipe: BorrowedHandle<'_>) -> io::Result<u32> {
    let mut instances = 0;
    // SAFETY: an open pipe, and a place for this result; the others are not wanted.
    let done = unsafe {
        GetNamedPipeHandleStateW(
            pipe.as_raw_handle(),
            null_mut(),
            &raw mut instances,
            null_mut(),
            null_mut(),
            null_mut(),
            0,
        )
    };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(instances) }
}

impl fmt::Debug for PipeListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeListener").field("name", &String::from_utf16_lossy(&self.name)).finish_non_exhaustive()
    }
}
