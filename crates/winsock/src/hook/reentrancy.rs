//! Whether the calling thread is inside this library. What it calls then, and is hooked, goes to
//! the original: calls that the standard library or the connection to the service makes.

use super::tls_slot::TlsSlot;
use std::io;
use std::marker::PhantomData;

/// 1 while the thread is inside; [`ENDING`] after it has left the library for good.
static INSIDE: TlsSlot = TlsSlot::new();

/// 1 while the thread is in an original of Winsock, which makes system calls that are hooked, too.
static IN_ORIGINAL: TlsSlot = TlsSlot::new();

/// The thread ends the process, and is not to use this library any more.
const ENDING: usize = 2;

/// Must be called before any hook is in place.
///
/// # Errors
/// If the process has no thread-local slot left.
pub(super) fn prepare() -> io::Result<()> {
    INSIDE.allocate()?;
    IN_ORIGINAL.allocate()
}

/// Whether the calling thread is inside this library.
#[inline]
#[must_use]
pub fn is_inside() -> bool {
    INSIDE.get() != 0
}

/// Marks the calling thread as inside; `None` if it is marked already.
#[must_use]
pub fn enter() -> Option<Inside> {
    if is_inside() {
        return None;
    }
    INSIDE.set(1);
    Some(Inside(PhantomData))
}

/// From now on all calls of the calling thread go to the originals, and this library takes no lock
/// for it: it ends the process, and other threads have been ended, perhaps while they had one.
pub(crate) fn leave_for_good() {
    INSIDE.set(ENDING);
    IN_ORIGINAL.set(1);
}

/// Whether the calling thread has left the library for good.
#[inline]
pub(crate) fn has_left_for_good() -> bool {
    INSIDE.get() == ENDING
}

/// Runs code of the program (a completion routine, a condition function) in the midst of this
/// library: the thread is not marked meanwhile.
pub fn outside<T>(code: impl FnOnce() -> T) -> T {
    /// Puts the mark back, even if the code unwinds.
    struct Back(usize, usize);
    impl Drop for Back {
        fn drop(&mut self) {
            INSIDE.set(self.0);
            IN_ORIGINAL.set(self.1);
        }
    }
    if has_left_for_good() {
        return code();
    }
    let _back = Back(INSIDE.get(), IN_ORIGINAL.get());
    INSIDE.set(0);
    IN_ORIGINAL.set(0);
    code()
}

/// Runs an original of Winsock for the program: the system calls that it makes are its own.
pub fn original<T>(call: impl FnOnce() -> T) -> T {
    /// Puts the mark back, even if the call unwinds.
    struct Back(usize);
    impl Drop for Back {
        fn drop(&mut self) {
            IN_ORIGINAL.set(self.0);
        }
    }
    let _back = Back(IN_ORIGINAL.get());
    IN_ORIGINAL.set(1);
    call()
}

/// Whether the calling thread is in an original of Winsock.
#[inline]
#[must_use]
pub fn is_in_original() -> bool {
    IN_ORIGINAL.get() != 0
}

/// The mark that [`enter`] sets. It ends with this value, which stays on its thread.
#[derive(Debug)]
pub struct Inside(PhantomData<*const ()>);

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_once() {
        prepare().unwrap();
        assert!(!is_inside());
        let inside = enter().unwrap();
        assert!(is_inside() && enter().is_none());
        std::thread::scope(|scope| scope.spawn(|| assert!(!is_inside())).join()).unwrap();
        outside(|| {
            assert!(!is_inside());
            drop(enter().unwrap());
        });
        assert!(is_inside());
        drop(inside);
        assert!(!is_inside());
        outside(|| assert!(!is_inside()));
        assert!(!is_inside());
        original(|| {
            assert!(is_in_original() && !is_inside());
            outside(|| assert!(!is_in_original()));
            original(|| assert!(is_in_original()));
            assert!(is_in_original());
        });
        assert!(!is_in_original());
    }

    #[test]
    fn a_thread_that_has_left_for_good_is_not_seen_any_more() {
        prepare().unwrap();
        std::thread::spawn(|| {
            leave_for_good();
            assert!(is_inside() && is_in_original() && enter().is_none());
            outside(|| original(|| assert!(has_left_for_good() && is_in_original())));
            assert!(is_in_original());
            assert_eq!(super::super::boundary::caught(7, || panic!("it is not run")), 7);
        })
        .join()
        .unwrap();
        assert!(!is_inside() && !has_left_for_good());
    }

    #[test]
    fn unwinding_restores_the_mark() {
        prepare().unwrap();
        let caught = std::panic::catch_unwind(|| {
            let _inside = enter().unwrap();
            let code = || outside(|| panic!("the program's code unwinds"));
            assert!(std::panic::catch_unwind(code).is_err());
            assert!(is_inside());
            panic!("and this library's");
        });
        assert!(caught.is_err() && !is_inside());
    }
}
