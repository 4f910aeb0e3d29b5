//! If one hook cannot go in, none does.

use tickwire_winsock::hook::{Hook, HookError, KERNEL32, NTDLL, Original, install};
use windows_sys::Win32::Globalization::{GetACP, GetOEMCP, GetSystemDefaultLCID};

type NumberFn = unsafe extern "system" fn() -> u32;

unsafe extern "system" fn replacement() -> u32 {
    4_242
}

#[test]
fn a_missing_function_leaves_all_as_they_were() {
    // SAFETY: the type of its documentation.
    static GOOD: Original<NumberFn> = unsafe { Original::new(KERNEL32, c"GetOEMCP") };
    // SAFETY: it does not exist.
    static MISSING: Original<NumberFn> = unsafe { Original::new(KERNEL32, c"NoSuchFunction") };
    static TABLES: &[&[Hook]] = &[&[Hook::new(&GOOD, replacement), Hook::new(&MISSING, replacement)]];

    let error = install(TABLES).unwrap_err();
    assert!(matches!(&error, HookError::Missing(name) if name == "kernel32.dll!NoSuchFunction"), "{error}");
    // SAFETY: no memory is passed.
    assert_ne!(unsafe { GetOEMCP() }, 4_242);
    assert!(!GOOD.is_hooked() && !MISSING.is_hooked());
}

#[test]
fn a_function_that_cannot_be_patched_leaves_all_as_they_were() {
    // SAFETY: the type of its documentation.
    static GOOD: Original<NumberFn> = unsafe { Original::new(KERNEL32, c"GetACP") };
    // SAFETY: not a function, and never called.
    static DATA: Original<NumberFn> = unsafe { Original::new(NTDLL, c"NlsAnsiCodePage") };
    static TABLES: &[&[Hook]] = &[&[Hook::new(&GOOD, replacement)], &[Hook::new(&DATA, replacement)]];
    static REST: &[&[Hook]] = &[&[Hook::new(&GOOD, replacement)]];

    let error = install(TABLES).unwrap_err();
    let is_it =
        |error: &HookError| matches!(error, HookError::Refused { function, .. } if function.ends_with("CodePage"));
    assert!(is_it(&error), "{error}");
    // SAFETY: no memory is passed, here and below.
    assert_ne!(unsafe { GetACP() }, 4_242);
    assert!(!GOOD.is_hooked());
    // What was prepared was taken back, so the rest can be hooked alone.
    install(REST).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { GetACP() }, 4_242);
}

#[test]
fn a_function_of_newer_versions_may_be_missing() {
    // SAFETY: the type of its documentation.
    static GOOD: Original<NumberFn> = unsafe { Original::new(KERNEL32, c"GetSystemDefaultLCID") };
    // SAFETY: it does not exist.
    static MISSING: Original<NumberFn> = unsafe { Original::new(KERNEL32, c"NoSuchFunctionYet") };
    static TABLES: &[&[Hook]] = &[&[Hook::if_present(&MISSING, replacement), Hook::new(&GOOD, replacement)]];

    install(TABLES).unwrap();
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { GetSystemDefaultLCID() }, 4_242);
    assert!(!MISSING.is_hooked());
}
