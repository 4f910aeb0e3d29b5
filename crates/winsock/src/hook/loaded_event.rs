//! Telling the launcher that the library is ready: the launcher has put the handle of an event into
//! this process, and the handle's value into the environment.

use std::ptr::{null, with_exposed_provenance_mut};
use windows_sys::Win32::System::Environment::SetEnvironmentVariableW;
use windows_sys::Win32::System::Threading::SetEvent;
use windows_sys::w;

/// The variable with the handle's value, as a decimal number.
const VARIABLE: &str = "TICKWIRE_LOADED_EVENT";

/// Sets the event, if there is one. Processes that this one starts do not inherit the variable: the
/// value is a handle in this process only.
pub(super) fn set() {
    let Some(handle) = std::env::var(VARIABLE).ok().and_then(|value| parse(&value)) else { return };
    // SAFETY: a text that ends with a zero, and no value. (Rust's function is unsafe for the C
    // runtimes of other systems; this one has a lock.)
    unsafe { SetEnvironmentVariableW(w!("TICKWIRE_LOADED_EVENT"), null()) };
    // SAFETY: any value is allowed. If it is none of an event that may be set, nothing happens.
    unsafe { SetEvent(with_exposed_provenance_mut(handle)) };
}

/// The value of a handle. Pseudo-handles (small negative values) are none.
fn parse(value: &str) -> Option<usize> {
    value.parse::<i32>().ok().filter(|value| *value > 0).map(|value| value as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_handles_are_taken() {
        assert_eq!(parse("68"), Some(68));
        for wrong in ["", "0", "-1", "4294967295", "x", "0x44", " 68", "68 "] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
