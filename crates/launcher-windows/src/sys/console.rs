//! Interrupts from the keyboard.

use super::done;
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

/// While this exists, Ctrl-C and Ctrl-Break do not end this process. All processes of the console
/// get them, so the program gets them, too.
#[derive(Debug)]
pub(crate) struct InterruptsIgnored {
    is_set: bool,
}

impl InterruptsIgnored {
    /// From now on. A process without a console has no interrupts, so a failure does not matter.
    ///
    /// This is a function of our own, because the other way of `SetConsoleCtrlHandler` is inherited
    /// by the program.
    pub(crate) fn new() -> Self {
        // SAFETY: a function that exists for as long as the program or library does. If this is a
        // library, its program does not unload it while the value exists.
        let is_set = done(unsafe { SetConsoleCtrlHandler(Some(ignore), 1) }).is_ok();
        Self { is_set }
    }
}

impl Drop for InterruptsIgnored {
    fn drop(&mut self) {
        if self.is_set {
            // SAFETY: the function that was added, once for each time.
            unsafe { SetConsoleCtrlHandler(Some(ignore), 0) };
        }
    }
}

/// Whether an event goes no further.
unsafe extern "system" fn ignore(event: u32) -> BOOL {
    matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::System::Console::CTRL_CLOSE_EVENT;

    #[test]
    fn only_interrupts_are_ignored() {
        let answers = [CTRL_C_EVENT, CTRL_BREAK_EVENT, CTRL_CLOSE_EVENT].map(|event| {
            // SAFETY: the function only looks at the number.
            unsafe { ignore(event) }
        });
        assert_eq!(answers, [1, 1, 0]);
        drop((InterruptsIgnored::new(), InterruptsIgnored::new()));
    }
}
