//! Whether the calling thread is inside this library. What it calls then, and is hooked, goes to
//! the original: calls that the standard library or the connection to the service makes.

use super::tls_slot::TlsSlot;
use std::io;
use std::marker::PhantomData;

/// 1 while the thread is inside.
static INSIDE: TlsSlot = TlsSlot::new();

/// Must be called before any hook is in place.
///
/// # Errors
/// If the process has no thread-local slot left.
pub(super) fn prepare() -> io::Result<()> {
    INSIDE.allocate()
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

/// Runs code of the program (a completion routine, a condition function) in the midst of this
/// library: the thread is not marked meanwhile.
pub fn outside<T>(code: impl FnOnce() -> T) -> T {
    /// Puts the mark back, even if the code unwinds.
    struct Back(usize);
    impl Drop for Back {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _back = Back(INSIDE.get());
    INSIDE.set(0);
    code()
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
