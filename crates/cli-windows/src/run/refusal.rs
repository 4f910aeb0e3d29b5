//! Why Windows does not start a program, or not its code: in a sentence that says what to do.

use std::io;
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_ACCESS_DISABLED_BY_POLICY, ERROR_ELEVATION_REQUIRED,
    ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION, ERROR_VIRUS_DELETED, ERROR_VIRUS_INFECTED, STATUS_DLL_INIT_FAILED,
    STATUS_DLL_NOT_FOUND, STATUS_ENTRYPOINT_NOT_FOUND, STATUS_INVALID_IMAGE_FORMAT, STATUS_INVALID_IMAGE_HASH,
};

/// What an error of `CreateProcessW` means.
pub(super) fn sentence(error: &io::Error) -> String {
    let known = match error.raw_os_error().unwrap_or(0).cast_unsigned() {
        ERROR_ACCESS_DISABLED_BY_POLICY | ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION => {
            "a policy of this machine forbids to start it (AppLocker, Smart App Control and the like): ask its administrator to allow it"
        }
        ERROR_VIRUS_INFECTED | ERROR_VIRUS_DELETED => {
            "the virus scanner forbids to start it: have it allow the program, or tickwire.exe and its library"
        }
        ERROR_ELEVATION_REQUIRED => "it needs administrator rights: start `tickwire run` as administrator",
        ERROR_ACCESS_DENIED => {
            "this user may not execute it: look at the file's permissions, and at the virus scanner's log"
        }
        _ => return format!("cannot be started: {error}"),
    };
    known.into()
}

/// What the exit code of a program means that Windows' loader has ended. `None`: the program has
/// ended itself.
pub(super) fn of_loader(code: u32) -> Option<&'static str> {
    Some(match code.cast_signed() {
        STATUS_DLL_NOT_FOUND => {
            "Windows has ended it before it ran, because a library that it needs is missing (0xc0000135): start it without `tickwire run` to see whether it is one of its own"
        }
        STATUS_ENTRYPOINT_NOT_FOUND => {
            "Windows has ended it before it ran, because a library that it needs is of another version (0xc0000139): start it without `tickwire run` to see whether it is one of its own"
        }
        STATUS_DLL_INIT_FAILED => {
            "Windows has ended it before it ran, because a library did not start (0xc0000142): start it without `tickwire run` to see whether it is one of its own"
        }
        STATUS_INVALID_IMAGE_FORMAT => {
            "Windows has ended it before it ran, because a library is for another processor (0xc000007b): start it without `tickwire run` to see whether it is one of its own"
        }
        STATUS_INVALID_IMAGE_HASH => {
            "Windows has ended it before it ran, because a policy wants signed libraries only (0xc0000428): ask the administrator to allow tickwire_winsock.dll"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_to_do() {
        let said = |code: u32| sentence(&io::Error::from_raw_os_error(code.cast_signed()));
        for code in [ERROR_ACCESS_DISABLED_BY_POLICY, ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION] {
            assert!(said(code).contains("a policy"), "{}", said(code));
        }
        assert!(said(ERROR_VIRUS_INFECTED).contains("virus scanner"));
        assert!(said(ERROR_ELEVATION_REQUIRED).contains("as administrator"));
        assert!(said(8).starts_with("cannot be started: "), "{}", said(8));
    }

    #[test]
    fn only_exit_codes_of_the_loader_are_explained() {
        assert!(of_loader(0xc000_0135).unwrap().contains("missing"));
        assert!(of_loader(0xc000_0428).unwrap().contains("policy"));
        assert_eq!([0, 1, 69, 0xc000_0005].map(of_loader), [None; 4]);
    }
}
