//! Modules of the process and their exports; the path of this library.

use super::last_error;
use std::ffi::{CStr, OsString, c_void};
use std::io;
use std::mem::transmute;
use std::os::windows::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::{ERROR_INSUFFICIENT_BUFFER, HMODULE};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN,
    GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleFileNameW, GetModuleHandleExW, GetModuleHandleW,
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

/// Winsock.
pub const WS2_32: &CStr = c"ws2_32.dll";
/// Extensions of Winsock (`AcceptEx`, `TransmitFile`).
pub const MSWSOCK: &CStr = c"mswsock.dll";
/// Winsock 1.1: most of its exports are forwarded to `ws2_32.dll`.
pub const WSOCK32: &CStr = c"wsock32.dll";
/// The basic functions of Windows, as programs import them.
pub const KERNEL32: &CStr = c"kernel32.dll";
/// The basic functions of Windows themselves.
pub const KERNELBASE: &CStr = c"kernelbase.dll";
/// System calls.
pub const NTDLL: &CStr = c"ntdll.dll";

/// A module that is mapped into the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Module(NonNull<c_void>);

/// The folder of Windows' modules, without a backslash at its end.
fn system_folder() -> &'static [u16] {
    static FOLDER: OnceLock<Vec<u16>> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let mut folder = vec![0; 260];
        // SAFETY: room for so many units.
        let len = unsafe { GetSystemDirectoryW(folder.as_mut_ptr(), folder.len() as u32) } as usize;
        folder.truncate(len);
        folder
    })
}

/// The path of the module of Windows of this file name, with a zero at its end.
fn system_path(name: &CStr) -> Vec<u16> {
    let name = name.to_bytes_with_nul().iter().map(|byte| u16::from(*byte));
    system_folder().iter().copied().chain([b'\\'.into()]).chain(name).collect()
}

/// Whether this is the path of the module of Windows of this file name, in upper or lower case.
pub(super) fn is_system_path(path: &[u16], name: &CStr) -> bool {
    let lower = |unit: &u16| u8::try_from(*unit).map_or(*unit, |byte| byte.to_ascii_lowercase().into());
    let wanted = system_path(name);
    path.iter().map(lower).eq(wanted[..wanted.len() - 1].iter().map(lower))
}

impl Module {
    /// The module of Windows of this file name, if it is mapped. (A program's folder may have
    /// another of this name, which replaces it for the program.)
    pub(super) fn loaded(name: &CStr) -> Option<Self> {
        // SAFETY: a text that ends with a zero.
        NonNull::new(unsafe { GetModuleHandleW(system_path(name).as_ptr()) }).map(Self)
    }

    /// The module of Windows of this file name. It is loaded if that has not been done: not to be
    /// called while another module is loaded.
    pub(super) fn load(name: &CStr) -> Option<Self> {
        let load = || {
            let before = last_error::get();
            // SAFETY: a text that ends with a zero. Only a module of Windows is loaded, which keeps
            // what it has once been told of for all of the process.
            let module =
                unsafe { LoadLibraryExW(system_path(name).as_ptr(), null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32) };
            last_error::set(before);
            NonNull::new(module).map(Self)
        };
        Self::loaded(name).or_else(load)
    }

    /// The module at this address.
    ///
    /// # Safety
    /// A module is mapped there.
    pub(super) unsafe fn at(base: *mut c_void) -> Option<Self> {
        NonNull::new(base).map(Self)
    }

    /// The address of what this module exports under this name. If the export is forwarded, it is
    /// the address in the other module.
    pub(super) fn export(self, name: &CStr) -> Option<NonNull<c_void>> {
        let before = last_error::get();
        // SAFETY: a mapped module, and a text that ends with a zero.
        let function = unsafe { GetProcAddress(self.0.as_ptr(), name.as_ptr().cast()) };
        last_error::set(before);
        // SAFETY: an address is an address.
        NonNull::new(unsafe { transmute::<Option<unsafe extern "system" fn() -> isize>, *mut c_void>(function) })
    }
}

/// Keeps the module that has this address loaded until the process ends: its code is patched, or it
/// is the code that patches point to. Returns whether Windows has agreed.
pub(super) fn pin(address: NonNull<c_void>) -> bool {
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
    module_of(address, flags).is_ok()
}

/// The path of this library's file (of the program, where the library is linked into it).
///
/// # Errors
/// If Windows does not say.
pub fn own_path() -> io::Result<PathBuf> {
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let module = module_of(own_address(), flags)?;
    // Paths are at most 32,767 long.
    let mut path = vec![0_u16; 260];
    loop {
        // SAFETY: a mapped module, and room for so many units.
        let len = unsafe { GetModuleFileNameW(module, path.as_mut_ptr(), path.len() as u32) } as usize;
        match len {
            0 => return Err(io::Error::last_os_error()),
            // The path was cut.
            _ if len >= path.len() => {
                if path.len() > 1 << 16 {
                    return Err(io::Error::from_raw_os_error(ERROR_INSUFFICIENT_BUFFER.cast_signed()));
                }
                path.resize(path.len() * 2, 0);
            }
            _ => return Ok(OsString::from_wide(&path[..len]).into()),
        }
    }
}

/// An address in this library.
pub(super) fn own_address() -> NonNull<c_void> {
    static HERE: u8 = 0;
    NonNull::from(&HERE).cast()
}

fn module_of(address: NonNull<c_void>, flags: u32) -> io::Result<HMODULE> {
    let mut module = null_mut();
    // SAFETY: with this flag the name is an address; room for the result.
    let found = unsafe { GetModuleHandleExW(flags, address.as_ptr().cast(), &raw mut module) };
    if found == 0 { Err(io::Error::last_os_error()) } else { Ok(module) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_path_is_the_programs_here() {
        let (own, program) = (own_path().unwrap(), std::env::current_exe().unwrap());
        assert_eq!(own.file_name(), program.file_name());
        assert!(own.is_absolute() && own.exists());
    }

    #[test]
    fn modules_and_exports_are_found_by_name() {
        let kernel = Module::loaded(KERNEL32).unwrap();
        assert!(kernel.export(c"GetTickCount64").is_some());
        assert!(kernel.export(c"no such function").is_none());
        assert!(Module::loaded(c"no such module.dll").is_none());
        assert!(Module::load(c"no such module.dll").is_none());
        assert!(pin(kernel.export(c"GetTickCount64").unwrap()));
        let path: Vec<u16> = r"c:\WINDOWS\system32\KERNEL32.dll".encode_utf16().collect();
        assert!(is_system_path(&path, KERNEL32));
        assert!(!is_system_path(&path, NTDLL) && !is_system_path(&path[1..], KERNEL32));
        assert!(!pin(NonNull::without_provenance(std::num::NonZero::new(64).unwrap())));
    }
}
