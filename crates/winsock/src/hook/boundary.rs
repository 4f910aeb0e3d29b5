//! Panics and errors at the C boundary: a panic never leaves the library, and an error becomes the
//! return value and the last error that callers of Windows expect.
//!
//! The thread is marked as inside the library meanwhile: see [`reentrancy`]. A fault of the
//! processor (a bad pointer of the program) is no panic, and passes through.

use super::reentrancy::Inside;
use super::{last_error, reentrancy};
use std::panic::{AssertUnwindSafe, catch_unwind};
use windows_sys::Win32::Networking::WinSock::WSASYSCALLFAILURE;

/// An error code of Winsock (`WSAE...`) or of Windows (`ERROR_...`), as `WSAGetLastError` and
/// `GetLastError` return it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WinsockError(pub i32);

impl WinsockError {
    /// What a call fails with if this library has a defect (`WSASYSCALLFAILURE`).
    pub const DEFECT: Self = Self(WSASYSCALLFAILURE);
}

/// The result of this library's part of a call.
pub type Result<T> = core::result::Result<T, WinsockError>;

/// Runs this library's part of a call. On an error, and on a panic ([`WinsockError::DEFECT`]), the
/// last error is set and `failed` is returned: `SOCKET_ERROR`, `INVALID_SOCKET`, `FALSE`. On
/// success the last error stays what it was.
pub fn answer<T>(failed: T, call: impl FnOnce() -> Result<T>) -> T {
    // Where the thread is marked already, it stays so.
    finished(failed, reentrancy::enter(), call)
}

/// As [`answer`], but a call that is none of ours (`None`) goes to the original. So does a call
/// that this library makes itself; `ours` is not run then.
///
/// While the original runs the thread is not marked, because it may run code of the program
/// (completion routines). It sees the last error as the caller left it.
pub fn answer_or<T>(failed: T, ours: impl FnOnce() -> Result<Option<T>>, original: impl FnOnce() -> T) -> T {
    let Some(inside) = reentrancy::enter() else { return original() };
    finished(Some(failed), Some(inside), ours).unwrap_or_else(original)
}

/// Runs this library's part of a call that sets no last error, and cannot fail by it. On a panic
/// `panicked` is returned. The last error stays what it was. On a thread that ends the process
/// nothing is run.
pub fn caught<T>(panicked: T, call: impl FnOnce() -> T) -> T {
    if reentrancy::has_left_for_good() {
        return panicked;
    }
    let before = last_error::get();
    let value = run(reentrancy::enter(), || Ok(call())).unwrap_or(panicked);
    last_error::set(before);
    value
}

/// Runs a part of this library, and sets or restores the last error.
fn finished<T>(failed: T, inside: Option<Inside>, call: impl FnOnce() -> Result<T>) -> T {
    let before = last_error::get();
    match run(inside, call) {
        Ok(value) => {
            last_error::set(before);
            value
        }
        Err(error) => {
            last_error::set_error(error);
            failed
        }
    }
}

/// Runs a part of this library with the thread marked, and makes an error of a panic.
fn run<T>(inside: Option<Inside>, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let _inside = inside;
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(WinsockError::DEFECT))
}
