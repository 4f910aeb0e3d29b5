//! The file of a process's program.

use crate::error::{IpHelperError, Result};
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};
use windows_sys::Win32::System::Threading::{PROCESS_NAME_WIN32, QueryFullProcessImageNameW};

/// The longest path of Windows, in characters.
const LONGEST: usize = 32_768;

/// The full path of the program that a process runs.
///
/// # Errors
/// If Windows does not say.
pub(crate) fn process_image(process: BorrowedHandle<'_>) -> Result<String> {
    let mut path = vec![0; LONGEST];
    let mut length = LONGEST as u32;
    // SAFETY: an open process, room for so many characters, and for their number.
    let done = unsafe {
        QueryFullProcessImageNameW(process.as_raw_handle(), PROCESS_NAME_WIN32, path.as_mut_ptr(), &raw mut length)
    };
    if done == 0 {
        return Err(IpHelperError::Refused { what: "name a process's program", source: io::Error::last_os_error() });
    }
    path.truncate(length as usize);
    Ok(String::from_utf16_lossy(&path))
}
