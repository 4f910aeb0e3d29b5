//! A thread in another process that loads a library.

use super::memory::RemoteProcess;
use super::process::{exit_code, has_ended, wait};
use super::{done, wide};
use crate::error::ThreadError;
use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr::{null, null_mut, without_provenance};
use std::time::Duration;
use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::ProcessStatus::K32EnumProcessModules;
use windows_sys::Win32::System::Threading::{CreateRemoteThread, GetExitCodeThread, LPTHREAD_START_ROUTINE};

/// Modules of the process that are looked at.
const MOST_MODULES: usize = 256;

/// Loads a library in another process, and waits for that.
pub(crate) fn load_library(process: RemoteProcess<'_>, library: &Path, time: Duration) -> Result<(), ThreadError> {
    let refused = |what| move |source| ThreadError::Refused { what, source };
    let text: Vec<u8> = wide(library).into_iter().flat_map(u16::to_le_bytes).collect();
    let memory = process.allocate(text.len()).map_err(refused("allocate memory"))?;
    process.write(memory.at(), &text).map_err(refused("write to its memory"))?;
    let thread = load_thread(process.handle(), memory.at()).map_err(refused("make a thread"))?;
    if !wait(thread.as_handle(), Some(time)).map_err(refused("wait for the thread"))? {
        // The thread may read its parameter yet.
        memory.leave();
        return Err(ThreadError::TimedOut);
    }
    if has_ended(process.handle()) {
        return Err(ThreadError::Ended(exit_code(process.handle()).unwrap_or_default()));
    }
    let mut result = 0;
    // SAFETY: a thread that has ended, and a place for the result.
    done(unsafe { GetExitCodeThread(thread.as_raw_handle(), &raw mut result) }).map_err(refused("ask the thread"))?;
    // The result is the lower half of the library's address. That may be 0.
    if result != 0 || has_module_at_4_gib(process.handle()) { Ok(()) } else { Err(ThreadError::NotLoaded) }
}

/// Makes a thread that calls `LoadLibraryW`, for a text at this address there. That function is at
/// the same address in all processes, because all have the same `kernel32` at the same place.
fn load_thread(process: BorrowedHandle<'_>, text: u64) -> io::Result<OwnedHandle> {
    let name = wide("kernel32.dll");
    // SAFETY: a name that ends with a zero.
    let kernel32 = unsafe { GetModuleHandleW(name.as_ptr()) };
    if kernel32.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a loaded library, and a name that ends with a zero.
    let function = unsafe { GetProcAddress(kernel32, c"LoadLibraryW".as_ptr().cast()) };
    let function = function.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: `LoadLibraryW` takes a pointer and returns one, so it is called as a thread's
    // function is; of its result the thread keeps the lower half.
    let routine: LPTHREAD_START_ROUTINE = unsafe { std::mem::transmute(function) };
    let parameter: *const c_void = without_provenance(text as usize);
    // SAFETY: an open process, the address of a function that is there, too, and of its parameter.
    let thread = unsafe { CreateRemoteThread(process.as_raw_handle(), null(), 0, routine, parameter, 0, null_mut()) };
    if thread.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just made and has no other owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(thread) })
}

/// Whether a library is at a multiple of 4 GiB, as one of some ten thousand is.
fn has_module_at_4_gib(process: BorrowedHandle<'_>) -> bool {
    let mut modules: [HMODULE; MOST_MODULES] = [null_mut(); MOST_MODULES];
    let (size, mut needed) = (size_of_val(&modules) as u32, 0);
    // SAFETY: an open process, room for so many bytes, and a place for their number.
    let listed = unsafe { K32EnumProcessModules(process.as_raw_handle(), modules.as_mut_ptr(), size, &raw mut needed) };
    let count = needed as usize / size_of::<HMODULE>();
    // The first one is the program.
    listed != 0 && modules.iter().take(count).skip(1).any(|module| module.addr() as u32 == 0)
}
