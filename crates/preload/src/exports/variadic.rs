//! Functions with a variable number of arguments, which stable Rust can call but not define. An
//! assembler entry stores the registers that may hold arguments and calls a Rust function with
//! their address.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("c/variadic.rs needs an entry for the calling convention of this processor");

/// Where the arguments of a variadic call are.
#[repr(C)]
pub(crate) struct VariadicArguments {
    /// The general registers, then the floating-point registers.
    registers: *const u64,
    /// Arguments on the stack.
    stack: *const u64,
    /// How many have been taken. The entry sets it to zero.
    taken: usize,
}

#[cfg(target_arch = "x86_64")]
const REGISTERS: usize = 6;
#[cfg(target_arch = "aarch64")]
const REGISTERS: usize = 8;

impl VariadicArguments {
    /// The next argument, which is a number or a pointer.
    ///
    /// # Safety
    /// The caller passed that many.
    pub(crate) unsafe fn next(&mut self) -> u64 {
        let at = self.taken;
        self.taken += 1;
        // SAFETY: the entry stored the registers; the rest is there by the caller's promise.
        unsafe { if at < REGISTERS { *self.registers.add(at) } else { *self.stack.add(at - REGISTERS) } }
    }

    /// The rest as C's `va_list`.
    pub(crate) fn rest(&self) -> VaList {
        let behind = self.taken.saturating_sub(REGISTERS);
        let stack = self.stack.wrapping_add(behind);
        let taken = self.taken.min(REGISTERS);
        #[cfg(target_arch = "x86_64")]
        {
            // System V ABI for AMD64, 3.5.7.
            const FLOATS: u32 = 8 * REGISTERS as u32;
            VaList { general: 8 * taken as u32, float: FLOATS, stack, registers: self.registers }
        }
        #[cfg(target_arch = "aarch64")]
        {
            // Procedure Call Standard for the Arm 64-bit Architecture, appendix B.
            let general_end = self.registers.wrapping_add(REGISTERS);
            let float_end = general_end.wrapping_add(16);
            VaList { stack, general_end, float_end, general: -8 * (REGISTERS - taken) as i32, float: -128 }
        }
    }
}

/// C's `va_list`.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
pub(crate) struct VaList {
    general: u32,
    float: u32,
    stack: *const u64,
    registers: *const u64,
}

/// C's `va_list`.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
pub(crate) struct VaList {
    stack: *const u64,
    general_end: *const u64,
    float_end: *const u64,
    general: i32,
    float: i32,
}

/// Declares variadic functions under their C names, each with the Rust function that does the work;
/// inside this crate's own tests they are not exported.
macro_rules! variadic {
    ($( $(#[$meta:meta])* fn $name:ident => $work:ident; )*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[cfg(target_arch = "x86_64")]
        #[cfg_attr(not(any(test, fuzzing)), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() -> core::ffi::c_int {
            // `al` tells whether floating-point registers were used. A structure of three words is
            // passed in memory: on the stack.
            core::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 208",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                "lea rax, [rsp + 32]",
                "mov [rsp], rax",
                "lea rax, [rbp + 16]",
                "mov [rsp + 8], rax",
                "mov qword ptr [rsp + 16], 0",
                "call {work}",
                "leave",
                "ret",
                work = sym $work,
            )
        }

        $(#[$meta])*
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[cfg(target_arch = "aarch64")]
        #[cfg_attr(not(any(test, fuzzing)), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() -> core::ffi::c_int {
            // A structure of three words is passed by its address.
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-240]!",
                "mov x29, sp",
                "stp x0, x1, [sp, #48]",
                "stp x2, x3, [sp, #64]",
                "stp x4, x5, [sp, #80]",
                "stp x6, x7, [sp, #96]",
                "stp q0, q1, [sp, #112]",
                "stp q2, q3, [sp, #144]",
                "stp q4, q5, [sp, #176]",
                "stp q6, q7, [sp, #208]",
                "add x8, sp, #48",
                "add x9, sp, #240",
                "stp x8, x9, [sp, #16]",
                "str xzr, [sp, #32]",
                "add x0, sp, #16",
                "bl {work}",
                "ldp x29, x30, [sp], #240",
                "ret",
                work = sym $work,
            )
        }
    )*};
}
pub(crate) use variadic;

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::{c_char, c_int, c_void};
    use std::ffi::CStr;

    unsafe extern "C" {
        fn vsnprintf(into: *mut c_char, room: usize, format: *const c_char, list: *mut c_void) -> c_int;
    }

    variadic! {
        /// Prints like `snprintf`.
        fn print => run_print;
    }

    unsafe extern "C" fn run_print(mut arguments: VariadicArguments) -> c_int {
        // SAFETY: as called below.
        unsafe {
            let into = arguments.next() as *mut c_char;
            let room = arguments.next() as usize;
            let format = arguments.next() as *const c_char;
            let mut list = arguments.rest();
            vsnprintf(into, room, format, (&raw mut list).cast())
        }
    }

    #[test]
    fn arguments_are_found_in_registers_and_on_the_stack() {
        type Print = unsafe extern "C" fn(*mut c_char, usize, *const c_char, ...) -> c_int;
        // SAFETY: `print` is variadic in all but its Rust type.
        let print: Print = unsafe { core::mem::transmute(print as unsafe extern "C" fn() -> c_int) };
        let mut text = [0 as c_char; 200];
        let format = c"%d %s %g %d %d %g %d %d %d %g %g %g %g %g %g %g %g %s";
        // SAFETY: what the format says.
        let n = unsafe {
            print(
                text.as_mut_ptr(),
                text.len(),
                format.as_ptr(),
                1,
                c"two".as_ptr(),
                3.5f64,
                4,
                5,
                6.5f64,
                7,
                8,
                9,
                10.5f64,
                11.5f64,
                12.5f64,
                13.5f64,
                14.5f64,
                15.5f64,
                16.5f64,
                17.5f64,
                c"end".as_ptr(),
            )
        };
        // SAFETY: terminated by the C library.
        let said = unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().unwrap();
        assert_eq!(said, "1 two 3.5 4 5 6.5 7 8 9 10.5 11.5 12.5 13.5 14.5 15.5 16.5 17.5 end");
        assert_eq!(n as usize, said.len());
    }
}
