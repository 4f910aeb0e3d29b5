//! The named pipe for reports. A client connects, reads the report to its end, and sends nothing.
//! Every local user may connect, as for the page itself; only this process can make further
//! instances of the pipe, so no other can answer in its place.

use super::stop_event::event;
use md5::{Digest, Md5};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::{
    ERROR_IO_INCOMPLETE, ERROR_IO_PENDING, ERROR_PIPE_BUSY, ERROR_PIPE_CONNECTED, GetLastError, HANDLE,
    INVALID_HANDLE_VALUE, LocalFree,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, PIPE_ACCESS_OUTBOUND, SECURITY_IDENTIFICATION, WriteFile,
};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Pipes::{
    ConnectNamedPipe, CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE,
    PIPE_UNLIMITED_INSTANCES, PIPE_WAIT,
};
use windows_sys::Win32::System::Threading::SetEvent;

/// All rights for the system, administrators and this user; all others may read.
const RIGHTS: &str = "D:P(A;;GA;;;SY)(A;;GA;;;BA)(A;;GA;;;OW)(A;;GR;;;WD)";
/// The longest report that a client takes, and that the pipe holds, in bytes.
const LONGEST: u32 = 1 << 20;
/// How long a client waits for the report.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long it waits before it tries again to connect.
const AGAIN: Duration = Duration::from_millis(10);

/// The pipe of a page's daemon. The name of a page may be longer than that of a pipe, and contains
/// what that must not.
pub(crate) fn report_path(page: &Path) -> PathBuf {
    let page = std::path::absolute(page).unwrap_or_else(|_| page.into());
    // Windows does not distinguish upper and lower case in names.
    let hash = Md5::digest(page.as_os_str().to_string_lossy().to_lowercase().as_bytes());
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r"\\.\pipe\tickwire-clock-{digits}").into()
}

/// The report of a page's daemon, as text.
pub(crate) fn read_report(page: &Path) -> io::Result<String> {
    let pipe = connect(&report_path(page))?;
    // Another program may have taken the name and send nothing: a thread waits for it.
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("report".into()).spawn(move || {
        let mut text = String::new();
        let read = pipe.take(LONGEST.into()).read_to_string(&mut text);
        // There is no receiver any more if it took too long.
        let _ = sender.send(read.map(|_| text));
    })?;
    receiver.recv_timeout(TIMEOUT).unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Opens the pipe; waits while other clients are being served.
fn connect(name: &Path) -> io::Result<File> {
    let until = Instant::now() + TIMEOUT;
    loop {
        // The program at the other end may learn our user's name, and do nothing in that name.
        let opened = OpenOptions::new().read(true).security_qos_flags(SECURITY_IDENTIFICATION).open(name);
        match opened {
            Err(error) if error.raw_os_error() == Some(ERROR_PIPE_BUSY as i32) && Instant::now() < until => {
                thread::sleep(AGAIN);
            }
            opened => return opened,
        }
    }
}

/// Where clients of reports connect.
#[derive(Debug)]
pub(crate) struct ReportListener {
    name: Vec<u16>,
    /// The instance of the pipe for the next client; `None` if Windows made none.
    next: Option<Instance>,
}

/// A client that waits for a report.
#[derive(Debug)]
pub(crate) struct ReportClient(OwnedHandle);

/// An instance of the pipe that a client may connect to.
struct Instance {
    pipe: OwnedHandle,
    /// Set when a client has connected.
    event: OwnedHandle,
    waiting: Waiting,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("pipe", &self.pipe).field("waiting", &self.waiting.is_some()).finish()
    }
}

/// The operation that waits for a client, while it is not known to be over.
type Waiting = Option<Box<OVERLAPPED>>;

// SAFETY: the pointer in the operation is used by Windows only; any thread may wait for it and
// cancel it.
unsafe impl Send for Instance {}

impl ReportListener {
    /// Makes the pipe.
    ///
    /// # Errors
    /// Another process has a pipe of this name, or Windows refuses.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
        let next = Some(Instance::new(&name, FILE_FLAG_FIRST_PIPE_INSTANCE)?);
        Ok(Self { name, next })
    }

    /// What is signalled when a client has connected.
    pub(super) fn event(&self) -> Option<HANDLE> {
        self.next.as_ref().map(|next| next.event.as_raw_handle())
    }

    /// A client that has connected, if there is one.
    pub(crate) fn accept(&mut self) -> Option<ReportClient> {
        let is_connected = self.next.as_mut().is_some_and(Instance::is_connected);
        let client = if is_connected { self.next.take() } else { None };
        if self.next.is_none() {
            // Tried again at the next look.
            self.next = Instance::new(&self.name, 0).ok();
        }
        client.and_then(Instance::into_client)
    }

    /// Nothing to do: the name ends with the pipe.
    pub(crate) const fn remove(_: &Path) {}
}

impl Instance {
    fn new(name: &[u16], flags: u32) -> io::Result<Self> {
        let event = event()?;
        let descriptor = Descriptor::new()?;
        let attributes = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: descriptor.0,
            bInheritHandle: 0,
        };
        // SAFETY: a name that ends with a zero, and valid attributes.
        let pipe = unsafe {
            CreateNamedPipeW(
                name.as_ptr(),
                PIPE_ACCESS_OUTBOUND | FILE_FLAG_OVERLAPPED | flags,
                PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS,
                PIPE_UNLIMITED_INSTANCES,
                LONGEST,
                0,
                0,
                &raw const attributes,
            )
        };
        if pipe == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: made above, and nothing else has it.
        let pipe = unsafe { OwnedHandle::from_raw_handle(pipe) };
        let mut waiting = operation(&event);
        // SAFETY: an open pipe; the operation stays where it is until it is known to be over.
        let done = unsafe { ConnectNamedPipe(pipe.as_raw_handle(), &raw mut *waiting) };
        let error = last_error();
        let waiting = match error {
            _ if done != 0 => None,
            ERROR_IO_PENDING => Some(waiting),
            // Already: between the two calls.
            ERROR_PIPE_CONNECTED => None,
            _ => return Err(io::Error::from_raw_os_error(error.cast_signed())),
        };
        if waiting.is_none() {
            // SAFETY: an open event.
            unsafe { SetEvent(event.as_raw_handle()) };
        }
        Ok(Self { pipe, event, waiting })
    }

    fn is_connected(&mut self) -> bool {
        let Some(waiting) = &self.waiting else { return true };
        let mut moved = 0;
        // SAFETY: an open pipe, and its operation, which it does not wait for.
        let done = unsafe { GetOverlappedResult(self.pipe.as_raw_handle(), &raw const **waiting, &raw mut moved, 0) };
        if done == 0 && last_error() == ERROR_IO_INCOMPLETE {
            return false;
        }
        // Also if the client is gone again: it just gets no report.
        self.waiting = None;
        true
    }

    /// The connected client.
    fn into_client(self) -> Option<ReportClient> {
        self.pipe.try_clone().ok().map(ReportClient)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            cancel(&self.pipe, &waiting);
        }
    }
}

impl ReportClient {
    /// Gives the client the report. What is written stays readable after the pipe is closed.
    pub(crate) fn answer(self, text: &[u8]) {
        let Ok(event) = event() else { return };
        let mut writing = operation(&event);
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // SAFETY: an open pipe; text and operation outlive the operation, which is cancelled below
        // if it is not over at once.
        let done = unsafe { WriteFile(self.0.as_raw_handle(), text.as_ptr(), length, null_mut(), &raw mut *writing) };
        // The report fits the pipe; a client that is gone gets nothing.
        if done == 0 && last_error() == ERROR_IO_PENDING {
            cancel(&self.0, &writing);
        }
    }
}

/// A new operation, which sets this event when it is over.
fn operation(event: &OwnedHandle) -> Box<OVERLAPPED> {
    // SAFETY: all-zero is a valid value.
    let mut operation: OVERLAPPED = unsafe { std::mem::zeroed() };
    operation.hEvent = event.as_raw_handle();
    Box::new(operation)
}

/// Ends an operation; afterwards Windows does not use it any more.
fn cancel(pipe: &OwnedHandle, operation: &OVERLAPPED) {
    let mut moved = 0;
    // SAFETY: an open pipe, and its operation.
    unsafe {
        CancelIoEx(pipe.as_raw_handle(), operation);
        GetOverlappedResult(pipe.as_raw_handle(), operation, &raw mut moved, 1);
    }
}

fn last_error() -> u32 {
    // SAFETY: it reads a variable of this thread.
    unsafe { GetLastError() }
}

/// The security descriptor of [`RIGHTS`].
struct Descriptor(PSECURITY_DESCRIPTOR);

impl Descriptor {
    fn new() -> io::Result<Self> {
        let rights: Vec<u16> = RIGHTS.encode_utf16().chain([0]).collect();
        let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
        // SAFETY: a string that ends with a zero, and a place for the result.
        let done = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                rights.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                null_mut(),
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(descriptor)) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: from a function of the system whose result is to be freed so.
        unsafe { LocalFree(self.0) };
    }
}
