//! Security descriptors.

use crate::sys::wide;
use std::io;
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};

/// Memory that the system has allocated.
pub(crate) struct LocalMemory(pub(crate) *mut core::ffi::c_void);

impl Drop for LocalMemory {
    fn drop(&mut self) {
        // SAFETY: from a function of the system whose result is to be freed so; null is allowed.
        unsafe { LocalFree(self.0) };
    }
}

/// A security descriptor.
pub(crate) struct SecurityDescriptor(LocalMemory);

// SAFETY: the memory has one owner, and is not changed.
unsafe impl Send for SecurityDescriptor {}
// SAFETY: as above.
unsafe impl Sync for SecurityDescriptor {}

impl SecurityDescriptor {
    /// That of this text in SDDL.
    pub(crate) fn from_text(text: &str) -> io::Result<Self> {
        let text = wide(text);
        let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
        // SAFETY: a string that ends with a zero, and a place for the result.
        let done = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                null_mut(),
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(LocalMemory(descriptor))) }
    }

    /// The attributes of an object with this descriptor, which no child process inherits. They are
    /// valid for as long as the descriptor.
    pub(crate) fn attributes(&self) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: self.0.0,
            bInheritHandle: 0,
        }
    }
}
