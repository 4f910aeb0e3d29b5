//! The end of the process. Windows ends all other threads before it closes sockets. This library
//! closes them earlier, to have what was sent arrive, and the other threads must not see that: they
//! stay in their calls.

use std::sync::OnceLock;
use std::thread::{self, ThreadId};

/// The thread that ends the process.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// The calling thread ends the process. Returns whether it is the first to do so.
pub(crate) fn close() -> bool {
    let caller = thread::current().id();
    ENDING.set(caller).is_ok() || ENDING.get() == Some(&caller)
}

/// Returns unless another thread ends the process. The caller has no lock.
pub(crate) fn pass() {
    if let Some(ending) = ENDING.get() {
        let caller = thread::current().id();
        if *ending != caller {
            loop {
                thread::park();
            }
        }
    }
}
