//! The program's memory, before it is used: a bad pointer is an error of the call. Without that the
//! fault would end the thread in the midst of the stack, with its lock taken.

use crate::hook::boundary::WinsockError;
use windows_sys::Win32::System::Memory::{IsBadReadPtr, IsBadWritePtr};

/// So much of a buffer is looked at: more than is received at once. To look at all of a large one
/// would have the kernel provide memory for it.
const LOOKED_AT: usize = 1 << 20;

/// # Errors
/// [`WinsockError::FAULT`] if so many bytes cannot be read there.
pub(crate) fn check_readable<T>(at: *const T, len: usize) -> Result<(), WinsockError> {
    // SAFETY: it looks whether the memory may be read, and changes nothing.
    let is_bad = len > 0 && unsafe { IsBadReadPtr(at.cast(), len) } != 0;
    if is_bad { Err(WinsockError::FAULT) } else { Ok(()) }
}

/// # Errors
/// [`WinsockError::FAULT`] if so many bytes cannot be written there, as far as it is looked at.
pub(crate) fn check_writable<T>(at: *const T, len: usize) -> Result<(), WinsockError> {
    // SAFETY: it looks whether the memory may be written, and leaves what is there. Nothing else
    // uses the buffer of a call meanwhile.
    let is_bad = len > 0 && unsafe { IsBadWritePtr(at.cast(), len.min(LOOKED_AT)) } != 0;
    if is_bad { Err(WinsockError::FAULT) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, without_provenance};

    #[test]
    fn bad_pointers_are_found() {
        let (good, constant) = ([0_u8; 8], "text");
        assert_eq!((check_readable(good.as_ptr(), 8), check_writable(good.as_ptr(), 8)), (Ok(()), Ok(())));
        assert_eq!(check_readable(constant.as_ptr(), constant.len()), Ok(()));
        for bad in [null::<u8>(), without_provenance(16)] {
            assert_eq!(check_readable(bad, 1), Err(WinsockError::FAULT));
            assert_eq!(check_writable(bad, 1), Err(WinsockError::FAULT));
            assert_eq!((check_readable(bad, 0), check_writable(bad, 0)), (Ok(()), Ok(())));
        }
    }
}
