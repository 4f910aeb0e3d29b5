//! Hooks of modules that the program loads later. The loader reports a module when it is mapped and
//! its imports are bound, before any of its code runs.

use super::install::{Tables, install_late};
use super::module::{Module, NTDLL, is_system_path};
use super::original::Original;
use super::{attach, boundary};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{NTSTATUS, STATUS_SUCCESS, UNICODE_STRING};

/// `LDR_DLL_NOTIFICATION_REASON_LOADED`.
const LOADED: u32 = 1;

/// `LDR_DLL_LOADED_NOTIFICATION_DATA`.
#[repr(C)]
struct LoadedModule {
    flags: u32,
    full_name: *const UNICODE_STRING,
    base_name: *const UNICODE_STRING,
    base: *mut c_void,
    size: u32,
}

type NotificationFn = unsafe extern "system" fn(reason: u32, module: *const LoadedModule, context: *mut c_void);
type RegisterFn = unsafe extern "system" fn(
    flags: u32,
    function: NotificationFn,
    context: *mut c_void,
    cookie: *mut *mut c_void,
) -> NTSTATUS;
type UnregisterFn = unsafe extern "system" fn(cookie: *mut c_void) -> NTSTATUS;

// SAFETY: the type that its documentation has.
static REGISTER: Original<RegisterFn> = unsafe { Original::new(NTDLL, c"LdrRegisterDllNotification") };
// SAFETY: the type that its documentation has.
static UNREGISTER: Original<UnregisterFn> = unsafe { Original::new(NTDLL, c"LdrUnregisterDllNotification") };

/// Modules are watched.
#[derive(Debug)]
pub(super) struct Watch {
    cookie: *mut c_void,
}

impl Watch {
    /// They are not watched any longer.
    pub(super) fn end(self) {
        if let Some(unregister) = UNREGISTER.if_loaded() {
            // SAFETY: the value that the registration returned. The function's context stays.
            unsafe { unregister(self.cookie) };
        }
    }
}

/// From now on hooks are installed in modules that are loaded. `None` if this Windows cannot report
/// them, so that those modules stay as they are.
pub(super) fn watch(tables: Tables) -> Option<Watch> {
    let register = REGISTER.if_loaded()?;
    // It is needed until the process ends.
    let context: &'static Tables = Box::leak(Box::new(tables));
    let mut cookie = null_mut();
    // SAFETY: a function of the right type; its context is never freed; room for the result.
    let status = unsafe { register(0, on_module, (&raw const *context).cast_mut().cast(), &raw mut cookie) };
    (status == STATUS_SUCCESS).then_some(Watch { cookie })
}

/// The loader calls this with its lock held.
unsafe extern "system" fn on_module(reason: u32, module: *const LoadedModule, context: *mut c_void) {
    if reason != LOADED {
        return;
    }
    boundary::caught((), || {
        // SAFETY: the loader passes this structure for this reason, and the context of `watch`.
        let (module, tables) = unsafe { (&*module, *context.cast::<Tables>()) };
        // SAFETY: the loader's text, which lives during the call.
        let name = unsafe { text(module.base_name) };
        let mut hooks = tables.iter().copied().flatten();
        let Some(hook) = hooks.find(|hook| is_name(name, hook.export.module)) else { return };
        // A program's folder may have a module of this name that replaces the one of Windows. It
        // calls that one, which has the hooks.
        // SAFETY: the loader's text, which lives during the call.
        if !is_system_path(unsafe { text(module.full_name) }, hook.export.module) {
            return;
        }
        // SAFETY: the loader has mapped a module there.
        let Some(module) = (unsafe { Module::at(module.base) }) else { return };
        if let Err(error) = install_late(tables, module, |hook| is_name(name, hook.export.module)) {
            attach::record(error);
        }
    });
}

/// The units of a text.
///
/// # Safety
/// The text is valid for this lifetime.
unsafe fn text<'a>(text: *const UNICODE_STRING) -> &'a [u16] {
    // SAFETY: as the caller promises. The length is in bytes.
    unsafe {
        let Some(text) = text.as_ref().filter(|text| !text.Buffer.is_null()) else { return &[] };
        std::slice::from_raw_parts(text.Buffer, usize::from(text.Length / 2))
    }
}

/// Whether this is the name of a module, in upper or lower case.
fn is_name(text: &[u16], name: &CStr) -> bool {
    let name = name.to_bytes();
    let lower = |unit: u16| u8::try_from(unit).map(|byte| byte.to_ascii_lowercase());
    text.len() == name.len() && text.iter().zip(name).all(|(unit, byte)| lower(*unit) == Ok(byte.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case() {
        let name = |text: &str| is_name(&text.encode_utf16().collect::<Vec<_>>(), c"ws2_32.dll");
        assert!(name("WS2_32.dll") && name("ws2_32.DLL"));
        assert!(!name("ws2_32.dl") && !name("ws2_32.dllx") && !name("ws2_33.dll") && !name("") && !name("ŵs2_32.dll"));
    }
}
