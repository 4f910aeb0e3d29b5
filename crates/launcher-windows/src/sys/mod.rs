//! The calls of Windows. Each file has one group of functions, and a safe face.
#![expect(unsafe_code, reason = "calls of Windows")]

mod console;
mod job;
mod loaded_event;
mod memory;
mod process;
mod standard_handles;
mod start;
mod thread;

pub(crate) use console::InterruptsIgnored;
pub(crate) use job::Job;
pub(crate) use loaded_event::LoadedEvent;
pub(crate) use memory::RemoteProcess;
pub(crate) use process::{exit_code, has_ended, terminate, wait, wait_for_either};
pub(crate) use start::{NewProcess, StartedProcess, start};
pub(crate) use thread::load_library;

use std::io;
use std::os::windows::ffi::OsStrExt;
use windows_sys::core::BOOL;

/// The result of a call that says whether it was done.
fn done(result: BOOL) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A text in UTF-16, ended by a zero.
pub(crate) fn wide(text: impl AsRef<std::ffi::OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}
