//! Work that needs more stack than a program may have left: its thread, its coroutine or its signal
//! handler may have a few KiB. A thread of our own does such work while the caller waits for it.

use crate::sys;

/// Enough for everything that starting a lane needs.
const STACK: usize = 256 << 10;

/// Does the work on a separate stack. The caller defers signals meanwhile. If the process cannot
/// create another thread, the work runs on the caller's stack.
#[inline(never)]
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut done = None;
    // The program's signals are for its own threads.
    let before = sys::block_signals();
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("tickwire-start".into()).stack_size(STACK);
        let run = || done = work.take().map(|work| work());
        // The thread has ended completely when it is joined, so a later fork finds no work
        // half-done.
        thread.spawn_scoped(scope, run).ok().map(std::thread::ScopedJoinHandle::join)
    });
    sys::restore_signals(&before);
    match (result, done, work) {
        (Some(Err(panic)), ..) => std::panic::resume_unwind(panic),
        (_, Some(done), _) => done,
        (_, None, Some(work)) => work(),
        (_, None, None) => unreachable!("the work is there, or done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_another_thread_and_its_panic_is_the_callers() {
        let caller = std::thread::current().id();
        assert_ne!(run(|| std::thread::current().id()), caller);
        assert!(std::panic::catch_unwind(|| run(|| panic!("on purpose"))).is_err());
    }
}
