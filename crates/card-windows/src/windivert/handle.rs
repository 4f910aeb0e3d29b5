//! A handle of WinDivert's driver, and the driver as cards need it.

use super::batch::{OutgoingBatch, ReceivedBatch};
use super::driver::{DivertDriver, DivertHandle, Opener, Reception};
use super::error::{NEEDED, WinDivertError};
use super::library::{WinDivertLibrary, last_error};
use super::receives::PendingReceives;
use super::record::{LAYER_NETWORK, RECORD_BYTES};
use crate::card::CardWaker;
use crate::event::Event;
use std::ffi::CString;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;
use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Threading::{INFINITE, WaitForMultipleObjects};

/// The one of all handles that take packets. A packet that a handle injects is seen by those of
/// lower priority only.
const PRIORITY: i16 = 0;

/// That of handles that get copies: they see what arrives before others take it.
const PRIORITY_OF_COPIES: i16 = 1000;

/// `WINDIVERT_FLAG_SNIFF` and `WINDIVERT_FLAG_RECV_ONLY`.
const COPIES: u64 = 0x1 | 0x4;

/// `WINDIVERT_SHUTDOWN_RECV`.
const SHUTDOWN_RECEIVE: i32 = 1;

/// `WINDIVERT_PARAM_...`, and the most that they accept.
const QUEUE_LENGTH: (i32, u64) = (0, 16_384);
const QUEUE_SIZE: (i32, u64) = (2, 32 << 20);
const VERSION_MAJOR: i32 = 3;
const VERSION_MINOR: i32 = 4;

/// The driver.
#[derive(Debug)]
pub struct WinDivertDriver {
    library: WinDivertLibrary,
    waker: Arc<Event>,
}

impl WinDivertDriver {
    /// The driver of a library.
    ///
    /// # Errors
    /// If the process has too many handles.
    pub fn new(library: WinDivertLibrary) -> io::Result<Self> {
        Ok(Self { library, waker: Arc::new(Event::new(false)?) })
    }
}

/// An open handle. While it is open the driver takes packets.
pub struct WinDivertHandle {
    library: WinDivertLibrary,
    handle: HANDLE,
    /// Dropped after the handle has been closed, which ends them.
    receives: ManuallyDrop<PendingReceives>,
}

// SAFETY: a handle of the driver may be used by any thread.
unsafe impl Send for WinDivertHandle {}

impl WinDivertHandle {
    /// A handle that gets copies of packets, and cannot send.
    ///
    /// # Errors
    /// Why the driver refuses that.
    pub fn of_copies(library: WinDivertLibrary, filter: &str) -> Result<Self, WinDivertError> {
        Self::open(library, filter, PRIORITY_OF_COPIES, COPIES)
    }

    fn open(library: WinDivertLibrary, filter: &str, priority: i16, flags: u64) -> Result<Self, WinDivertError> {
        let refused = |code| {
            if code == ERROR_INVALID_PARAMETER {
                library.check_filter(filter)?;
            }
            Err(WinDivertError::Driver { code })
        };
        let Ok(text) = CString::new(filter) else { return refused(ERROR_INVALID_PARAMETER) };
        // SAFETY: a C string.
        let handle = unsafe { (library.open)(text.as_ptr(), LAYER_NETWORK.into(), priority, flags) };
        if handle == INVALID_HANDLE_VALUE || handle.is_null() {
            return refused(last_error());
        }
        let prepared = check_version(&library, handle).and_then(|()| {
            set_param(&library, handle, QUEUE_LENGTH)?;
            set_param(&library, handle, QUEUE_SIZE)?;
            Ok(PendingReceives::new()?)
        });
        match prepared {
            Ok(receives) => Ok(Self { library, handle, receives: ManuallyDrop::new(receives) }),
            Err(error) => {
                // SAFETY: an open handle, which is not used any more.
                unsafe { (library.close)(handle) };
                Err(error)
            }
        }
    }
}

/// Whether the driver, which another program may have loaded, is new enough.
fn check_version(library: &WinDivertLibrary, handle: HANDLE) -> Result<(), WinDivertError> {
    let part = |which| {
        let mut value = 0;
        // SAFETY: an open handle, and room for the value.
        let is_right = unsafe { (library.get_param)(handle, which, &raw mut value) };
        if is_right != 0 { Ok(value) } else { Err(WinDivertError::Driver { code: last_error() }) }
    };
    let (major, minor) = (part(VERSION_MAJOR)?, part(VERSION_MINOR)?);
    if major == NEEDED.0 && minor >= NEEDED.1 { Ok(()) } else { Err(WinDivertError::Version { major, minor }) }
}

fn set_param(library: &WinDivertLibrary, handle: HANDLE, (which, value): (i32, u64)) -> io::Result<()> {
    // SAFETY: an open handle.
    let is_right = unsafe { (library.set_param)(handle, which, value) };
    if is_right != 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl DivertHandle for WinDivertHandle {
    fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<Reception> {
        self.receives.take(self.library.receive, self.handle, batch)
    }

    fn send(&mut self, batch: &OutgoingBatch) -> io::Result<()> {
        let (bytes, records) = (batch.bytes(), batch.records());
        // SAFETY: an open handle, so many bytes, and so many records. The call returns when it has
        // read them.
        let is_right = unsafe {
            (self.library.send)(
                self.handle,
                bytes.as_ptr().cast(),
                bytes.len() as u32,
                null_mut(),
                0,
                records.as_ptr(),
                (records.len() * RECORD_BYTES) as u32,
                null_mut(),
            )
        };
        if is_right != 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn stop(&mut self) {
        // SAFETY: an open handle. (One that cannot be stopped is closed, when others are needed.)
        unsafe { (self.library.shutdown)(self.handle, SHUTDOWN_RECEIVE) };
    }
}

impl Drop for WinDivertHandle {
    fn drop(&mut self) {
        // SAFETY: an open handle, which nothing uses any more.
        unsafe { (self.library.close)(self.handle) };
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::drop(&mut self.receives) };
    }
}

impl DivertDriver for WinDivertDriver {
    type Handle = WinDivertHandle;

    fn opener(&self) -> Opener<WinDivertHandle> {
        let library = self.library;
        Box::new(move |filter| WinDivertHandle::open(library, filter, PRIORITY, 0))
    }

    fn wait(&mut self, handles: &[WinDivertHandle], time: Duration) {
        let mut events = vec![self.waker.handle()];
        for handle in handles {
            match handle.receives.event() {
                Some(event) => events.push(event),
                None => return,
            }
        }
        // Rounded up: a thread that wakes up early would sleep again.
        let time_ms = time.as_nanos().div_ceil(1_000_000).min(u128::from(INFINITE - 1)) as u32;
        // SAFETY: so many handles of events, which live as long as `handles` and `self`. (If one
        // cannot be waited for, the caller finds out why when it receives.)
        unsafe { WaitForMultipleObjects(events.len() as u32, events.as_ptr(), 0, time_ms) };
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::clone(&self.waker) as Arc<dyn CardWaker>
    }
}
