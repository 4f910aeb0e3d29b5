//! What happens when the library is loaded.

use super::install::{HookError, install};
use super::{Hook, boundary, child_processes, loaded_event, module};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
static ERROR: OnceLock<HookError> = OnceLock::new();

/// Installs the hooks and tells the launcher. On a failure the program runs as without the library,
/// and the launcher is not told. For `DllMain`: it waits for nothing, and loads nothing.
pub fn attach(hooks: &'static [&'static [Hook]]) {
    boundary::caught((), || {
        // The code that hooks point to must stay, also if the program unloads the library.
        module::pin(module::own_address());
        child_processes::read_settings();
        match install(hooks) {
            Ok(()) => {
                IS_ATTACHED.store(true, Ordering::Release);
                loaded_event::set();
            }
            Err(error) => record(error),
        }
    });
}

/// Whether [`attach`] has installed the hooks.
#[must_use]
pub fn is_attached() -> bool {
    IS_ATTACHED.load(Ordering::Acquire)
}

/// The first error since the library was loaded: of [`attach`], or of a module that was loaded
/// later.
#[must_use]
pub fn attach_error() -> Option<&'static HookError> {
    ERROR.get()
}

/// Keeps the first error.
pub(super) fn record(error: HookError) {
    let _ = ERROR.set(error);
}
