//! The priority of a thread that moves packets.
//!
//! It runs above ordinary threads, and below real-time ones, while it polls; else it sleeps. It is
//! no task of the multimedia class scheduler (MMCSS): while there are such tasks Windows throttles
//! the processing of packets of the network.

use std::io;
use windows_sys::Win32::System::Threading::{GetCurrentThread, SetThreadPriority, THREAD_PRIORITY_HIGHEST};

/// Raises the priority of this thread above that of ordinary ones.
///
/// # Errors
/// If Windows refuses.
pub fn raise() -> io::Result<()> {
    // SAFETY: the handle of this thread is always valid.
    let done = unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_HIGHEST) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::System::Threading::GetThreadPriority;

    #[test]
    fn only_the_thread_that_asks_has_another_priority() {
        // SAFETY: the handle of this thread is always valid.
        let own = || unsafe { GetThreadPriority(GetCurrentThread()) };
        let before = own();
        let raised = std::thread::spawn(move || {
            raise().unwrap();
            own()
        });
        assert_eq!((raised.join().unwrap(), own()), (THREAD_PRIORITY_HIGHEST, before));
    }
}
