//! Does something each time an event is set, on a thread of the system: for events of many lanes,
//! of which no single call can wait for all.

use crate::event::WakeEvent;
use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::panic::{AssertUnwindSafe, catch_unwind};
use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEINWAITTHREAD,
};

type Action = Box<dyn Fn() + Send + Sync>;

/// An event that is watched until this is dropped.
pub struct EventWatch {
    wait: HANDLE,
    event: WakeEvent,
    /// Boxed twice, so that the system has a thin pointer to it.
    action: Box<Action>,
}

// SAFETY: the wait's handle may be used by any thread, and the action is `Send` and `Sync`.
unsafe impl Send for EventWatch {}
// SAFETY: as above.
unsafe impl Sync for EventWatch {}

impl EventWatch {
    /// Watches an event. The action must be quick: it delays others.
    ///
    /// # Errors
    /// If the system can watch no more.
    pub fn new(event: WakeEvent, action: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let mut watch = Self { wait: std::ptr::null_mut(), event, action: Box::new(Box::new(action)) };
        let context: *const Action = &raw const *watch.action;
        // SAFETY: event and action live until `drop` has ended the watch.
        let done = unsafe {
            RegisterWaitForSingleObject(
                &raw mut watch.wait,
                watch.event.as_handle().as_raw_handle(),
                Some(is_set),
                context.cast(),
                INFINITE,
                WT_EXECUTEINWAITTHREAD,
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(watch) }
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &WakeEvent {
        &self.event
    }
}

impl Drop for EventWatch {
    fn drop(&mut self) {
        if !self.wait.is_null() {
            // SAFETY: a wait that was registered. The call returns when no action runs any more.
            unsafe { UnregisterWaitEx(self.wait, INVALID_HANDLE_VALUE) };
        }
    }
}

unsafe extern "system" fn is_set(context: *mut c_void, _timed_out: bool) {
    // SAFETY: the action of a watch, which lives for as long as this is called.
    let action = unsafe { &*context.cast_const().cast::<Action>() };
    let _ = catch_unwind(AssertUnwindSafe(action));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn each_of_many_events_is_noticed_and_none_after_the_end() {
        let (told, is_told) = channel();
        let watches: Vec<EventWatch> = (0..200)
            .map(|number| {
                let told = told.clone();
                EventWatch::new(WakeEvent::new().unwrap(), move || {
                    let _ = told.send(number);
                })
                .unwrap()
            })
            .collect();
        for round in 0..3 {
            for (number, watch) in watches.iter().enumerate() {
                watch.event().set();
                assert_eq!(is_told.recv_timeout(Duration::from_secs(10)), Ok(number), "round {round}");
            }
        }
        let last = watches.into_iter().last().unwrap();
        let event = last.event().as_handle().try_clone_to_owned().map(WakeEvent::from).unwrap();
        drop(last);
        event.set();
        drop(told);
        assert!(is_told.recv().is_err());
    }
}
