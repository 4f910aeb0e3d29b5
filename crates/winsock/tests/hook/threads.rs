//! Hooks under calls of several threads, which are older than the hooks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tickwire_winsock::hook::boundary::answer_or;
use tickwire_winsock::hook::{Hook, KERNEL32, Original, install};
use windows_sys::Win32::Globalization::lstrlenA;
use windows_sys::core::PCSTR;

// SAFETY: the type of its documentation.
static LENGTH: Original<unsafe extern "system" fn(PCSTR) -> i32> = unsafe { Original::new(KERNEL32, c"lstrlenA") };
static TABLES: &[&[Hook]] = &[&[Hook::new(&LENGTH, length)]];

unsafe extern "system" fn length(text: PCSTR) -> i32 {
    // SAFETY: the program's text, here and below.
    let original = || unsafe { LENGTH.get()(text) };
    let ours = || {
        // Nested, so that each call uses the thread's mark.
        // SAFETY: as above.
        let len = unsafe { lstrlenA(text) };
        Ok((len != 0).then_some(len + 1_000))
    };
    answer_or(-1, ours, original)
}

#[test]
fn calls_of_other_threads_go_on_while_hooks_go_in() {
    const THREADS: u32 = 4;
    let (ready, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let installed = AtomicBool::new(false);
    let call = || {
        let (mut calls, mut hooked) = (0_u32, 0_u32);
        ready.fetch_add(1, Ordering::Release);
        while !over.load(Ordering::Acquire) {
            let must = installed.load(Ordering::Acquire);
            // SAFETY: texts that end with a zero.
            let (seven, none) = unsafe { (lstrlenA(c"tickers".as_ptr().cast()), lstrlenA(c"".as_ptr().cast())) };
            assert!(seven == 1_007 || seven == 7 && !must, "{seven}");
            assert_eq!(none, 0);
            calls += 1;
            hooked += u32::from(seven == 1_007);
        }
        (calls, hooked)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(call)).collect();
        while ready.load(Ordering::Acquire) < THREADS {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        install(TABLES).unwrap();
        installed.store(true, Ordering::Release);
        std::thread::sleep(std::time::Duration::from_millis(200));
        over.store(true, Ordering::Release);
        for thread in threads {
            let (calls, hooked) = thread.join().unwrap();
            assert!(hooked > 0 && calls > hooked, "{calls} {hooked}");
        }
    });
}
