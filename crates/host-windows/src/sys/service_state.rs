//! Whether a service of Windows runs.

use crate::firewall::FirewallError;
use std::io;
use std::mem::zeroed;
use std::ptr::null;
use windows_sys::Win32::Foundation::ERROR_SERVICE_DOES_NOT_EXIST;
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, OpenSCManagerW, OpenServiceW, QueryServiceStatus, SC_HANDLE, SC_MANAGER_CONNECT,
    SERVICE_QUERY_STATUS, SERVICE_STATUS, SERVICE_STOPPED,
};
use windows_sys::w;

/// A handle of the service manager.
struct Opened(SC_HANDLE);

impl Opened {
    fn new(handle: SC_HANDLE) -> io::Result<Self> {
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: an open handle, which nothing uses any more.
        unsafe { CloseServiceHandle(self.0) };
    }
}

/// Whether Windows' firewall is at work: its service (`MpsSvc`) is there and not stopped. While it
/// is stopped it filters nothing.
///
/// # Errors
/// If the service manager does not say.
pub(crate) fn runs_firewall() -> Result<bool, FirewallError> {
    let refused = |source| FirewallError::Refused { what: "say whether its firewall runs", source };
    // SAFETY: no names: this machine, and the active services.
    let manager = Opened::new(unsafe { OpenSCManagerW(null(), null(), SC_MANAGER_CONNECT) }).map_err(refused)?;
    // SAFETY: an open handle, and a text that ends with a zero.
    let service = match Opened::new(unsafe { OpenServiceW(manager.0, w!("MpsSvc"), SERVICE_QUERY_STATUS) }) {
        Ok(service) => service,
        Err(error) if error.raw_os_error() == Some(ERROR_SERVICE_DOES_NOT_EXIST.cast_signed()) => return Ok(false),
        Err(error) => return Err(refused(error)),
    };
    // SAFETY: all-zero is a valid value.
    let mut status: SERVICE_STATUS = unsafe { zeroed() };
    // SAFETY: an open handle, and room for what the call writes.
    if unsafe { QueryServiceStatus(service.0, &raw mut status) } == 0 {
        return Err(refused(io::Error::last_os_error()));
    }
    Ok(status.dwCurrentState != SERVICE_STOPPED)
}
