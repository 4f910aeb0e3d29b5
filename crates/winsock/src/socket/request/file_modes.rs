//! How handles that are no sockets of the lane tell of completions. Polls are begun by such
//! handles: by those of the driver itself.

use super::HandleMode;
use super::port::{CompletionInformation, CompletionPort};
use crate::real::Handle;
use crate::socket::table;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known of a handle. The port is not kept open for the sake of a handle that never begins
/// a poll.
#[derive(Debug, Default)]
struct FileMode {
    port: Option<CompletionInformation>,
    mode: HandleMode,
}

static FILES: Mutex<Option<HashMap<Handle, FileMode>>> = Mutex::new(None);

/// How many there are. While it is zero no lock is taken.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn files() -> MutexGuard<'static, Option<HashMap<Handle, FileMode>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change(file: Handle, change: impl FnOnce(&mut FileMode)) {
    let mut files = files();
    let files = files.get_or_insert_default();
    change(files.entry(file).or_default());
    COUNT.store(files.len(), SeqCst);
}

/// A handle has got a port, or has none any more.
pub(crate) fn note_port(file: Handle, port: Option<CompletionInformation>) {
    change(file, |known| {
        known.port = port;
        known.mode.port = None;
    });
}

/// Whether requests of a handle that succeed at once are not posted.
pub(crate) fn note_skips_success(file: Handle, skips_success: bool) {
    change(file, |known| known.mode.skips_success = skips_success);
}

/// How a handle tells of completions.
pub(crate) fn mode_of(file: Handle) -> HandleMode {
    if let Some(socket) = table::get(file) {
        return socket.mode();
    }
    let mut files = files();
    let Some(known) = files.as_mut().and_then(|files| files.get_mut(&file)) else { return HandleMode::default() };
    if let (Some(port), None) = (known.port, &known.mode.port) {
        known.mode.port = CompletionPort::new(port).ok();
    }
    known.mode.clone()
}

/// Whether handles are known.
pub(crate) fn is_any() -> bool {
    COUNT.load(SeqCst) != 0
}

/// A handle is being closed.
pub(crate) fn forget(file: Handle) {
    if is_any() {
        let mut files = files();
        let Some(files) = files.as_mut() else { return };
        files.remove(&file);
        COUNT.store(files.len(), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use std::ptr::null_mut;
    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::System::IO::CreateIoCompletionPort;

    #[test]
    fn a_handle_has_its_port_until_it_is_closed() {
        // SAFETY: a new port.
        let port =
            unsafe { OwnedHandle::from_raw_handle(CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 1)) };
        let information = CompletionInformation { port: port.as_raw_handle().addr(), key: 7 };
        // No handle of this process: they are multiples of four.
        let (with_port, with_flag) = (0x7000_0001, 0x7000_0003);
        assert!(mode_of(with_port).port.is_none());
        note_port(with_port, Some(information));
        note_skips_success(with_flag, true);
        assert!(is_any());
        assert!(mode_of(with_port).port.is_some() && !mode_of(with_port).skips_success);
        assert!(mode_of(with_flag).port.is_none() && mode_of(with_flag).skips_success);
        note_port(with_port, None);
        assert!(mode_of(with_port).port.is_none());
        note_port(with_port, Some(information));
        forget(with_port);
        assert!(mode_of(with_port).port.is_none());
        forget(with_flag);
        assert!(!mode_of(with_flag).skips_success);
    }
}
