//! A hook: original and replacement, of one type.

use super::original::{Export, Original};
use std::ffi::c_void;
use std::mem::transmute_copy;

/// A pointer to some function.
type AnyFunction = unsafe extern "system" fn();

/// A hook, for the tables that [`install`](fn@super::install) takes.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    pub(super) export: &'static Export,
    replacement: AnyFunction,
    pub(super) is_required: bool,
}

impl Hook {
    /// Calls of this function go to the replacement, which has the same type.
    #[must_use]
    pub const fn new<F: Copy>(original: &'static Original<F>, replacement: F) -> Self {
        // SAFETY: as `Original::new` demands, `F` is the type of a pointer to a function. It is
        // never called by this other type.
        let replacement = unsafe { transmute_copy(&replacement) };
        Self { export: original.export(), replacement, is_required: true }
    }

    /// As [`new`](Self::new), for a function that only some versions of Windows have. Where it is
    /// missing this is no error.
    #[must_use]
    pub const fn if_present<F: Copy>(original: &'static Original<F>, replacement: F) -> Self {
        Self { is_required: false, ..Self::new(original, replacement) }
    }

    /// The replacement's address.
    pub(super) fn replacement(&self) -> *mut c_void {
        self.replacement as *mut c_void
    }
}
