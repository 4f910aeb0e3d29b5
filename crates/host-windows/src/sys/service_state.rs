//! Whether a service of Windows runs.

use crate::firewall::FirewallError;
use std::io;
use std::mem::zeroed;
use std::ptr::null;
use windows_sys::Win32::Foundation::ERROR_SERVICE_DOES_NOT_EXIST;
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, OpenSCManagerW, OpenServiceW, QUERY_SERVICE_CONFIGW, QueryServiceConfigW, QueryServiceStatus,
    SC_HANDLE, SC_MANAGER_CONNECT, SERVICE_DISABLED, SERVICE_QUERY_CONFIG, SERVICE_QUERY_STATUS, SERVICE_STATUS,
    SERVICE_STOPPED,
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

/// Whether Windows' firewall is at work: its service (`MpsSvc`) is there, and runs. One that is
/// switched off filters nothing.
///
/// # Errors
/// If the service manager does not say; [`FirewallError::Stopped`] if it may start at any time.
/// While Windows starts it filters by rules of its own, before its service runs.
pub(crate) fn runs_firewall() -> Result<bool, FirewallError> {
    let refused = |source| FirewallError::Refused { what: "say whether its firewall runs", source };
    // SAFETY: no names: this machine, and the active services.
    let manager = Opened::new(unsafe { OpenSCManagerW(null(), null(), SC_MANAGER_CONNECT) }).map_err(refused)?;
    let rights = SERVICE_QUERY_STATUS | SERVICE_QUERY_CONFIG;
    // SAFETY: an open handle, and a text that ends with a zero.
    let service = match Opened::new(unsafe { OpenServiceW(manager.0, w!("MpsSvc"), rights) }) {
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
    if status.dwCurrentState != SERVICE_STOPPED {
        return Ok(true);
    }
    is_at_work(start_type(&service).map_err(refused)?)
}

/// Whether a firewall is at work whose service does not run, by how that is to start.
fn is_at_work(start_type: u32) -> Result<bool, FirewallError> {
    if start_type == SERVICE_DISABLED { Ok(false) } else { Err(FirewallError::Stopped) }
}

/// How a service is to start.
fn start_type(service: &Opened) -> io::Result<u32> {
    // The longest answer (`QueryServiceConfigW`), aligned for it.
    let (mut answer, mut size) = (vec![0_u64; 1024], 0);
    let room = (answer.len() * size_of::<u64>()) as u32;
    // SAFETY: an open handle, room for so many bytes, and for their number.
    if unsafe { QueryServiceConfigW(service.0, answer.as_mut_ptr().cast(), room, &raw mut size) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: longer than the structure, aligned, as the call has written it.
    Ok(unsafe { (*answer.as_ptr().cast::<QUERY_SERVICE_CONFIGW>()).dwStartType })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::System::Services::{SERVICE_AUTO_START, SERVICE_DEMAND_START};

    #[test]
    fn a_firewall_that_is_about_to_start_is_not_one_that_is_at_work() {
        assert!(!is_at_work(SERVICE_DISABLED).unwrap());
        for start_type in [SERVICE_AUTO_START, SERVICE_DEMAND_START] {
            assert!(matches!(is_at_work(start_type), Err(FirewallError::Stopped)));
        }
    }

    #[test]
    fn windows_says_how_a_service_is_to_start() {
        // SAFETY: no names: this machine, and the active services.
        let manager = Opened::new(unsafe { OpenSCManagerW(null(), null(), SC_MANAGER_CONNECT) }).unwrap();
        // SAFETY: an open handle, and a text that ends with a zero.
        let service = unsafe { OpenServiceW(manager.0, w!("PlugPlay"), SERVICE_QUERY_CONFIG) };
        let start = start_type(&Opened::new(service).unwrap()).unwrap();
        assert!([SERVICE_AUTO_START, SERVICE_DEMAND_START].contains(&start), "{start}");
        assert!(start_type(&manager).is_err(), "it is no service");
    }
}
