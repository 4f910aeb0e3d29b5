//! Notification of changes (`NotifyIpInterfaceChange` and its kin).

use super::event::Event;
use super::library::ip_helper;
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Networking::WinSock::AF_UNSPEC;

/// A table whose changes are announced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Announced {
    /// Interfaces.
    Interfaces = 1,
    /// Addresses.
    Addresses = 2,
    /// Routes.
    Routes = 4,
}

/// What callbacks leave behind: which tables have changed, and an event.
#[derive(Debug)]
pub(crate) struct Signal {
    changed: AtomicU32,
    pub(crate) event: Event,
}

impl Signal {
    pub(crate) const fn new(event: Event) -> Self {
        Self { changed: AtomicU32::new(0), event }
    }

    /// Which tables have changed since the last call, as bits of [`Announced`].
    pub(crate) fn take(&self) -> u32 {
        self.changed.swap(0, Ordering::AcqRel)
    }

    fn note(&self, table: Announced) {
        self.changed.fetch_or(table as u32, Ordering::AcqRel);
        self.event.set();
    }
}

/// The three callbacks have this type: context, row, kind of change.
type Callback = unsafe extern "system" fn(*const c_void, *const c_void, i32);
type Notify = unsafe extern "system" fn(u16, Callback, *const c_void, u8, *mut HANDLE) -> u32;
type Cancel = unsafe extern "system" fn(HANDLE) -> u32;

/// Called by a thread of the system. It cannot panic.
///
/// # Safety
/// The context is a [`Signal`].
unsafe extern "system" fn on_interface(context: *const c_void, _: *const c_void, _: i32) {
    // SAFETY: as the caller promises.
    unsafe { &*context.cast::<Signal>() }.note(Announced::Interfaces);
}

/// As [`on_interface`].
///
/// # Safety
/// The context is a [`Signal`].
unsafe extern "system" fn on_address(context: *const c_void, _: *const c_void, _: i32) {
    // SAFETY: as the caller promises.
    unsafe { &*context.cast::<Signal>() }.note(Announced::Addresses);
}

/// As [`on_interface`].
///
/// # Safety
/// The context is a [`Signal`].
unsafe extern "system" fn on_route(context: *const c_void, _: *const c_void, _: i32) {
    // SAFETY: as the caller promises.
    unsafe { &*context.cast::<Signal>() }.note(Announced::Routes);
}

/// Registered callbacks. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Registrations {
    handles: Vec<HANDLE>,
    cancel: Cancel,
    /// Has no owner while callbacks may use it.
    signal: *const Signal,
    /// Whether there may be a callback without a handle, which cannot be cancelled.
    is_stuck: bool,
}

// SAFETY: the handles are numbers for any thread; the signal is Sync and is only freed by Drop.
unsafe impl Send for Registrations {}
// SAFETY: as above; nothing is changed by a shared reference.
unsafe impl Sync for Registrations {}

impl Registrations {
    /// Registers for all three tables. `None` if the system lacks a function, refuses, or only
    /// pretends (Wine succeeds without a handle).
    pub(crate) fn start(signal: Arc<Signal>) -> Option<Self> {
        let find = |name: &CStr| {
            let found = ip_helper(name)?;
            // SAFETY: the functions of these names have this type; BOOLEAN is a byte.
            Some(unsafe { transmute::<unsafe extern "system" fn() -> isize, Notify>(found) })
        };
        let functions: [(Notify, Callback); 3] = [
            (find(c"NotifyIpInterfaceChange")?, on_interface),
            (find(c"NotifyUnicastIpAddressChange")?, on_address),
            (find(c"NotifyRouteChange2")?, on_route),
        ];
        let cancel = ip_helper(c"CancelMibChangeNotify2")?;
        // SAFETY: the function of this name has this type.
        let cancel = unsafe { transmute::<unsafe extern "system" fn() -> isize, Cancel>(cancel) };
        let mut made = Self { handles: Vec::new(), cancel, signal: Arc::into_raw(signal), is_stuck: false };
        for (notify, callback) in functions {
            let mut handle: HANDLE = null_mut();
            // SAFETY: the callback takes the signal, which lives until the callback is cancelled.
            let code = unsafe { notify(AF_UNSPEC, callback, made.signal.cast(), 0, &raw mut handle) };
            if code != 0 || handle.is_null() {
                made.is_stuck = code == 0;
                return None;
            }
            made.handles.push(handle);
        }
        Some(made)
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        for &handle in &self.handles {
            // SAFETY: registered above, and not cancelled yet. It waits for a callback that runs.
            self.is_stuck |= unsafe { (self.cancel)(handle) } != 0;
        }
        // Otherwise the signal stays in memory, because callbacks may still use it.
        if !self.is_stuck {
            // SAFETY: from `into_raw`; no callback is left.
            drop(unsafe { Arc::from_raw(self.signal) });
        }
    }
}
