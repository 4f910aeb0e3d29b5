//! Panics, errors and nested calls in replacements.

use std::sync::atomic::{AtomicU32, Ordering};
use tickwire_winsock::hook::boundary::{WinsockError, answer, answer_or, caught};
use tickwire_winsock::hook::{Hook, KERNEL32, Original, install, last_error, reentrancy};
use windows_sys::Win32::Globalization::{GetSystemDefaultLangID, GetUserDefaultLangID};
use windows_sys::Win32::System::SystemInformation::GetTickCount;

type LanguageFn = unsafe extern "system" fn() -> u16;

#[test]
fn a_panic_in_a_replacement_becomes_an_error() {
    // SAFETY: the type of its documentation.
    static LANGUAGE: Original<LanguageFn> = unsafe { Original::new(KERNEL32, c"GetSystemDefaultLangID") };
    static TABLES: &[&[Hook]] = &[&[Hook::new(&LANGUAGE, language)]];
    unsafe extern "system" fn language() -> u16 {
        answer(7, || panic!("a defect"))
    }
    install(TABLES).unwrap();
    for _ in 0..3 {
        last_error::set(0);
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { GetSystemDefaultLangID() }, 7);
        assert_eq!(last_error::get(), WinsockError::DEFECT.0.cast_unsigned());
        assert!(!reentrancy::is_inside());
    }
}

#[test]
fn what_a_replacement_calls_itself_goes_to_the_original() {
    // SAFETY: the type of its documentation.
    static LANGUAGE: Original<LanguageFn> = unsafe { Original::new(KERNEL32, c"GetUserDefaultLangID") };
    static CALLS: AtomicU32 = AtomicU32::new(0);
    static TABLES: &[&[Hook]] = &[&[Hook::new(&LANGUAGE, language)]];
    unsafe extern "system" fn language() -> u16 {
        let ours = || {
            CALLS.fetch_add(1, Ordering::Relaxed);
            // Hooked: without the mark this had no end.
            // SAFETY: no memory is passed.
            Ok(Some(!unsafe { GetUserDefaultLangID() }))
        };
        // SAFETY: no memory is passed.
        answer_or(0, ours, || unsafe { LANGUAGE.get()() })
    }
    install(TABLES).unwrap();
    // SAFETY: no memory is passed.
    let (hooked, real) = unsafe { (GetUserDefaultLangID(), LANGUAGE.get()()) };
    assert_eq!((hooked, CALLS.load(Ordering::Relaxed)), (!real, 1));
}

#[test]
fn calls_of_others_go_to_the_original_which_is_not_marked() {
    // SAFETY: the type of its documentation.
    static TICKS: Original<unsafe extern "system" fn() -> u32> = unsafe { Original::new(KERNEL32, c"GetTickCount") };
    static TABLES: &[&[Hook]] = &[&[Hook::new(&TICKS, ticks)]];
    unsafe extern "system" fn ticks() -> u32 {
        let ours = || {
            assert!(reentrancy::is_inside());
            last_error::set(1);
            Ok(None)
        };
        answer_or(0, ours, || {
            assert!(!reentrancy::is_inside());
            assert_eq!(last_error::get(), 55);
            last_error::set(66);
            // SAFETY: no memory is passed.
            unsafe { TICKS.get()() }
        })
    }
    install(TABLES).unwrap();
    last_error::set(55);
    // SAFETY: no memory is passed.
    assert!(unsafe { GetTickCount() } > 0);
    assert_eq!(last_error::get(), 66);
}

#[test]
fn the_last_error_changes_on_failure_only() {
    /// A part of this library that calls Windows.
    fn noisy<T>(result: T) -> T {
        last_error::set(1);
        result
    }
    last_error::set(55);
    assert_eq!(answer(-1, || noisy(Ok(3))), 3);
    assert_eq!(last_error::get(), 55);
    assert_eq!(caught(-1, || noisy(4)), 4);
    assert_eq!(last_error::get(), 55);
    assert_eq!(caught(-1, || panic!("a defect")), -1);
    assert_eq!(last_error::get(), 55);
    assert_eq!(answer(-1, || noisy(Err(WinsockError(10_057)))), -1);
    assert_eq!(last_error::get(), 10_057);
    assert_eq!(answer_or(-1, || noisy(Err(WinsockError(10_058))), || 9), -1);
    assert_eq!(last_error::get(), 10_058);
}
