//! The real function behind a hook.

use super::module::Module;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::mem::transmute_copy;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// A function that a module of Windows exports, of type `F`. Where it is hooked, this is the real
/// function behind the hook.
///
/// Meant as a static. It allocates nothing, and any thread may use it.
///
/// ```ignore
/// // SAFETY: the type is that of the documentation.
/// pub static RECV: Original<RecvFn> = unsafe { Original::new(WS2_32, c"recv") };
/// let received = unsafe { RECV.get()(socket, buffer, len, flags) };
/// ```
#[derive(Debug)]
pub struct Original<F> {
    export: Export,
    function: PhantomData<F>,
}

impl<F: Copy> Original<F> {
    /// The function that this module exports under this name.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function (`unsafe extern "system" fn`), and the function
    /// has this type.
    #[must_use]
    pub const unsafe fn new(module: &'static CStr, name: &'static CStr) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "F is no pointer to a function") };
        Self { export: Export::new(module, name), function: PhantomData }
    }

    /// The real function. Before the hook is installed, this is the export itself.
    ///
    /// # Panics
    /// If this Windows has no such function.
    #[inline]
    #[must_use]
    pub fn get(&self) -> F {
        self.export.get().map_or_else(|| self.missing(), Self::function)
    }

    /// As [`get`](Self::get), for a function that only some versions of Windows have.
    #[must_use]
    pub fn if_present(&self) -> Option<F> {
        self.export.get().map(Self::function)
    }

    /// As [`if_present`](Self::if_present), without loading the module.
    #[must_use]
    pub fn if_loaded(&self) -> Option<F> {
        self.export.get_if_loaded().map(Self::function)
    }

    /// Whether the hook is in place. Not the case for a function of a module that is not loaded
    /// yet, or that has refused its hooks.
    #[must_use]
    pub fn is_hooked(&self) -> bool {
        self.export.is_hooked()
    }

    /// Whether the export itself, which may be hooked, is at this address.
    #[must_use]
    pub fn is_at(&self, address: *mut c_void) -> bool {
        let export = Module::loaded(self.export.module).and_then(|module| module.export(self.export.name));
        export.is_some_and(|export| std::ptr::eq(export.as_ptr(), address))
    }

    /// The function without its type.
    pub(super) const fn export(&'static self) -> &'static Export {
        &self.export
    }

    fn function(entry: *mut c_void) -> F {
        // SAFETY: as `new` demands, `F` is the type of a pointer to this function.
        unsafe { transmute_copy(&entry) }
    }

    #[cold]
    fn missing(&self) -> ! {
        panic!("{} has no {}", self.export.module.to_string_lossy(), self.export.name.to_string_lossy())
    }
}

/// An exported function without its type.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) module: &'static CStr,
    pub(super) name: &'static CStr,
    /// Where to call it: null until it is looked up, then the export, then the trampoline.
    entry: AtomicPtr<c_void>,
    hooked: AtomicBool,
}

impl Export {
    const fn new(module: &'static CStr, name: &'static CStr) -> Self {
        Self { module, name, entry: AtomicPtr::new(null_mut()), hooked: AtomicBool::new(false) }
    }

    #[inline]
    fn get(&self) -> Option<*mut c_void> {
        let entry = self.entry.load(Ordering::Acquire);
        if entry.is_null() { self.look_up(Module::load(self.module)?) } else { Some(entry) }
    }

    fn get_if_loaded(&self) -> Option<*mut c_void> {
        let entry = self.entry.load(Ordering::Acquire);
        if entry.is_null() { self.look_up(Module::loaded(self.module)?) } else { Some(entry) }
    }

    #[cold]
    fn look_up(&self, module: Module) -> Option<*mut c_void> {
        let found = module.export(self.name)?;
        // A hook that was installed meanwhile takes precedence: the export is the hook itself.
        match self.entry.compare_exchange(null_mut(), found.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(found.as_ptr()),
            Err(trampoline) => Some(trampoline),
        }
    }

    pub(super) fn is_hooked(&self) -> bool {
        self.hooked.load(Ordering::Acquire)
    }

    /// From now on calls go to the trampoline, which does the same as the export.
    pub(super) fn set_trampoline(&self, trampoline: *mut c_void) {
        self.entry.store(trampoline, Ordering::Release);
    }

    /// The hook is in place.
    pub(super) fn set_hooked(&self) {
        self.hooked.store(true, Ordering::Release);
    }
}
