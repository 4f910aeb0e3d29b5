//! WinDivert's library. It is loaded from beside the program and from nowhere else, because the
//! service has all rights.

use super::error::WinDivertError;
use super::record::{AddressRecord, LAYER_NETWORK};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::{
    ERROR_BAD_EXE_FORMAT, ERROR_FILE_NOT_FOUND, ERROR_MOD_NOT_FOUND, ERROR_PATH_NOT_FOUND, FARPROC, GetLastError,
    HANDLE, HMODULE,
};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};

/// The library's file.
pub const LIBRARY: &str = "WinDivert.dll";

type OpenFn = unsafe extern "C" fn(*const c_char, c_int, i16, u64) -> HANDLE;
pub(super) type ReceiveFn = unsafe extern "C" fn(
    HANDLE,
    *mut c_void,
    u32,
    *mut u32,
    u64,
    *mut AddressRecord,
    *mut u32,
    *mut OVERLAPPED,
) -> c_int;
type SendFn = unsafe extern "C" fn(
    HANDLE,
    *const c_void,
    u32,
    *mut u32,
    u64,
    *const AddressRecord,
    u32,
    *mut OVERLAPPED,
) -> c_int;
type ShutdownFn = unsafe extern "C" fn(HANDLE, c_int) -> c_int;
type CloseFn = unsafe extern "C" fn(HANDLE) -> c_int;
type SetParamFn = unsafe extern "C" fn(HANDLE, c_int, u64) -> c_int;
type GetParamFn = unsafe extern "C" fn(HANDLE, c_int, *mut u64) -> c_int;
type CompileFn = unsafe extern "C" fn(*const c_char, c_int, *mut c_char, u32, *mut *const c_char, *mut u32) -> c_int;
type EvaluateFn = unsafe extern "C" fn(*const c_char, *const c_void, u32, *const AddressRecord) -> c_int;

/// The library, which stays loaded.
#[derive(Clone, Copy, Debug)]
pub struct WinDivertLibrary {
    pub(super) open: OpenFn,
    pub(super) receive: ReceiveFn,
    pub(super) send: SendFn,
    pub(super) shutdown: ShutdownFn,
    pub(super) close: CloseFn,
    pub(super) set_param: SetParamFn,
    pub(super) get_param: GetParamFn,
    compile: CompileFn,
    evaluate: EvaluateFn,
}

impl WinDivertLibrary {
    /// Loads the one that lies beside the program.
    ///
    /// # Errors
    /// [`WinDivertError::Missing`], and as [`WinDivertLibrary::load`].
    pub fn beside_program() -> Result<Self, WinDivertError> {
        let program = std::env::current_exe()?;
        Self::load(&program.parent().unwrap_or(Path::new(".")).join(LIBRARY))
    }

    /// Loads one.
    ///
    /// # Errors
    /// If it is not there, cannot be loaded, or is another library.
    pub fn load(path: &Path) -> Result<Self, WinDivertError> {
        let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
        // The libraries that it uses are Windows' own.
        let flags = LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32;
        // SAFETY: a path that ends with a zero. What the library does when it is loaded is that of
        // WinDivert, which has been installed beside the program.
        let module = unsafe { LoadLibraryExW(name.as_ptr(), null_mut(), flags) };
        if module.is_null() {
            return Err(unloadable(path, last_error()));
        }
        let find = |name: &'static CStr| find(module, path, name);
        // SAFETY: the types are those of `windivert.h` (on this processor there is one calling
        // convention). A function pointer and `FARPROC` have the same representation.
        unsafe {
            Ok(Self {
                open: transmute::<FARPROC, OpenFn>(find(c"WinDivertOpen")?),
                receive: transmute::<FARPROC, ReceiveFn>(find(c"WinDivertRecvEx")?),
                send: transmute::<FARPROC, SendFn>(find(c"WinDivertSendEx")?),
                shutdown: transmute::<FARPROC, ShutdownFn>(find(c"WinDivertShutdown")?),
                close: transmute::<FARPROC, CloseFn>(find(c"WinDivertClose")?),
                set_param: transmute::<FARPROC, SetParamFn>(find(c"WinDivertSetParam")?),
                get_param: transmute::<FARPROC, GetParamFn>(find(c"WinDivertGetParam")?),
                compile: transmute::<FARPROC, CompileFn>(find(c"WinDivertHelperCompileFilter")?),
                evaluate: transmute::<FARPROC, EvaluateFn>(find(c"WinDivertHelperEvalFilter")?),
            })
        }
    }

    /// Has a filter compiled, to find out what is wrong with it.
    ///
    /// # Errors
    /// [`WinDivertError::Filter`].
    pub fn check_filter(&self, filter: &str) -> Result<(), WinDivertError> {
        let refused =
            |position, reason: String| Err(WinDivertError::Filter { filter: filter.into(), position, reason });
        let Ok(text) = CString::new(filter) else { return refused(0, "it has a zero".into()) };
        let (mut reason, mut position) = (null(), 0);
        // SAFETY: a C string, no room for the result, and places for what is wrong.
        let is_right = unsafe {
            (self.compile)(text.as_ptr(), LAYER_NETWORK.into(), null_mut(), 0, &raw mut reason, &raw mut position)
        };
        if is_right != 0 {
            return Ok(());
        }
        let reason = if reason.is_null() {
            String::new()
        } else {
            // SAFETY: a static C string of the library.
            unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned()
        };
        refused(position, reason)
    }

    /// Whether a filter takes a packet.
    #[must_use]
    pub fn takes(&self, filter: &str, packet: &[u8], record: &AddressRecord) -> bool {
        let (Ok(text), Ok(length)) = (CString::new(filter), u32::try_from(packet.len())) else { return false };
        // SAFETY: a C string, so many bytes, and a record.
        unsafe { (self.evaluate)(text.as_ptr(), packet.as_ptr().cast(), length, record) != 0 }
    }
}

/// The error of the last call of this thread.
pub(super) fn last_error() -> u32 {
    // SAFETY: it has no conditions.
    unsafe { GetLastError() }
}

fn unloadable(path: &Path, code: u32) -> WinDivertError {
    let path: PathBuf = path.into();
    match code {
        ERROR_MOD_NOT_FOUND | ERROR_FILE_NOT_FOUND | ERROR_PATH_NOT_FOUND => WinDivertError::Missing { path },
        ERROR_BAD_EXE_FORMAT => WinDivertError::Architecture { path },
        code => WinDivertError::Unloadable { path, code },
    }
}

/// A function of a library; never `None`.
fn find(module: HMODULE, path: &Path, name: &'static CStr) -> Result<FARPROC, WinDivertError> {
    // SAFETY: a library that is loaded, and a C string.
    let function = unsafe { GetProcAddress(module, name.as_ptr().cast()) };
    match function {
        Some(_) => Ok(function),
        None => Err(WinDivertError::Function { path: path.into(), function: name.to_str().unwrap_or("?") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_or_is_another_one_is_an_error() {
        let missing = WinDivertLibrary::beside_program().unwrap_err();
        assert!(matches!(&missing, WinDivertError::Missing { path } if path.ends_with(LIBRARY)), "{missing}");
        let system = PathBuf::from(std::env::var_os("SystemRoot").unwrap()).join("system32");
        let other = WinDivertLibrary::load(&system.join("kernel32.dll")).unwrap_err();
        assert!(matches!(other, WinDivertError::Function { function: "WinDivertOpen", .. }), "{other}");
        let folder = std::env::temp_dir().join(format!("windivert-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let text = folder.join(LIBRARY);
        std::fs::write(&text, "this is no library").unwrap();
        let broken = WinDivertLibrary::load(&text).unwrap_err();
        assert!(!matches!(broken, WinDivertError::Missing { .. }), "{broken}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
