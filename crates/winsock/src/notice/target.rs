//! What is told of a socket's network events: an event object, or a window.

use super::record::{ALL, MOST, place};
use crate::hook::Original;
use crate::real::Handle;
use std::ffi::CStr;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::sync::Arc;
use tickwire_lane_windows::event::WakeEvent;
use windows_sys::Win32::Foundation::{HANDLE, HWND};
use windows_sys::core::BOOL;

/// Windows and messages. Programs without windows do not have it, nor does this library load it for
/// them.
const USER32: &CStr = c"user32.dll";

type PostMessageFn = unsafe extern "system" fn(window: HWND, message: u32, socket: usize, event: isize) -> BOOL;
type IsWindowFn = unsafe extern "system" fn(window: HWND) -> BOOL;

// SAFETY: the type that its documentation has.
static POST_MESSAGE: Original<PostMessageFn> = unsafe { Original::new(USER32, c"PostMessageW") };
// SAFETY: the type that its documentation has.
static IS_WINDOW: Original<IsWindowFn> = unsafe { Original::new(USER32, c"IsWindow") };

/// What is told, in the terms of Windows: a program's event object, or its window.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// An event object, by a handle of this library's own.
    Event(Arc<WakeEvent>),
    /// A window, and the message for it.
    Window {
        /// Its handle, as a number: other threads post to it.
        window: usize,
        /// The message.
        message: u32,
    },
}

impl Target {
    /// An event object. The program may close its own handle afterwards.
    ///
    /// # Errors
    /// If this is no handle.
    pub(crate) fn event(handle: HANDLE) -> io::Result<Self> {
        if handle.is_null() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: it is used during this call. What is no handle is refused when it is duplicated.
        let event = unsafe { BorrowedHandle::borrow_raw(handle) }.try_clone_to_owned()?;
        Ok(Self::Event(Arc::new(WakeEvent::from(event))))
    }

    /// A window.
    ///
    /// # Errors
    /// If there is no such window.
    pub(crate) fn window(window: HWND, message: u32) -> io::Result<Self> {
        let functions = IS_WINDOW.if_present().zip(POST_MESSAGE.if_present());
        // SAFETY: no memory is passed.
        let is_there = functions.is_some_and(|(is_window, _)| unsafe { is_window(window) } != 0);
        let target = Self::Window { window: window.expose_provenance(), message };
        if is_there { Ok(target) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Tells of these events. A window is told of each by itself, so that they are taken then:
    /// returns whether they are.
    pub(super) fn tell(&self, socket: Handle, events: u32, errors: &[i32; MOST]) -> bool {
        match self {
            Self::Event(event) => {
                event.set();
                false
            }
            Self::Window { window, message } => {
                let Some(post) = POST_MESSAGE.if_loaded() else { return true };
                for event in ALL.into_iter().filter(|event| events & event != 0) {
                    // `MAKELONG`: the event below, the error above.
                    let told = (errors[place(event)] << 16 | event.cast_signed()) as isize;
                    // SAFETY: no memory is passed. A window that is gone is an error, which nothing
                    // follows from.
                    unsafe { post(std::ptr::with_exposed_provenance_mut(*window), *message, socket, told) };
                }
                true
            }
        }
    }

    /// As the kernel is to be told: an event, or a window and its message.
    pub(crate) fn raw(&self) -> (HANDLE, HWND, u32) {
        let none = std::ptr::null_mut();
        match self {
            Self::Event(event) => (event.as_handle().as_raw_handle(), none, 0),
            Self::Window { window, message } => (none, std::ptr::with_exposed_provenance_mut(*window), *message),
        }
    }
}
