//! The access list of the pipe, and its owner.

use crate::security_descriptor::{LocalMemory, SecurityDescriptor};
use crate::sys::own;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{ERROR_SUCCESS, HANDLE};
use windows_sys::Win32::Security::Authorization::{ConvertSidToStringSidW, GetSecurityInfo, SE_KERNEL_OBJECT};
use windows_sys::Win32::Security::{
    EqualSid, GetTokenInformation, IsWellKnownSid, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, TOKEN_QUERY,
    TOKEN_USER, TokenUser, WinBuiltinAdministratorsSid, WinLocalSystemSid,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_READ_ATTRIBUTES, FILE_READ_DATA, FILE_WRITE_ATTRIBUTES, FILE_WRITE_DATA, READ_CONTROL, SYNCHRONIZE,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// What a client may do with the pipe, and asks for: read, write, set its read mode, look at its
/// owner. It may not make instances (`FILE_CREATE_PIPE_INSTANCE`), so it cannot pose as the
/// service. That right is `FILE_APPEND_DATA`, which is part of `GENERIC_WRITE`.
pub(super) const CLIENT_ACCESS: u32 =
    FILE_READ_DATA | FILE_WRITE_DATA | FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE;

impl SecurityDescriptor {
    /// That of a pipe which a user or group (a SID in SDDL) may use. LocalSystem, administrators
    /// and the user of the service may do all.
    pub(super) fn of_pipe(clients: &str) -> io::Result<Self> {
        // Nothing else may be put into the text below.
        if clients.is_empty() || !clients.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let own = sid_text(ThisUser::new()?.sid())?;
        // The owner is named, because Wine 8 gives the pipe none otherwise.
        Self::from_text(&format!(
            "O:{own}D:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;FA;;;{own})(A;;{CLIENT_ACCESS:#x};;;{clients})"
        ))
    }
}

/// Whether a pipe belongs to LocalSystem, the administrators or this user: only the service, or
/// this user, can have made it.
pub(super) fn is_owner_trusted(pipe: BorrowedHandle<'_>) -> io::Result<bool> {
    let (mut owner, mut descriptor): (PSID, PSECURITY_DESCRIPTOR) = (null_mut(), null_mut());
    // SAFETY: an open pipe, and places for the results.
    let code = unsafe {
        GetSecurityInfo(
            pipe.as_raw_handle(),
            SE_KERNEL_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut descriptor,
        )
    };
    let _descriptor = LocalMemory(descriptor);
    if code != ERROR_SUCCESS {
        return Err(io::Error::from_raw_os_error(code.cast_signed()));
    }
    if owner.is_null() {
        return Ok(false);
    }
    // SAFETY: the owner is valid for as long as the descriptor, which holds it.
    let is = |kind| unsafe { IsWellKnownSid(owner, kind) } != 0;
    if is(WinLocalSystemSid) || is(WinBuiltinAdministratorsSid) {
        return Ok(true);
    }
    let user = ThisUser::new()?;
    // SAFETY: two valid identifiers.
    Ok(unsafe { EqualSid(user.sid(), owner) } != 0)
}

/// The user as which this process runs. The structure points into its own memory, which therefore
/// does not move.
struct ThisUser(Box<[u64; 16]>);

impl ThisUser {
    fn new() -> io::Result<Self> {
        let mut token: HANDLE = null_mut();
        // SAFETY: the pseudo-handle of this process, and a place for the result.
        if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) } == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the result of that call.
        let token: OwnedHandle = unsafe { own(token) }?;
        // Aligned, and with room for the longest identifier (68 bytes).
        let mut place = Box::new([0_u64; 16]);
        let mut len = 0;
        let size = size_of_val(&*place) as u32;
        // SAFETY: an open token, and a place of this size.
        let done = unsafe {
            GetTokenInformation(token.as_raw_handle(), TokenUser, place.as_mut_ptr().cast(), size, &raw mut len)
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(place)) }
    }

    /// Its identifier, valid for as long as this.
    fn sid(&self) -> PSID {
        // SAFETY: the system has written such a structure there; the place is aligned for it.
        unsafe { self.0.as_ptr().cast::<TOKEN_USER>().read() }.User.Sid
    }
}

/// An identifier as text (`S-1-...`).
fn sid_text(sid: PSID) -> io::Result<String> {
    /// Longer than any.
    const LONGEST: usize = 256;
    let mut text = null_mut();
    // SAFETY: a valid identifier, and a place for the result.
    if unsafe { ConvertSidToStringSidW(sid, &raw mut text) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let _held = LocalMemory(text.cast());
    // SAFETY: a string that ends with a zero.
    let len = (0..LONGEST).find(|&at| unsafe { text.add(at).read() } == 0).unwrap_or(0);
    // SAFETY: so many characters were just read.
    Ok(String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(text, len) }))
}
