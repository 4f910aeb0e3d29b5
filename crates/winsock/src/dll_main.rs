//! What Windows calls when the library is loaded into a process, and what it exports.

use crate::api;
use crate::hook::child_processes;
use crate::hook::{Hook, attach, is_attached};
use crate::{lane, socket};
use std::ffi::c_void;
use std::io;
use std::os::windows::io::BorrowedHandle;
use std::path::Path;
use tickwire_lane::build_mark::{BuildMark, MARK_BYTES};
use windows_sys::Win32::Foundation::{HINSTANCE, TRUE};
use windows_sys::Win32::System::SystemServices::DLL_PROCESS_ATTACH;
use windows_sys::core::BOOL;

/// All hooks of the library: one table for each family of functions.
static HOOKS: &[&[Hook]] = &[&child_processes::HOOKS, api::HOOKS];

/// Installs the hooks when the process loads the library. Never fails: if it did, a program that
/// imports the library would not start. Without hooks the program runs as it would without us.
#[unsafe(no_mangle)]
extern "system" fn DllMain(_library: HINSTANCE, reason: u32, _reserved: *mut c_void) -> BOOL {
    // At the end of a process its other threads are gone, maybe with locks held. So nothing is
    // done then. The library cannot be unloaded earlier.
    if reason == DLL_PROCESS_ATTACH {
        child_processes::enter_by(enter);
        lane::deliver_to(socket::events::happened);
        attach(HOOKS);
    }
    TRUE
}

/// Has a new process load this library.
fn enter(process: BorrowedHandle<'_>, library: &Path) -> io::Result<()> {
    tickwire_launcher_windows::enter(process, library).map(drop).map_err(io::Error::other)
}

/// Which build the library is of. `tickwire run` and `tickwire doctor` read it from the file.
#[unsafe(no_mangle)]
static tickwire_winsock_build: [u8; MARK_BYTES] = *BuildMark::OWN.bytes();

/// Whether the hooks are in place: 1 or 0. An import table needs some function of a library to
/// name; and a debugger or a test can ask this.
#[unsafe(no_mangle)]
extern "system" fn tickwire_winsock_is_attached() -> BOOL {
    BOOL::from(is_attached())
}
