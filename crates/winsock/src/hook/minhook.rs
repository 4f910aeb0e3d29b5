//! Calls of MinHook, which patches the first instructions of a function. What they were is kept in
//! a trampoline, which runs them and goes on behind them.

use minhook_sys as sys;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr::{NonNull, null_mut};

/// Why MinHook refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MinHookStatus(sys::MH_STATUS);

impl fmt::Display for MinHookStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: any value is allowed; the result is a text that is never freed.
        let name = unsafe { CStr::from_ptr(sys::MH_StatusToString(self.0)) };
        formatter.write_str(&name.to_string_lossy())
    }
}

impl fmt::Debug for MinHookStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

type Result<T> = std::result::Result<T, MinHookStatus>;

fn done(status: sys::MH_STATUS) -> Result<()> {
    if status == sys::MH_OK { Ok(()) } else { Err(MinHookStatus(status)) }
}

/// Makes MinHook ready; may be called again.
pub(super) fn initialize() -> Result<()> {
    // SAFETY: no memory is passed.
    match unsafe { sys::MH_Initialize() } {
        sys::MH_ERROR_ALREADY_INITIALIZED => Ok(()),
        status => done(status),
    }
}

/// Prepares a hook and returns its trampoline. The function is not changed yet.
///
/// # Safety
/// The replacement is a function of the target's type, if that is a function; and code that stays.
pub(super) unsafe fn create(target: NonNull<c_void>, replacement: *mut c_void) -> Result<NonNull<c_void>> {
    let mut trampoline = null_mut();
    // SAFETY: room for the result. MinHook checks that there is code at these addresses.
    done(unsafe { sys::MH_CreateHook(target.as_ptr(), replacement, &raw mut trampoline) })?;
    NonNull::new(trampoline).ok_or(MinHookStatus(sys::MH_UNKNOWN))
}

/// Takes back what [`create`] has done.
///
/// # Safety
/// The hook has never been in place, and nothing has its trampoline.
pub(super) unsafe fn remove(target: NonNull<c_void>) {
    // SAFETY: as the caller promises.
    unsafe { sys::MH_RemoveHook(target.as_ptr()) };
}

/// With the next [`apply_queued`] this hook is in place, or not.
pub(super) fn queue(target: NonNull<c_void>, is_enabled: bool) -> Result<()> {
    // SAFETY: MinHook looks the address up among its hooks.
    done(unsafe {
        if is_enabled { sys::MH_QueueEnableHook(target.as_ptr()) } else { sys::MH_QueueDisableHook(target.as_ptr()) }
    })
}

/// Patches all functions that are queued. All other threads are suspended meanwhile. A thread that
/// is in the midst of what is patched goes on in the trampoline.
pub(super) fn apply_queued() -> Result<()> {
    // SAFETY: the types of replacements are right, as `create` demands.
    done(unsafe { sys::MH_ApplyQueued() })
}
