//! A new process, suspended.

use super::process::{has_ended, terminate};
use super::standard_handles::StandardHandles;
use super::{done, wide};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr::null;
use windows_sys::Win32::System::Threading::{
    CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT, CreateProcessW, PROCESS_INFORMATION, ResumeThread,
    STARTF_USESTDHANDLES, STARTUPINFOW,
};

/// What a process is made of. The command line ends with a zero, the environment with two.
#[derive(Debug)]
pub(crate) struct NewProcess<'a> {
    pub(crate) file: &'a Path,
    pub(crate) command_line: &'a mut [u16],
    pub(crate) environment: &'a [u16],
}

/// A process that has not run yet. It is ended, unless it is [resumed](Self::resume).
#[derive(Debug)]
pub(crate) struct StartedProcess {
    process: Option<OwnedHandle>,
    thread: OwnedHandle,
    id: u32,
}

/// Makes a process in this process's folder, with its standard handles and all handles that can be
/// inherited.
pub(crate) fn start(new: NewProcess<'_>) -> io::Result<StartedProcess> {
    if !new.command_line.ends_with(&[0]) || !new.environment.ends_with(&[0, 0]) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = wide(new.file);
    let handles = StandardHandles::copy();
    // SAFETY: all-zero is a valid value.
    let mut startup: STARTUPINFOW = unsafe { zeroed() };
    startup.cb = size_of::<STARTUPINFOW>() as u32;
    startup.dwFlags = STARTF_USESTDHANDLES;
    [startup.hStdInput, startup.hStdOutput, startup.hStdError] = handles.raw();
    // SAFETY: as above.
    let mut made: PROCESS_INFORMATION = unsafe { zeroed() };
    // SAFETY: texts that end with zeros and live during the call, the command line writable; an
    // environment that ends with two zeros; valid startup information, and a place for the result.
    done(unsafe {
        CreateProcessW(
            file.as_ptr(),
            new.command_line.as_mut_ptr(),
            null(),
            null(),
            1,
            CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT,
            new.environment.as_ptr().cast(),
            null(),
            &raw const startup,
            &raw mut made,
        )
    })?;
    if made.hProcess.is_null() || made.hThread.is_null() {
        // Wine runs programs of its host so.
        return Err(io::Error::other("it is no program of Windows"));
    }
    // SAFETY: both handles were just made and have no other owner.
    let (process, thread) =
        unsafe { (OwnedHandle::from_raw_handle(made.hProcess), OwnedHandle::from_raw_handle(made.hThread)) };
    Ok(StartedProcess { process: Some(process), thread, id: made.dwProcessId })
}

impl StartedProcess {
    /// The process, until it is resumed.
    pub(crate) fn process(&self) -> Option<BorrowedHandle<'_>> {
        self.process.as_ref().map(AsHandle::as_handle)
    }

    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// Lets it run. If that fails it is ended. One that has ended meanwhile is no error.
    pub(crate) fn resume(mut self) -> io::Result<OwnedHandle> {
        // SAFETY: an open thread.
        if unsafe { ResumeThread(self.thread.as_raw_handle()) } == u32::MAX {
            let error = io::Error::last_os_error();
            if !self.process().is_some_and(has_ended) {
                return Err(error);
            }
        }
        self.process.take().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for StartedProcess {
    fn drop(&mut self) {
        if let Some(process) = self.process() {
            terminate(process, 1);
        }
    }
}
