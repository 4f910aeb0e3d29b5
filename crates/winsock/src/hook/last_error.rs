//! The thread's last error, which `GetLastError` and `WSAGetLastError` return.

use super::boundary::WinsockError;
use super::winsock::WSA_SET_LAST_ERROR;
use windows_sys::Win32::Foundation::{GetLastError, SetLastError};

/// The last error.
#[inline]
#[must_use]
pub fn get() -> u32 {
    // SAFETY: no memory is passed.
    unsafe { GetLastError() }
}

/// Puts a last error back.
#[inline]
pub fn set(error: u32) {
    // SAFETY: no memory is passed.
    unsafe { SetLastError(error) }
}

/// Sets the error of a call that fails, in the way of Winsock if the process has it. (On all known
/// versions of Windows both are one word.)
pub fn set_error(error: WinsockError) {
    match WSA_SET_LAST_ERROR.if_loaded() {
        // SAFETY: the real function; no memory is passed.
        Some(function) => unsafe { function(error.0) },
        None => set(error.0.cast_unsigned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn winsock_and_windows_have_one_last_error() {
        set_error(WinsockError(10_035));
        assert_eq!(get(), 10_035);
        set(87);
        assert_eq!(get(), 87);
        // Winsock is loaded, and the same holds.
        let _ = WSA_SET_LAST_ERROR.get();
        set_error(WinsockError(10_054));
        assert_eq!(get(), 10_054);
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { super::super::winsock::WSA_GET_LAST_ERROR.get()() }, 10_054);
    }
}
