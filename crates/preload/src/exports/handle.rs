//! Functions that a program looks up by a handle of the C library (`dlopen("libc.so.6")` and
//! `dlsym`), as .NET, Python's ctypes and JNA do. It gets this library's functions, as it does by
//! their names.
//!
//! This library's function is returned if the one found is the one that this library itself calls.
//! Where another library stands in between, its function is returned.

use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// `dlsym` of the C library.
type LookUp = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The versions under which the C library has it.
const VERSIONS: [&core::ffi::CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.17", c"GLIBC_2.2.5"];

static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// Where this library is loaded.
static BASE: AtomicUsize = AtomicUsize::new(0);

/// The C library's `dlsym`, which cannot be looked up by itself.
extern "C" fn resolved() -> LookUp {
    let mut found = REAL.load(Relaxed);
    for version in VERSIONS {
        if found.is_null() {
            // SAFETY: terminated names.
            found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            REAL.store(found, Relaxed);
        }
    }
    if found.is_null() {
        return nothing;
    }
    // SAFETY: the C library's function of this name has this signature.
    unsafe { core::mem::transmute::<*mut c_void, LookUp>(found) }
}

/// Where there is no `dlsym`, nothing is found.
unsafe extern "C" fn nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    core::ptr::null_mut()
}

/// Where the library is loaded that contains this address; 0 if none does.
fn base_of(address: *const c_void) -> usize {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: all zero is a valid answer, and is filled in.
    unsafe {
        libc::dladdr(address, info.as_mut_ptr());
        info.assume_init().dli_fbase as usize
    }
}

fn our_base() -> usize {
    let known = BASE.load(Relaxed);
    if known != 0 {
        return known;
    }
    let base = base_of(resolved as *const c_void);
    BASE.store(base, Relaxed);
    base
}

/// `dlsym` for any handle except `RTLD_NEXT`.
unsafe extern "C" fn found(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let look_up = resolved();
    // SAFETY: the program's arguments; the same name again. The calls are made from this library,
    // so "next" is the library after it.
    let (found, next, first) = unsafe {
        let found = look_up(handle, name);
        if found.is_null() || handle == libc::RTLD_DEFAULT {
            return found;
        }
        (found, look_up(libc::RTLD_NEXT, name), look_up(libc::RTLD_DEFAULT, name))
    };
    let ours = found == next && found != first && base_of(first) == our_base();
    if !ours {
        // Errors of the additional calls must not be visible to the program.
        // SAFETY: only reads.
        unsafe { libc::dlerror() };
    }
    if ours { first } else { found }
}

/// `dlsym(3)`. The result for `RTLD_NEXT` depends on the caller, which the C library determines
/// from the return address.
///
/// # Safety
/// As the C library's function of this name.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(any(test, fuzzing)), unsafe(no_mangle))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "cmp rdi, -1",
        "jne {found}",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {resolved}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        found = sym found,
        resolved = sym resolved,
    )
}

/// `dlsym(3)`. The result for `RTLD_NEXT` depends on the caller, which the C library determines
/// from the return address.
///
/// # Safety
/// As the C library's function of this name.
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(any(test, fuzzing)), unsafe(no_mangle))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "cmn x0, #1",
        "b.ne {found}",
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {resolved}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        found = sym found,
        resolved = sym resolved,
    )
}
