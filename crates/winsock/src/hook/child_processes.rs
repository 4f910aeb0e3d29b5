//! Processes that the program starts: this library is loaded into them, too.
//!
//! A new process is created suspended, the library is entered, and then it runs, unless the program
//! has asked for a suspended one. If entering fails, the process runs without the library.
//!
//! The functions that are hooked are those of `kernelbase.dll`: `kernel32.dll`, `WinExec` and
//! `ShellExecute` lead there, and so do programs that import by API sets. Processes that another
//! process creates on behalf of this one (`CreateProcessWithLogonW`, COM servers) are not covered.

use super::hook_entry::Hook;
use super::module::{KERNELBASE, own_path};
use super::original::Original;
use super::{boundary, last_error, reentrancy};
use std::ffi::c_void;
use std::io;
use std::os::windows::io::BorrowedHandle;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Security::SECURITY_ATTRIBUTES;
use windows_sys::Win32::System::Threading::{
    CREATE_SUSPENDED, DEBUG_ONLY_THIS_PROCESS, DEBUG_PROCESS, PROCESS_INFORMATION, ResumeThread, STARTUPINFOA,
    STARTUPINFOW,
};
use windows_sys::core::{BOOL, PCSTR, PCWSTR, PSTR, PWSTR};

/// The variable that switches this off, with the value 0. Children inherit it.
pub const VARIABLE: &str = "TICKWIRE_CHILDREN";

/// Loads a library into a process that is suspended and has not run yet.
pub type Enter = fn(process: BorrowedHandle<'_>, library: &Path) -> io::Result<()>;

static ENTER: OnceLock<Enter> = OnceLock::new();
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// From now on new processes are entered in this way. Before it is called, they run as the program
/// has created them. The first way stays.
pub fn enter_by(enter: Enter) {
    let _ = ENTER.set(enter);
}

/// Reads the switch.
pub(super) fn read_settings() {
    IS_OFF.store(std::env::var_os(VARIABLE).is_some_and(|value| value == "0"), Ordering::Relaxed);
}

/// The hooks, for [`install`](fn@super::install).
pub static HOOKS: [Hook; 4] = [
    Hook::new(&CREATE_PROCESS_W, create_process_w),
    Hook::new(&CREATE_PROCESS_A, create_process_a),
    Hook::if_present(&CREATE_PROCESS_AS_USER_W, create_process_as_user_w),
    Hook::if_present(&CREATE_PROCESS_AS_USER_A, create_process_as_user_a),
];

/// Declares a function that creates a process: its type, the original and the replacement. The
/// functions differ in the type of texts, and in a token that comes first.
macro_rules! creates_process {
    ($original:ident = $export:literal, $function:ident: $type:ident, [$($token:ident)?] $text:ty, $line:ty, $info:ty) => {
        /// The type of the function.
        type $type = unsafe extern "system" fn(
            $($token: HANDLE,)?
            $text,
            $line,
            *const SECURITY_ATTRIBUTES,
            *const SECURITY_ATTRIBUTES,
            BOOL,
            u32,
            *const c_void,
            $text,
            *const $info,
            *mut PROCESS_INFORMATION,
        ) -> BOOL;

        // SAFETY: the type is the one of its documentation.
        static $original: Original<$type> = unsafe { Original::new(KERNELBASE, $export) };

        #[allow(clippy::too_many_arguments, reason = "as Windows has it")]
        unsafe extern "system" fn $function(
            $($token: HANDLE,)?
            program: $text,
            line: $line,
            process_attributes: *const SECURITY_ATTRIBUTES,
            thread_attributes: *const SECURITY_ATTRIBUTES,
            inherits: BOOL,
            flags: u32,
            environment: *const c_void,
            folder: $text,
            startup: *const $info,
            created: *mut PROCESS_INFORMATION,
        ) -> BOOL {
            let create = |flags| {
                // SAFETY: the program's arguments are passed on; only the flags may differ.
                unsafe {
                    $original.get()(
                        $($token,)? program, line, process_attributes, thread_attributes, inherits, flags,
                        environment, folder, startup, created,
                    )
                }
            };
            // SAFETY: the program's place for the result.
            unsafe { create_and_enter(flags, created, create) }
        }
    };
}

creates_process!(CREATE_PROCESS_W = c"CreateProcessW", create_process_w: CreateProcessWFn, [] PCWSTR, PWSTR, STARTUPINFOW);
creates_process!(CREATE_PROCESS_A = c"CreateProcessA", create_process_a: CreateProcessAFn, [] PCSTR, PSTR, STARTUPINFOA);
creates_process!(
    CREATE_PROCESS_AS_USER_W = c"CreateProcessAsUserW", create_process_as_user_w: CreateProcessAsUserWFn,
    [token] PCWSTR, PWSTR, STARTUPINFOW
);
creates_process!(
    CREATE_PROCESS_AS_USER_A = c"CreateProcessAsUserA", create_process_as_user_a: CreateProcessAsUserAFn,
    [token] PCSTR, PSTR, STARTUPINFOA
);

/// Creates a process with these flags, and enters it.
///
/// # Safety
/// `create` fills `created` if it succeeds, or `created` is null.
unsafe fn create_and_enter(flags: u32, created: *mut PROCESS_INFORMATION, create: impl Fn(u32) -> BOOL) -> BOOL {
    // It is inside if this library makes the call, or if one hooked function calls another.
    let Some(inside) = reentrancy::enter() else { return create(flags) };
    let Some(enter) = ENTER.get().filter(|_| is_entered(flags) && !created.is_null()) else {
        drop(inside);
        return create(flags);
    };
    let done = create(flags | CREATE_SUSPENDED);
    let before = last_error::get();
    if done != 0 {
        // SAFETY: the call has filled it.
        let PROCESS_INFORMATION { hProcess: process, hThread: thread, .. } = unsafe { *created };
        boundary::caught((), || {
            // SAFETY: an open handle; the program does not have it yet.
            let process = unsafe { BorrowedHandle::borrow_raw(process) };
            // Without the library the process runs all the same.
            let _ = own_path().and_then(|library| enter(process, &library));
        });
        if flags & CREATE_SUSPENDED == 0 {
            // SAFETY: the handle of the first thread, which the program does not have yet.
            unsafe { ResumeThread(thread) };
        }
    }
    drop(inside);
    last_error::set(before);
    done
}

/// Whether a process with these flags is entered. A debugger must see its events first: to wait for
/// a process that waits for its debugger would have no end.
fn is_entered(flags: u32) -> bool {
    flags & (DEBUG_PROCESS | DEBUG_ONLY_THIS_PROCESS) == 0 && !IS_OFF.load(Ordering::Relaxed)
}
