//! Calls of Windows. The only unsafe code of this crate.
#![allow(unsafe_code)]

pub(crate) mod services;

use std::io;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::Foundation::{FreeLibrary, LocalFree};
use windows_sys::Win32::Security::Authorization::ConvertSidToStringSidW;
use windows_sys::Win32::Security::{LookupAccountNameW, SECURITY_MAX_SID_SIZE, SidTypeUnknown};
use windows_sys::Win32::System::LibraryLoader::{LOAD_LIBRARY_AS_DATAFILE, LoadLibraryExW};
use windows_sys::Win32::System::SystemInformation::{OSVERSIONINFOEXW, OSVERSIONINFOW};

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// Whether Windows finds a library by its name. None of its code runs.
pub(crate) fn has_library(name: &str) -> bool {
    let name = wide(name);
    // SAFETY: a text that ends with a zero, and no file.
    let library = unsafe { LoadLibraryExW(name.as_ptr(), null_mut(), LOAD_LIBRARY_AS_DATAFILE) };
    if !library.is_null() {
        // SAFETY: it was just loaded.
        unsafe { FreeLibrary(library) };
    }
    !library.is_null()
}

/// The version of Windows: major, minor, build.
pub(crate) fn windows_version() -> [u32; 3] {
    // SAFETY: all-zero is a valid value.
    let mut version: OSVERSIONINFOW = unsafe { zeroed() };
    version.dwOSVersionInfoSize = size_of::<OSVERSIONINFOW>() as u32;
    // SAFETY: a structure that says its own size. The call does not fail.
    unsafe { RtlGetVersion(&raw mut version) };
    [version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber]
}

/// Whether this is a Windows Server.
pub(crate) fn is_server() -> bool {
    /// `VER_NT_WORKSTATION`.
    const WORKSTATION: u8 = 1;
    // SAFETY: all-zero is a valid value.
    let mut version: OSVERSIONINFOEXW = unsafe { zeroed() };
    version.dwOSVersionInfoSize = size_of::<OSVERSIONINFOEXW>() as u32;
    // SAFETY: a structure that says its own size, of which the call accepts both. It does not fail.
    unsafe { RtlGetVersion((&raw mut version).cast()) };
    version.wProductType != WORKSTATION
}

/// The SID of a user or group of this machine, as text; `None` if there is none of this name.
pub(crate) fn account_sid(name: &str) -> io::Result<Option<String>> {
    let name = wide(name);
    let mut sid = [0_u64; (SECURITY_MAX_SID_SIZE as usize).div_ceil(8)];
    let mut domain = [0_u16; 256];
    let (mut sid_size, mut domain_size) = (size_of_val(&sid) as u32, domain.len() as u32);
    let mut kind = SidTypeUnknown;
    // SAFETY: a text that ends with a zero; room for the results, of the sizes that are passed,
    // aligned as an identifier is to be.
    let found = unsafe {
        LookupAccountNameW(
            null(),
            name.as_ptr(),
            sid.as_mut_ptr().cast(),
            &raw mut sid_size,
            domain.as_mut_ptr(),
            &raw mut domain_size,
            &raw mut kind,
        )
    };
    if found == 0 {
        return Ok(None);
    }
    let mut text = null_mut();
    // SAFETY: a valid identifier, as the call before has made it, and a place for the result.
    if unsafe { ConvertSidToStringSidW(sid.as_mut_ptr().cast(), &raw mut text) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the result of that call, a text that ends with a zero.
    let length = (0..).take_while(|n| unsafe { *text.add(*n) } != 0).count();
    // SAFETY: so many characters, which live until they are freed below.
    let sid = String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(text, length) });
    // SAFETY: memory that the call has allocated, and that nothing refers to any more.
    unsafe { LocalFree(text.cast()) };
    Ok(Some(sid))
}

/// Whether the processor's time stamp counter runs evenly, whatever the processor's frequency and
/// sleep. `None`: not known for this kind of processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_counter_invariant() -> Option<bool> {
    use std::arch::x86_64::__cpuid;
    /// Advanced power management information.
    const POWER: u32 = 0x8000_0007;
    let largest = __cpuid(0x8000_0000).eax;
    Some(largest >= POWER && __cpuid(POWER).edx & 1 << 8 != 0)
}

/// As for other processors: not known.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_counter_invariant() -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_libraries_and_the_version_are_found() {
        assert_eq!(account_sid("Administrators").unwrap().as_deref(), Some("S-1-5-32-544"));
        assert_eq!(account_sid("no such group").unwrap(), None);
        assert!(has_library("kernel32.dll") && !has_library("no_such_library.dll"));
        assert!(windows_version()[0] >= 6, "{:?}", windows_version());
        assert!(!is_server(), "the tests run under Wine, which presents itself as a workstation");
    }
}
