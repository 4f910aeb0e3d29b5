//! The user of a process.

use crate::sys::own;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null_mut;
use windows_sys::Win32::Security::{
    GetLengthSid, GetTokenInformation, IsWellKnownSid, PSID, SID_AND_ATTRIBUTES, TOKEN_GROUPS, TOKEN_INFORMATION_CLASS,
    TOKEN_QUERY, TOKEN_USER, TokenGroups, TokenUser, WinBuiltinAdministratorsSid, WinLocalSystemSid,
};
use windows_sys::Win32::System::SystemServices::SE_GROUP_ENABLED;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// The longest answer that is read, in bytes: a user is in 1024 groups at most.
const MAX_SIZE: usize = 256 * 1024;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessUser {
    /// Its identifier (SID).
    pub sid: Vec<u8>,
    /// The process has the rights of an administrator: one that was not elevated has not.
    pub is_administrator: bool,
}

/// The user of a process, whose handle has the right to ask (`PROCESS_QUERY_LIMITED_INFORMATION`).
///
/// # Errors
/// If Windows does not say.
pub fn user_of(process: BorrowedHandle<'_>) -> io::Result<ProcessUser> {
    let mut token = null_mut();
    // SAFETY: an open process, and a place for the result.
    if unsafe { OpenProcessToken(process.as_raw_handle(), TOKEN_QUERY, &raw mut token) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the result of that call.
    let token = unsafe { own(token) }?;
    let user = information(&token, TokenUser, size_of::<TOKEN_USER>())?;
    // SAFETY: at least so many bytes, aligned, as the call has written them.
    let user = unsafe { user.as_ptr().cast::<TOKEN_USER>().read() }.User.Sid;
    Ok(ProcessUser { sid: bytes(user), is_administrator: is(user, WinLocalSystemSid) || has_rights(&token)? })
}

/// The user of this process.
///
/// # Errors
/// As [`user_of`].
pub fn current_user() -> io::Result<ProcessUser> {
    // SAFETY: a handle that is always valid.
    user_of(unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) })
}

/// Whether the group of administrators is one of a token, and in force.
fn has_rights(token: &OwnedHandle) -> io::Result<bool> {
    let groups = information(token, TokenGroups, size_of::<TOKEN_GROUPS>())?;
    let groups = groups.as_ptr().cast::<TOKEN_GROUPS>();
    // SAFETY: at least so many bytes, aligned, as the call has written them.
    let count = unsafe { (*groups).GroupCount } as usize;
    // SAFETY: the groups follow the count, and all are in the answer.
    let groups: &[SID_AND_ATTRIBUTES] =
        unsafe { std::slice::from_raw_parts((&raw const (*groups).Groups).cast(), count) };
    let is_in_force = |group: &SID_AND_ATTRIBUTES| group.Attributes & SE_GROUP_ENABLED.cast_unsigned() != 0;
    Ok(groups.iter().any(|group| is_in_force(group) && is(group.Sid, WinBuiltinAdministratorsSid)))
}

/// An answer about a token, in memory that is aligned for it, and at least so long.
fn information(token: &OwnedHandle, class: TOKEN_INFORMATION_CLASS, least: usize) -> io::Result<Vec<u64>> {
    let mut answer = vec![0_u64; 64];
    loop {
        let mut size = 0;
        let room = (answer.len() * size_of::<u64>()) as u32;
        // SAFETY: an open token, room for so many bytes, and for their number.
        let done = unsafe {
            GetTokenInformation(token.as_raw_handle(), class, answer.as_mut_ptr().cast(), room, &raw mut size)
        };
        let size = size as usize;
        if done != 0 {
            return if size >= least { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
        let error = io::Error::last_os_error();
        if size <= room as usize || size > MAX_SIZE {
            return Err(error);
        }
        answer.resize(size.div_ceil(size_of::<u64>()), 0);
    }
}

/// Whether an identifier is a certain one.
fn is(sid: PSID, known: i32) -> bool {
    // SAFETY: a valid identifier, as Windows has written it.
    unsafe { IsWellKnownSid(sid, known) != 0 }
}

fn bytes(sid: PSID) -> Vec<u8> {
    // SAFETY: a valid identifier, as Windows has written it.
    let length = unsafe { GetLengthSid(sid) } as usize;
    // SAFETY: it has so many bytes.
    unsafe { std::slice::from_raw_parts(sid.cast::<u8>(), length) }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_says_the_user_of_a_process() {
        let user = current_user().unwrap();
        // (Revision 1, and the authority of Windows NT.)
        assert_eq!((user.sid[0], &user.sid[2..8]), (1, &[0, 0, 0, 0, 0, 5][..]));
        assert!(user.is_administrator, "users of Wine are");
        assert_eq!(current_user().unwrap(), user);
        let event = crate::event::WakeEvent::new().unwrap();
        assert!(user_of(std::os::windows::io::AsHandle::as_handle(&event)).is_err(), "no process");
    }
}
