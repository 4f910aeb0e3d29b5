//! The program's memory, which may not be mapped: copies from it and to it, and checks of it,
//! return `EFAULT` for an unmapped address, as the kernel's own copies do (`copy_from_user`).
//!
//! All of it is done by a few instructions between two labels. A fault there raises a signal, whose
//! handler (see [`signal`]) calls [`recover`], which continues at the second label. This works in a
//! thread that has not blocked the signal; in one that has, the kernel ends the program, as for any
//! fault.
//!
//! [`signal`]: crate::exports::signal

use crate::sys::errno::{Errno, Result};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ops::ControlFlow;

/// The error for an unmapped address.
pub(crate) const FAULT: Errno = Errno(libc::EFAULT);

/// The smallest page size: one byte of a page stands for the others.
const PAGE: usize = 4096;

unsafe extern "C" {
    /// Copies `len` bytes. Not 0 if some were not accessible; any number of bytes may have been
    /// copied then.
    fn tickwire_guarded_copy(to: *mut u8, from: *const u8, len: usize) -> i32;
    /// Reads a byte. Not 0 if it is not accessible.
    fn tickwire_guarded_look(at: *const u8) -> i32;
    /// Writes a byte back unchanged, atomically. Not 0 if it is not accessible, or cannot be
    /// written.
    fn tickwire_guarded_touch(at: *mut u8) -> i32;
    /// Where a fault in one of them continues. They begin with the first and end before this.
    fn tickwire_guarded_failed();
}

// Only the return address is on the stack, and no callee-saved register is changed.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    r#"
    .pushsection .text.tickwire_guarded, "ax", @progbits
    .p2align 5
    .globl tickwire_guarded_copy
    .hidden tickwire_guarded_copy
    .type tickwire_guarded_copy, @function
tickwire_guarded_copy:
    cmp rdx, 32
    jb 3f
    .p2align 5
2:  movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    add rsi, 32
    add rdi, 32
    sub rdx, 32
    cmp rdx, 32
    jae 2b
3:  cmp rdx, 8
    jb 5f
4:  mov rax, [rsi]
    mov [rdi], rax
    add rsi, 8
    add rdi, 8
    sub rdx, 8
    cmp rdx, 8
    jae 4b
5:  test rdx, rdx
    jz 7f
6:  mov al, [rsi]
    mov [rdi], al
    inc rsi
    inc rdi
    dec rdx
    jnz 6b
7:  xor eax, eax
    ret
    .size tickwire_guarded_copy, . - tickwire_guarded_copy

    .globl tickwire_guarded_look
    .hidden tickwire_guarded_look
    .type tickwire_guarded_look, @function
tickwire_guarded_look:
    mov al, [rdi]
    xor eax, eax
    ret
    .size tickwire_guarded_look, . - tickwire_guarded_look

    .globl tickwire_guarded_touch
    .hidden tickwire_guarded_touch
    .type tickwire_guarded_touch, @function
tickwire_guarded_touch:
    lock or byte ptr [rdi], 0
    xor eax, eax
    ret
    .size tickwire_guarded_touch, . - tickwire_guarded_touch

    .globl tickwire_guarded_failed
    .hidden tickwire_guarded_failed
    .type tickwire_guarded_failed, @function
tickwire_guarded_failed:
    mov eax, 1
    ret
    .size tickwire_guarded_failed, . - tickwire_guarded_failed
    .popsection
    "#
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    r#"
    .pushsection .text.tickwire_guarded, "ax", @progbits
    .p2align 4
    .globl tickwire_guarded_copy
    .hidden tickwire_guarded_copy
    .type tickwire_guarded_copy, @function
tickwire_guarded_copy:
    cmp x2, #32
    b.lo 3f
2:  ldp q0, q1, [x1], #32
    stp q0, q1, [x0], #32
    sub x2, x2, #32
    cmp x2, #32
    b.hs 2b
3:  cmp x2, #8
    b.lo 5f
4:  ldr x3, [x1], #8
    str x3, [x0], #8
    sub x2, x2, #8
    cmp x2, #8
    b.hs 4b
5:  cbz x2, 7f
6:  ldrb w3, [x1], #1
    strb w3, [x0], #1
    subs x2, x2, #1
    b.ne 6b
7:  mov w0, wzr
    ret
    .size tickwire_guarded_copy, . - tickwire_guarded_copy

    .globl tickwire_guarded_look
    .hidden tickwire_guarded_look
    .type tickwire_guarded_look, @function
tickwire_guarded_look:
    ldrb w1, [x0]
    mov w0, wzr
    ret
    .size tickwire_guarded_look, . - tickwire_guarded_look

    .globl tickwire_guarded_touch
    .hidden tickwire_guarded_touch
    .type tickwire_guarded_touch, @function
tickwire_guarded_touch:
2:  ldxrb w1, [x0]
    stxrb w2, w1, [x0]
    cbnz w2, 2b
    mov w0, wzr
    ret
    .size tickwire_guarded_touch, . - tickwire_guarded_touch

    .globl tickwire_guarded_failed
    .hidden tickwire_guarded_failed
    .type tickwire_guarded_failed, @function
tickwire_guarded_failed:
    mov w0, #1
    ret
    .size tickwire_guarded_failed, . - tickwire_guarded_failed
    .popsection
    "#
);

/// Continues a thread that faulted in a copy at the copy's end, where it returns an error. False if
/// the fault was elsewhere.
///
/// # Safety
/// `context` is what the kernel gave the running handler.
pub(crate) unsafe fn recover(context: *mut c_void) -> bool {
    let begin = tickwire_guarded_copy as *const () as usize;
    let end = tickwire_guarded_failed as *const () as usize;
    // SAFETY: by the caller's promise. Between the labels only the return address is on the stack.
    unsafe {
        let context = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        let at = &mut context.gregs[libc::REG_RIP as usize];
        #[cfg(target_arch = "aarch64")]
        let at = &mut context.pc;
        let inside = (begin..end).contains(&(*at as usize));
        if inside {
            *at = end as _;
        }
        inside
    }
}

/// Copies bytes, one side of which is the program's. False if some were not accessible; any number
/// of them may have been copied then.
///
/// # Safety
/// The side that is not the program's is valid for `len` bytes. The program's may be anywhere,
/// except in memory of ours.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
    // SAFETY: by the caller's promise; an unmapped address is a fault, which `recover` turns into
    // an error.
    unsafe { tickwire_guarded_copy(to, from, len) == 0 }
}

/// A value of the program's, as it is now, at any address.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// Any bytes are a value of this type.
pub(crate) unsafe fn load<T: Copy>(from: *const T) -> Result<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the value is ours; it is complete if the copy was.
    unsafe {
        if copy(from.cast(), value.as_mut_ptr().cast(), size_of::<T>()) { Ok(value.assume_init()) } else { Err(FAULT) }
    }
}

/// As [`load`]; `None` for a null pointer.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// As [`load`].
pub(crate) unsafe fn load_any<T: Copy>(from: *const T) -> Result<Option<T>> {
    // SAFETY: by the caller's promise.
    if from.is_null() { Ok(None) } else { unsafe { load(from) }.map(Some) }
}

/// Writes a value to the program's memory, at any address.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// The memory is the program's to give.
pub(crate) unsafe fn store<T: Copy>(value: T, to: *mut T) -> Result<()> {
    // SAFETY: the value is ours.
    if unsafe { copy((&raw const value).cast(), to.cast(), size_of::<T>()) } { Ok(()) } else { Err(FAULT) }
}

/// The byte that is checked in each page of a range.
fn pages(start: usize, len: usize) -> impl Iterator<Item = usize> {
    let end = start.saturating_add(len);
    core::iter::successors((len > 0).then_some(start), move |at| (at | (PAGE - 1)).checked_add(1))
        .take_while(move |&at| at < end)
}

/// How many bytes of a range are accessible, from its beginning, by what `is_there` returns for
/// one.
fn there(start: *const u8, len: usize, is_there: impl Fn(usize) -> bool) -> usize {
    let gap = pages(start as usize, len)
        .try_for_each(|at| if is_there(at) { ControlFlow::Continue(()) } else { ControlFlow::Break(at) });
    match gap {
        ControlFlow::Continue(()) => len,
        ControlFlow::Break(at) => at - start as usize,
    }
}

/// Whether a whole range can be read. (Another thread of the program may unmap it at any time.)
pub(crate) fn can_read<T>(start: *const T, count: usize) -> bool {
    let len = count.saturating_mul(size_of::<T>());
    // SAFETY: an unmapped address is a fault, which `recover` turns into an error.
    there(start.cast(), len, |at| unsafe { tickwire_guarded_look(at as *const u8) == 0 }) == len
}

/// How many of `count` entries can be written, from the first on.
///
/// # Safety
/// The range is the program's to give.
pub(crate) unsafe fn writable<T>(start: *mut T, count: usize) -> usize {
    let len = count.saturating_mul(size_of::<T>());
    // SAFETY: by the caller's promise; a byte is written back unchanged and atomically, whatever
    // other threads do with it.
    let len = there(start.cast(), len, |at| unsafe { tickwire_guarded_touch(at as *mut u8) == 0 });
    len / size_of::<T>().max(1)
}

/// Whether all of them can be written.
///
/// # Safety
/// As [`writable`].
pub(crate) unsafe fn can_write<T>(start: *mut T, count: usize) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { writable(start, count) == count }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages: one to write, one to read, none.
    struct Pages(*mut u8);

    impl Pages {
        fn new() -> Self {
            crate::exports::signal::guard();
            // SAFETY: a mapping of our own.
            unsafe {
                let (none, flags) = (core::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                let start = libc::mmap(none, 3 * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                let start = start.cast::<u8>();
                start.write_bytes(7, 2 * PAGE);
                libc::mprotect(start.add(PAGE).cast(), PAGE, libc::PROT_READ);
                libc::mprotect(start.add(2 * PAGE).cast(), PAGE, libc::PROT_NONE);
                Self(start)
            }
        }

        fn at(&self, offset: usize) -> *mut u8 {
            self.0.wrapping_add(offset)
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: our own.
            unsafe { libc::munmap(self.0.cast(), 3 * PAGE) };
        }
    }

    #[test]
    fn every_length_is_copied_whole_from_and_to_every_place() {
        let from: Vec<u8> = (0..200).map(|n| n as u8 | 1).collect();
        for len in 0..=150 {
            for (a, b) in [(0, 0), (1, 0), (0, 3), (7, 9)] {
                let mut to = [0u8; 200];
                // SAFETY: both are ours, and long enough.
                assert!(unsafe { copy(from[a..].as_ptr(), to[b..].as_mut_ptr(), len) });
                assert_eq!(to[b..b + len], from[a..a + len]);
                assert!(to[b + len..].iter().chain(&to[..b]).all(|&byte| byte == 0), "{len}");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_a_fault_that_is_told() {
        let pages = Pages::new();
        let mut ours = [1u8; 100];
        // SAFETY: ours is long enough.
        unsafe {
            assert!(copy(pages.at(2 * PAGE - 100), ours.as_mut_ptr(), 100));
            assert_eq!(ours, [7; 100]);
            for (from, len) in [(2 * PAGE - 99, 100), (2 * PAGE - 1, 2), (2 * PAGE, 1), (2 * PAGE - 8, 16)] {
                assert!(!copy(pages.at(from), ours.as_mut_ptr(), len), "{from} {len}");
            }
            for (to, len, good) in [(PAGE - 64, 64, true), (PAGE - 64, 65, false), (PAGE, 1, false)] {
                assert_eq!(copy(ours.as_ptr(), pages.at(to), len), good, "{to} {len}");
            }
            assert_eq!(load(pages.at(2 * PAGE - 3).cast::<u32>()), Err(FAULT));
            assert_eq!(load(pages.at(2 * PAGE - 5).cast::<u32>()), Ok(0x0707_0707), "at any address");
            assert_eq!(load_any(core::ptr::null::<u32>()), Ok(None));
            assert_eq!(store(1u32, pages.at(PAGE - 3).cast()), Err(FAULT));
            assert_eq!(load(core::ptr::without_provenance::<u64>(16)), Err(FAULT));
        }
    }

    #[test]
    fn a_range_is_there_as_far_as_its_pages_are() {
        let pages = Pages::new();
        assert!(can_read(pages.at(10), 2 * PAGE - 10));
        assert!(!can_read(pages.at(10), 2 * PAGE - 9));
        assert!(can_read(pages.at(2 * PAGE), 0));
        assert!(!can_read(core::ptr::null::<u64>(), 1));
        // SAFETY: our own pages.
        unsafe {
            assert!(can_write(pages.at(10), PAGE - 10));
            assert!(!can_write(pages.at(10), PAGE - 9));
            assert_eq!(writable(pages.at(PAGE - 24).cast::<[u8; 12]>(), 1000), 2);
            assert_eq!(writable(pages.at(PAGE - 23).cast::<[u8; 12]>(), 1000), 1);
        }
    }
}
