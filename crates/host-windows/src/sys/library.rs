//! Functions that are looked up at run time, because older systems or Wine lack them.

use std::ffi::CStr;
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::FARPROC;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};

/// A function of a library that this program has loaded.
pub(super) fn function(library: &CStr, name: &CStr) -> FARPROC {
    // SAFETY: a name that ends with a zero.
    let module = unsafe { GetModuleHandleA(library.as_ptr().cast()) };
    if module.is_null() {
        return None;
    }
    // SAFETY: a loaded library, and a name that ends with a zero.
    unsafe { GetProcAddress(module, name.as_ptr().cast()) }
}

/// A function of the IP Helper API. This crate imports others of the library, so it is loaded.
pub(super) fn ip_helper(name: &CStr) -> FARPROC {
    function(c"iphlpapi.dll", name)
}

/// Whether this is Wine, where some functions only pretend to work.
pub(crate) fn is_wine() -> bool {
    static IS_WINE: OnceLock<bool> = OnceLock::new();
    *IS_WINE.get_or_init(|| function(c"ntdll.dll", c"wine_get_version").is_some())
}
