//! The completion port of a handle, and posting to it.
//!
//! Windows ends the waits of threads at a port when its last handle is closed, and programs end
//! such threads so. This library's own handles must not prevent that: they are closed first.

use crate::hook::ntdll;
use crate::real::Handle;
use std::collections::HashMap;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS};

/// `FILE_COMPLETION_INFORMATION`: what a program passes to give a handle a port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CompletionInformation {
    /// The port; 0: none any more.
    pub(crate) port: Handle,
    /// What comes with each completion of the handle.
    pub(crate) key: usize,
}

/// A completion port, as a handle has it.
#[derive(Debug)]
pub(crate) struct CompletionPort {
    /// `None` after the program has closed its last handle.
    port: Mutex<Option<OwnedHandle>>,
    key: usize,
}

/// How many completions this library has posted.
static POSTED: AtomicU64 = AtomicU64::new(0);

/// What this library has of each port, by the program's handle of it.
static PORTS: Mutex<Option<HashMap<Handle, Vec<Weak<CompletionPort>>>>> = Mutex::new(None);

/// How many handles of ports are known. While it is zero no lock is taken.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn ports() -> MutexGuard<'static, Option<HashMap<Handle, Vec<Weak<CompletionPort>>>>> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CompletionPort {
    /// The port of a handle, which has just got it. The kernel keeps a port for as long as a handle
    /// has it; so does this value, by a handle of its own.
    ///
    /// # Errors
    /// If the process has too many handles.
    pub(crate) fn new(information: CompletionInformation) -> io::Result<Arc<Self>> {
        let port = std::ptr::with_exposed_provenance_mut(information.port);
        let mut ports = ports();
        // SAFETY: the kernel has just accepted the program's handle. If the program closes it in
        // the meantime, copying fails, or this is another object of the program's own.
        let port = unsafe { BorrowedHandle::borrow_raw(port) }.try_clone_to_owned()?;
        let made = Arc::new(Self { port: Mutex::new(Some(port)), key: information.key });
        let ports = ports.get_or_insert_default();
        let known = ports.entry(information.port).or_default();
        // (Now and then, so that what has gone takes no room.)
        if known.len() == known.capacity() {
            known.retain(|port| port.strong_count() > 0);
        }
        known.push(Arc::downgrade(&made));
        COUNT.store(ports.len(), SeqCst);
        Ok(made)
    }

    fn port(&self) -> MutexGuard<'_, Option<OwnedHandle>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a completion.
    pub(crate) fn post(&self, context: usize, status: NTSTATUS, bytes: usize) {
        if let Some(port) = &*self.port() {
            // SAFETY: a port that is open; the context is only a number.
            unsafe {
                ntdll::NT_SET_IO_COMPLETION.get()(port.as_raw_handle(), self.key, context, status, bytes);
            }
            POSTED.fetch_add(1, Relaxed);
        }
    }
}

/// Whether handles of ports are known.
pub(crate) fn is_any() -> bool {
    COUNT.load(SeqCst) != 0
}

/// A handle is being closed. If it is the program's last one of a port, so are this library's: then
/// nothing can be taken from the port any more.
pub(crate) fn closing(handle: Handle) {
    if !is_any() {
        return;
    }
    let mut ports = ports();
    let Some(known) = ports.as_mut().and_then(|ports| ports.remove(&handle)) else { return };
    COUNT.store(ports.as_ref().map_or(0, HashMap::len), SeqCst);
    let known: Vec<Arc<CompletionPort>> = known.iter().filter_map(Weak::upgrade).collect();
    let mut own: Vec<_> = known.iter().map(|port| port.port()).collect();
    own.retain(|port| port.is_some());
    let Some(first) = own.iter().find_map(|port| port.as_ref()) else { return };
    // The others are the program's, and the one that is being closed.
    if count_of_handles(first.as_raw_handle()).is_some_and(|count| count <= own.len() as u32 + 1) {
        own.iter_mut().for_each(|port| drop(port.take()));
    }
}

/// How many handles an object has, in all processes. `None` if the kernel does not say.
fn count_of_handles(handle: HANDLE) -> Option<u32> {
    /// `ObjectBasicInformation`.
    const BASIC: i32 = 0;
    // `OBJECT_BASIC_INFORMATION`: its third word is the count.
    let (mut information, mut len) = ([0_u32; 14], 0);
    let size = size_of_val(&information) as u32;
    // SAFETY: an open handle, and room for so many bytes, and for their number.
    let status =
        unsafe { ntdll::NT_QUERY_OBJECT.get()(handle, BASIC, (&raw mut information).cast(), size, &raw mut len) };
    (status >= 0).then_some(information[2])
}

/// Changes when this library posts a completion.
pub(crate) fn posted() -> u64 {
    POSTED.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::windows::io::FromRawHandle;
    use std::ptr::null_mut;
    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::System::IO::CreateIoCompletionPort;

    fn port() -> OwnedHandle {
        // SAFETY: a new port.
        unsafe { OwnedHandle::from_raw_handle(CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 1)) }
    }

    fn given(port: &OwnedHandle, key: usize) -> Arc<CompletionPort> {
        CompletionPort::new(CompletionInformation { port: port.as_raw_handle().addr(), key }).unwrap()
    }

    #[test]
    fn own_handles_of_a_port_are_closed_before_the_programs_last_one() {
        let (programs, other) = (port(), port());
        let ports = [given(&programs, 1), given(&programs, 2)];
        let others = given(&other, 3);
        drop(given(&programs, 4));
        assert_eq!(count_of_handles(programs.as_raw_handle()), Some(3));
        let posts = |port: &CompletionPort| {
            let before = posted();
            port.post(0, 0, 0);
            posted() > before
        };
        assert!(is_any() && ports.iter().all(|port| posts(port)));
        closing(programs.as_raw_handle().addr());
        assert_eq!(count_of_handles(programs.as_raw_handle()), Some(1));
        assert!(!ports.iter().any(|port| port.port().is_some()) && posts(&others));
        // The program has another handle of it.
        let copy = other.try_clone().unwrap();
        closing(other.as_raw_handle().addr());
        drop(other);
        assert!(posts(&others));
        assert_eq!(count_of_handles(copy.as_raw_handle()), Some(2));
    }
}
