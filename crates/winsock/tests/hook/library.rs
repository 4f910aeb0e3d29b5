//! The library itself (`tickwire_winsock.dll`) in processes that load it late.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null;
use windows_sys::Win32::Foundation::{FreeLibrary, TRUE, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows_sys::Win32::Security::SECURITY_ATTRIBUTES;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress, LoadLibraryA};
use windows_sys::Win32::System::Threading::{CreateEventW, WaitForSingleObject};

/// Set in the processes of a test.
const ROLE: &str = "TICKWIRE_TEST_ROLE";
const EVENT: &str = "TICKWIRE_LOADED_EVENT";

fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("tickwire_winsock.dll")
}

fn is_attached() -> Option<bool> {
    // SAFETY: a text that ends with a zero.
    let module = unsafe { GetModuleHandleA(c"tickwire_winsock.dll".as_ptr().cast()) };
    if module.is_null() {
        return None;
    }
    // SAFETY: a loaded module, and a text that ends with a zero.
    let function = unsafe { GetProcAddress(module, c"tickwire_winsock_is_attached".as_ptr().cast()) }.unwrap();
    // SAFETY: it has no arguments, and returns a number.
    Some(unsafe { function() } as i32 == 1)
}

/// Whether a function of Winsock begins with a jump.
fn is_winsock_hooked() -> bool {
    let recv = tickwire_winsock::hook::winsock::RECV.get();
    // SAFETY: code can be read.
    [0xe9, 0xeb].contains(unsafe { &*(recv as *const u8) })
}

/// The test of this name, to be run in a process of its own.
fn test(name: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("library::{name}"), "--nocapture"]).env(ROLE, role).env_remove(EVENT);
    command
}

fn assert_passes(command: &mut Command) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// What this process is in the test; `None` in the first one.
fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

fn load() {
    let path = std::ffi::CString::new(library().into_os_string().into_string().unwrap()).unwrap();
    // SAFETY: a library of ours is loaded.
    let module = unsafe { LoadLibraryA(path.as_ptr().cast()) };
    assert!(!module.is_null(), "{}", std::io::Error::last_os_error());
    assert_eq!(is_attached(), Some(true));
    // It stays.
    // SAFETY: the module of above.
    unsafe { FreeLibrary(module) };
    assert_eq!(is_attached(), Some(true));
}

#[test]
fn a_thread_that_is_older_than_the_library_can_call_hooked_functions() {
    if role().is_none() {
        return assert_passes(&mut test("a_thread_that_is_older_than_the_library_can_call_hooked_functions", "loads"));
    }
    let (go, wait) = std::sync::mpsc::channel();
    let older = std::thread::spawn(move || {
        wait.recv().unwrap();
        Command::new("cmd.exe").args(["/c", "exit", "3"]).status().unwrap().code()
    });
    load();
    go.send(()).unwrap();
    assert_eq!(older.join().unwrap(), Some(3));
    let newer = std::thread::spawn(|| Command::new("cmd.exe").args(["/c", "exit", "4"]).status().unwrap().code());
    assert_eq!(newer.join().unwrap(), Some(4));
}

#[test]
fn the_launcher_is_told_once() {
    if role().is_some() {
        assert!(std::env::var_os(EVENT).is_some());
        load();
        assert_eq!(std::env::var_os(EVENT), None, "a child would take it for its own");
        return;
    }
    let attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: std::ptr::null_mut(),
        bInheritHandle: TRUE,
    };
    // SAFETY: valid attributes, and no name; the handle has no other owner.
    let event = unsafe { OwnedHandle::from_raw_handle(CreateEventW(&raw const attributes, 0, 0, null())) };
    let value = (event.as_raw_handle() as usize).to_string();
    assert_passes(test("the_launcher_is_told_once", "loads").env(EVENT, value));
    // SAFETY: an open handle.
    let wait = || unsafe { WaitForSingleObject(event.as_raw_handle(), 0) };
    assert_eq!(wait(), WAIT_OBJECT_0);
    assert_eq!(wait(), WAIT_TIMEOUT);
}

#[test]
fn programs_that_a_program_starts_load_the_library_too() {
    let name = "programs_that_a_program_starts_load_the_library_too";
    match role().as_deref() {
        None => {
            assert_passes(&mut test(name, "loads"));
            assert_passes(test(name, "loads, but its children do not").env("TICKWIRE_CHILDREN", "0"));
        }
        Some("loads") => {
            load();
            assert_passes(&mut test(name, "child"));
        }
        Some("child") => {
            // Hooks went in before the program's modules were initialised.
            assert!(is_attached() == Some(true) && is_winsock_hooked());
            assert_passes(&mut test(name, "grandchild"));
        }
        Some("grandchild") => assert_eq!(is_attached(), Some(true)),
        Some("loads, but its children do not") => {
            load();
            assert_passes(&mut test(name, "child without"));
        }
        Some(_) => assert!(is_attached().is_none() && !is_winsock_hooked()),
    }
}
