//! Windows.

use std::ffi::{CStr, OsStr, OsString, c_int};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};
use std::time::Duration;
use windows_sys::Win32::Foundation::{CloseHandle, ERROR_SUCCESS, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1,
    SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    EqualSid, GetTokenInformation, IsWellKnownSid, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID,
    SECURITY_ATTRIBUTES, TOKEN_QUERY, TOKEN_USER, TokenUser, WinBuiltinAdministratorsSid, WinLocalSystemSid,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, CreateDirectoryW, FILE_FLAG_OPEN_REPARSE_POINT, GetFileInformationByHandle,
};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, PAGE_READONLY,
    PAGE_READWRITE, UnmapViewOfFile,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// The path of the service's page, in the machine's folder for program data.
pub(crate) fn service_page() -> PathBuf {
    let data = std::env::var_os("ProgramData").unwrap_or_else(|| r"C:\ProgramData".into());
    Path::new(&data).join("Tickwire").join("clock")
}

/// An environment variable. A program does not get more privileges than its user by being started.
pub(crate) fn secure_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The number of this boot, counted by Windows from 10 on (`BootId` of `KUSER_SHARED_DATA` in the
/// WDK's ntddk.h); empty if there is none, as under Wine.
pub(crate) fn boot_id() -> String {
    /// Of the structure in every process, and of its field.
    const BOOT_ID: usize = 0x7ffe_0000 + 0x2c4;
    // SAFETY: Windows maps this page, to be read only, at this address into every process.
    let number = unsafe { std::ptr::with_exposed_provenance::<u32>(BOOT_ID).read_volatile() };
    if number == 0 { String::new() } else { format!("{number:016x}") }
}

/// Sleeps, by a clock that is never set.
pub(crate) fn nap(time: Duration) {
    std::thread::sleep(time);
}

/// Opens a page to be read.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens the file of a page to be written, or makes it. `None`: the path is a symbolic link.
pub(crate) fn open_to_write(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    let file = options.open(path)?;
    let is_link = file.metadata()?.is_symlink();
    Ok((!is_link).then_some(file))
}

/// Whether an open file is still the one at this path.
pub(crate) fn has_name(file: &File, path: &Path) -> bool {
    let named = OpenOptions::new().read(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path);
    named.is_ok_and(|named| identity(file).is_some_and(|file| identity(&named) == Some(file)))
}

/// The volume of a file, and its number there.
fn identity(file: &File) -> Option<[u32; 3]> {
    // SAFETY: all-zero is a valid value.
    let mut found: BY_HANDLE_FILE_INFORMATION = unsafe { zeroed() };
    // SAFETY: an open file, and a place for the result.
    let done = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) };
    (done != 0).then_some([found.dwVolumeSerialNumber, found.nFileIndexHigh, found.nFileIndexLow])
}

/// Memory that the system has allocated.
struct Local(*mut core::ffi::c_void);

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: from a function of the system whose result is to be freed so; null is allowed.
        unsafe { LocalFree(self.0) };
    }
}

/// The owner of a file, if it is neither this user nor an administrator.
pub(crate) fn stranger(file: &File) -> io::Result<Option<String>> {
    let (mut owner, mut descriptor): (PSID, PSECURITY_DESCRIPTOR) = (null_mut(), null_mut());
    // SAFETY: an open file, and places for the results.
    let code = unsafe {
        GetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut descriptor,
        )
    };
    let _descriptor = Local(descriptor);
    if code != ERROR_SUCCESS {
        return Err(io::Error::from_raw_os_error(code.cast_signed()));
    }
    // SAFETY: the owner is valid for as long as the descriptor, which holds it.
    let is = |kind| unsafe { IsWellKnownSid(owner, kind) } != 0;
    if is(WinLocalSystemSid) || is(WinBuiltinAdministratorsSid) || is_this_user(owner)? {
        return Ok(None);
    }
    let mut text = null_mut();
    // SAFETY: a valid identifier, and a place for the result.
    if unsafe { ConvertSidToStringSidW(owner, &raw mut text) } == 0 {
        return Ok(Some("unknown".into()));
    }
    let held = Local(text.cast());
    // SAFETY: a string that ends with a zero.
    let len = (0..256).find(|&at| unsafe { text.add(at).read() } == 0).unwrap_or(0);
    // SAFETY: so many characters were just read.
    let name = String::from_utf16_lossy(unsafe { core::slice::from_raw_parts(text, len) });
    drop(held);
    Ok(Some(name))
}

/// Whether this process runs as this user.
fn is_this_user(user: PSID) -> io::Result<bool> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the pseudo-handle of this process, and a place for the result.
    if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // Aligned, and with room for the longest identifier (68 bytes).
    let mut place = [0_u64; 16];
    let mut len = 0;
    let size = size_of_val(&place) as u32;
    // SAFETY: an open token, and a place of this size.
    let done = unsafe { GetTokenInformation(token, TokenUser, place.as_mut_ptr().cast(), size, &raw mut len) };
    let error = io::Error::last_os_error();
    // SAFETY: opened above.
    unsafe { CloseHandle(token) };
    if done == 0 {
        return Err(error);
    }
    // SAFETY: the system has written such a structure there; the place is aligned for it.
    let own = unsafe { place.as_ptr().cast::<TOKEN_USER>().read() };
    // SAFETY: two valid identifiers.
    Ok(unsafe { EqualSid(own.User.Sid, user) } != 0)
}

/// Makes a directory in which only administrators may make or change files, and all may read.
/// Otherwise it would inherit from the folder of program data that users may make files.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    const RIGHTS: &str = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;CO)(A;OICI;GRGX;;;BU)";
    let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
    let rights = wide(OsStr::new(RIGHTS));
    // SAFETY: a string that ends with a zero, and a place for the result.
    let done = unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            rights.as_ptr(),
            SDDL_REVISION_1,
            &raw mut descriptor,
            null_mut(),
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    let held = Local(descriptor);
    let attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: held.0,
        bInheritHandle: 0,
    };
    let path = wide(path.as_os_str());
    // SAFETY: a path that ends with a zero, and valid attributes.
    if unsafe { CreateDirectoryW(path.as_ptr(), &raw const attributes) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn wide(text: &OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}

/// Lets all read a file: it inherits that from its directory.
#[expect(clippy::unnecessary_wraps, reason = "as on other systems")]
pub(crate) fn let_all_read(_: &File) -> io::Result<()> {
    Ok(())
}

/// Removes a file that programs have mapped. Its name is free at once: the file is renamed first,
/// because the system keeps it, and its name, until no program uses it.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let aside = |number: u32| path.with_extension(format!("old{number}"));
    // One that no program uses any more goes now.
    let is_free = |old: &PathBuf| std::fs::remove_file(old).is_ok() || !old.exists();
    let old = (0..64).map(aside).find(is_free).unwrap_or_else(|| aside(64));
    std::fs::rename(path, &old)?;
    // Else the next one to be removed finds it.
    let _ = std::fs::remove_file(&old);
    Ok(())
}

/// Maps the first `size` bytes of a file that is so long.
pub(crate) fn map(file: &File, size: usize, writable: bool) -> io::Result<NonNull<u8>> {
    let (protection, access) =
        if writable { (PAGE_READWRITE, FILE_MAP_READ | FILE_MAP_WRITE) } else { (PAGE_READONLY, FILE_MAP_READ) };
    // SAFETY: an open file; the mapping has no name.
    let section = unsafe { CreateFileMappingW(file.as_raw_handle(), null(), protection, 0, 0, null()) };
    if section.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new view, at an address that the system chooses.
    let view = unsafe { MapViewOfFile(section, access, 0, 0, size) }.Value;
    let error = io::Error::last_os_error();
    // SAFETY: made above; the view keeps the section.
    unsafe { CloseHandle(section) };
    NonNull::new(view.cast()).ok_or(error)
}

/// Removes a mapping.
///
/// # Safety
/// It is from [`map`] with this size, and nothing uses it any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, _: usize) {
    // SAFETY: as the caller promises. An error would only leak the mapping.
    unsafe { UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: start.as_ptr().cast() }) };
}

/// A path that a C program gives, in UTF-8.
pub(crate) fn path(text: &CStr) -> PathBuf {
    text.to_string_lossy().into_owned().into()
}

/// The C API's number of a system's error.
pub(crate) fn errno(error: &io::Error) -> c_int {
    match error.kind() {
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => libc::EIO,
    }
}
