//! Events: one process or thread wakes another.

use crate::private_object;
use crate::sys::own;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null;
use std::time::Duration;
use windows_sys::Win32::Foundation::{HANDLE, WAIT_ABANDONED_0, WAIT_FAILED, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows_sys::Win32::Storage::FileSystem::SYNCHRONIZE;
use windows_sys::Win32::System::Threading::{
    CreateEventW, EVENT_MODIFY_STATE, INFINITE, SetEvent, WaitForMultipleObjects,
};

/// The rights of a program to an event that it sets.
pub const PROGRAM_SETS: u32 = EVENT_MODIFY_STATE;

/// The rights of a program to an event that it waits for.
pub const PROGRAM_WAITS: u32 = SYNCHRONIZE;

/// An event that wakes one thread each time it is set. If none waits, the next one does not sleep.
#[derive(Debug)]
pub struct WakeEvent {
    handle: OwnedHandle,
}

impl WakeEvent {
    /// Makes an event that is not set.
    ///
    /// # Errors
    /// If the process has too many handles.
    pub fn new() -> io::Result<Self> {
        let attributes = private_object::attributes()?;
        // SAFETY: valid attributes, and no name are passed.
        let handle = unsafe { CreateEventW(&raw const attributes, 0, 0, null()) };
        // SAFETY: the result of that call.
        unsafe { own(handle) }.map(Self::from)
    }

    /// Sets it.
    pub fn set(&self) {
        // SAFETY: a handle that lives as long as `self`. If it is none of an event, which another
        // process has passed, nothing happens.
        unsafe { SetEvent(self.handle.as_raw_handle()) };
    }
}

impl AsHandle for WakeEvent {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}

impl From<OwnedHandle> for WakeEvent {
    /// A handle that another process has passed.
    fn from(handle: OwnedHandle) -> Self {
        Self { handle }
    }
}

/// The most handles that one call waits for (`MAXIMUM_WAIT_OBJECTS`).
pub const MOST_HANDLES: usize = 64;

/// Sleeps until one of these handles is signalled: events, processes that have ended. Returns its
/// place, or `None` after the time. A time of `None` is without end.
///
/// # Errors
/// If there are none, or more than [`MOST_HANDLES`]; if one cannot be waited for.
pub fn wait_for(handles: &[BorrowedHandle<'_>], time: Option<Duration>) -> io::Result<Option<usize>> {
    if handles.is_empty() || handles.len() > MOST_HANDLES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Rounded up: a caller that wakes up early would sleep again.
    let whole = |time: Duration| time.as_nanos().div_ceil(1_000_000).min(u128::from(INFINITE - 1)) as u32;
    let time_ms = time.map_or(INFINITE, whole);
    const { assert!(size_of::<BorrowedHandle<'_>>() == size_of::<HANDLE>()) };
    // SAFETY: so many open handles; a borrowed handle is a handle (`repr(transparent)`).
    let answer = unsafe { WaitForMultipleObjects(handles.len() as u32, handles.as_ptr().cast(), 0, time_ms) };
    match answer {
        WAIT_TIMEOUT => Ok(None),
        WAIT_FAILED => Err(io::Error::last_os_error()),
        // (A mutex whose owner has died counts, too, by a number of its own.)
        signalled => Ok(Some((signalled - WAIT_OBJECT_0) as usize % (WAIT_ABANDONED_0 - WAIT_OBJECT_0) as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_one_sleep_and_no_more() {
        let events = [WakeEvent::new().unwrap(), WakeEvent::new().unwrap()];
        let handles = [events[0].as_handle(), events[1].as_handle()];
        let now = Some(Duration::ZERO);
        assert_eq!(wait_for(&handles, now).unwrap(), None);
        events[1].set();
        events[1].set();
        assert_eq!(wait_for(&handles, None).unwrap(), Some(1));
        assert_eq!(wait_for(&handles, now).unwrap(), None);
        let event = &events[0];
        std::thread::scope(|scope| {
            scope.spawn(|| event.set());
            assert_eq!(wait_for(&handles, None).unwrap(), Some(0));
        });
    }

    #[test]
    fn what_cannot_be_waited_for_is_an_error() {
        assert!(wait_for(&[], None).is_err());
        let event = WakeEvent::new().unwrap();
        assert!(wait_for(&[event.as_handle(); MOST_HANDLES + 1], Some(Duration::ZERO)).is_err());
        let section = crate::section::SharedSection::create(4096).unwrap();
        assert!(wait_for(&[section.as_handle()], Some(Duration::ZERO)).is_err());
    }
}
