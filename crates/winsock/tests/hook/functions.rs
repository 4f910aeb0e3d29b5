//! Functions of modules that are loaded, and of one that is loaded later.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use tickwire_winsock::hook::winsock::GET_PEER_NAME;
use tickwire_winsock::hook::winsock_types::GetPeerNameFn;
use tickwire_winsock::hook::{Hook, KERNEL32, Original, WSOCK32, install};
use windows_sys::Win32::Foundation::FreeLibrary;
use windows_sys::Win32::Networking::WinSock::{SOCKADDR, SOCKET};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress, LoadLibraryA};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;

type TicksFn = unsafe extern "system" fn() -> u64;

#[test]
fn a_replacement_is_called_and_the_original_still_works() {
    // SAFETY: the type of its documentation.
    static TICKS: Original<TicksFn> = unsafe { Original::new(KERNEL32, c"GetTickCount64") };
    unsafe extern "system" fn ticks() -> u64 {
        42
    }
    static TABLES: &[&[Hook]] = &[&[Hook::new(&TICKS, ticks)]];

    // SAFETY: no memory is passed, here and below.
    let before = unsafe { TICKS.get()() };
    assert!(!TICKS.is_hooked());
    install(TABLES).unwrap();
    assert!(TICKS.is_hooked());
    // SAFETY: as above.
    let (hooked, real) = unsafe { (GetTickCount64(), TICKS.get()()) };
    assert_eq!(hooked, 42);
    assert!(real >= before && real < before + 60_000, "{before} {real}");
    install(TABLES).expect("there is nothing left to do");
    // SAFETY: as above.
    assert_eq!(unsafe { GetTickCount64() }, 42);
}

#[test]
fn hooks_of_a_module_go_in_when_it_is_loaded() {
    type TimeFn = unsafe extern "system" fn() -> u32;
    // SAFETY: the type of its documentation.
    static TIME: Original<TimeFn> = unsafe { Original::new(c"winmm.dll", c"timeGetTime") };
    unsafe extern "system" fn time() -> u32 {
        // SAFETY: no memory is passed.
        unsafe { TIME.get()() }.wrapping_sub(1_000_000)
    }
    static TABLES: &[&[Hook]] = &[&[Hook::new(&TIME, time)]];
    let name = c"winmm.dll".as_ptr().cast();

    // SAFETY: a text that ends with a zero.
    assert!(unsafe { GetModuleHandleA(name) }.is_null(), "it must not be loaded yet");
    install(TABLES).unwrap();
    assert!(!TIME.is_hooked());
    // SAFETY: a module of Windows is loaded.
    let module = unsafe { LoadLibraryA(c"WinMM".as_ptr().cast()) };
    assert!(TIME.is_hooked());
    // SAFETY: a loaded module, and a text that ends with a zero.
    let export = unsafe { GetProcAddress(module, c"timeGetTime".as_ptr().cast()) }.unwrap();
    // SAFETY: this is the type of that function.
    let export = unsafe { std::mem::transmute::<unsafe extern "system" fn() -> isize, TimeFn>(export) };
    // SAFETY: no memory is passed.
    let (hooked, real) = unsafe { (export(), TIME.get()()) };
    assert!((1_000_000..1_060_000).contains(&real.wrapping_sub(hooked)), "{real} {hooked}");
    // Its code is patched, so it stays although the program is done with it.
    // SAFETY: the module that was loaded above.
    unsafe { FreeLibrary(module) };
    // SAFETY: a text that ends with a zero.
    assert!(!unsafe { GetModuleHandleA(name) }.is_null());
}

#[test]
fn a_forwarded_export_is_hooked_once() {
    // SAFETY: the type of its documentation.
    static FORWARDED: Original<GetPeerNameFn> = unsafe { Original::new(WSOCK32, c"getpeername") };
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "system" fn peer_name(socket: SOCKET, name: *mut SOCKADDR, len: *mut i32) -> i32 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the arguments are passed on.
        unsafe { GET_PEER_NAME.get()(socket, name, len) }
    }
    static TABLES: &[&[Hook]] = &[&[Hook::new(&GET_PEER_NAME, peer_name)], &[Hook::new(&FORWARDED, peer_name)]];

    // SAFETY: the arguments are refused. This loads the module.
    assert_eq!(unsafe { FORWARDED.get()(0, null_mut(), null_mut()) }, -1);
    install(TABLES).unwrap();
    assert!(GET_PEER_NAME.is_hooked() && FORWARDED.is_hooked());
    for original in [&GET_PEER_NAME, &FORWARDED] {
        // SAFETY: the arguments are refused.
        assert_eq!(unsafe { original.get()(0, null_mut(), null_mut()) }, -1);
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 0, "originals are behind the hooks");
    // SAFETY: the arguments are refused.
    unsafe { windows_sys::Win32::Networking::WinSock::getpeername(0, null_mut(), null_mut()) };
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}
