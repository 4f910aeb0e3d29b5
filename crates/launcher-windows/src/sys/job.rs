//! A job: a program ends with the process that has started it.

use super::done;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject,
};

/// A job with one process, which ends with this value, and if this process is killed. Processes
/// that it starts are not in the job.
#[derive(Debug)]
pub(crate) struct Job {
    _handle: OwnedHandle,
}

impl Job {
    /// Puts a process into a job. (Before Windows 8 one that is in another job cannot be.)
    pub(crate) fn of(process: BorrowedHandle<'_>) -> io::Result<Self> {
        // SAFETY: no attributes: the program does not inherit the handle. No name.
        let job = unsafe { CreateJobObjectW(null(), null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new handle.
        let job = unsafe { OwnedHandle::from_raw_handle(job) };
        // SAFETY: all-zero is a valid value.
        let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { zeroed() };
        limits.BasicLimitInformation.LimitFlags =
            JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK;
        let size = size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32;
        // SAFETY: an open job, and so many bytes.
        done(unsafe {
            SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size,
            )
        })?;
        // SAFETY: an open job and an open process.
        done(unsafe { AssignProcessToJobObject(job.as_raw_handle(), process.as_raw_handle()) })?;
        Ok(Self { _handle: job })
    }
}
