//! All hooks of the loaded modules, or none.

use super::hook_entry::Hook;
use super::minhook::{self, MinHookStatus};
use super::module::{self, Module};
use super::original::Export;
use super::{late_modules, reentrancy};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Tables of hooks: one for each family of functions.
pub(super) type Tables = &'static [&'static [Hook]];

/// Why hooks cannot be installed. The program runs without them then.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// A module of Windows lacks a function.
    #[error("{0} does not exist in this version of Windows")]
    Missing(String),
    /// Its first instructions cannot be patched.
    #[error("{function} cannot be hooked: {reason}")]
    Refused {
        /// The function.
        function: String,
        /// What MinHook says.
        reason: MinHookStatus,
    },
    /// No function can be patched: the process may forbid code that changes.
    #[error("functions cannot be patched: {0}")]
    Patch(MinHookStatus),
    /// The process has used up its thread-local slots.
    #[error("no thread-local storage")]
    ThreadSlot(#[source] io::Error),
}

/// Installs all hooks of those modules that are loaded. Hooks of the others are installed when the
/// program loads them. If one of the loaded modules' functions cannot be hooked, none is changed,
/// and late modules are not watched.
///
/// Loads no module and waits for no other thread that could want the loader's lock: `DllMain` may
/// call it. Other threads are suspended for the moment of the change.
///
/// # Errors
/// If a function is missing or cannot be patched.
pub fn install(tables: &'static [&'static [Hook]]) -> Result<(), HookError> {
    reentrancy::prepare().map_err(HookError::ThreadSlot)?;
    // First, so that no module is loaded between both. A module that both see is hooked once.
    let watch = late_modules::watch(tables);
    let installed = resolve(tables, |hook| Module::loaded(hook.export.module)).and_then(|plan| apply(&plan));
    if installed.is_err()
        && let Some(watch) = watch
    {
        watch.end();
    }
    installed
}

/// Installs the hooks of one module, or none of them.
pub(super) fn install_late(tables: Tables, module: Module, is_it: impl Fn(&Hook) -> bool) -> Result<(), HookError> {
    let plan = resolve(tables, |hook| is_it(hook).then_some(module))?;
    apply(&plan)
}

/// A hook, and the address that is patched for it.
struct Planned {
    hook: &'static Hook,
    target: NonNull<c_void>,
}

/// Looks up the functions of those modules that `module` returns.
fn resolve(tables: Tables, module: impl Fn(&Hook) -> Option<Module>) -> Result<Vec<Planned>, HookError> {
    let mut plan = Vec::new();
    for hook in tables.iter().copied().flatten() {
        let Some(module) = module(hook) else { continue };
        match module.export(hook.export.name) {
            Some(target) => {
                // Without it the module might be unloaded, and its hooks with it. There is nothing
                // better to do if Windows refuses.
                module::pin(target);
                plan.push(Planned { hook, target });
            }
            None if hook.is_required => return Err(HookError::Missing(title(hook.export))),
            None => {}
        }
    }
    Ok(plan)
}

/// A patched function.
#[derive(Clone, Copy)]
struct Patched {
    target: NonNull<c_void>,
    trampoline: NonNull<c_void>,
}

// SAFETY: addresses of code, which any thread may run.
unsafe impl Send for Patched {}

/// What is patched. While it is locked, the loader's lock is not wanted: a thread that has that one
/// may be waiting for this one.
static PATCHED: Mutex<Vec<Patched>> = Mutex::new(Vec::new());

fn apply(plan: &[Planned]) -> Result<(), HookError> {
    let mut patched = PATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = || plan.iter().filter(|planned| !planned.hook.export.is_hooked());
    if wanted().next().is_none() {
        return Ok(());
    }
    minhook::initialize().map_err(HookError::Patch)?;
    let start = patched.len();
    let installed = create(&mut patched, wanted()).and_then(|()| {
        // A thread that is in a replacement needs the original.
        for planned in wanted() {
            let known = patched.iter().find(|known| known.target == planned.target);
            planned.hook.export.set_trampoline(known.map_or(planned.target, |known| known.trampoline).as_ptr());
        }
        enable(&patched[start..]).map_err(HookError::Patch)
    });
    match installed {
        Ok(()) => wanted().for_each(|planned| planned.hook.export.set_hooked()),
        Err(_) => patched.truncate(start),
    }
    installed
}

/// Prepares hooks, or none of them.
fn create<'a>(patched: &mut Vec<Patched>, plan: impl Iterator<Item = &'a Planned>) -> Result<(), HookError> {
    let start = patched.len();
    for &Planned { hook, target } in plan {
        // Exports of two modules can be one function (forwarded exports). The first hook stays.
        if patched.iter().any(|known| known.target == target) {
            continue;
        }
        // SAFETY: `Hook::new` has a replacement of the type of the export. This library is never
        // unloaded once it has hooks.
        match unsafe { minhook::create(target, hook.replacement()) } {
            Ok(trampoline) => patched.push(Patched { target, trampoline }),
            Err(reason) => {
                for created in patched.drain(start..) {
                    // SAFETY: it was never in place, and its trampoline was only here.
                    unsafe { minhook::remove(created.target) };
                }
                return Err(HookError::Refused { function: title(hook.export), reason });
            }
        }
    }
    Ok(())
}

/// Patches prepared functions, or none of them. Their trampolines stay in any case: threads may be
/// in them.
fn enable(patched: &[Patched]) -> Result<(), MinHookStatus> {
    let enabled = queue(patched, true).and_then(|()| minhook::apply_queued());
    if enabled.is_err() {
        // What was patched before the failure is restored. More cannot be done if this fails too.
        let _ = queue(patched, false).and_then(|()| minhook::apply_queued());
    }
    enabled
}

fn queue(patched: &[Patched], is_enabled: bool) -> Result<(), MinHookStatus> {
    patched.iter().try_for_each(|hook| minhook::queue(hook.target, is_enabled))
}

/// `ws2_32.dll!recv`.
fn title(export: &Export) -> String {
    format!("{}!{}", export.module.to_string_lossy(), export.name.to_string_lossy())
}
