//! Functions of `ntdll.dll` for files, which sockets are, and for completion ports: their types,
//! and the originals.

use super::module::{KERNELBASE, NTDLL};
use super::original::Original;
use std::ffi::c_void;
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS};
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, OVERLAPPED};
use windows_sys::core::BOOL;

/// `NtSetInformationFile`.
pub type NtSetInformationFileFn = unsafe extern "system" fn(
    file: HANDLE,
    status: *mut IO_STATUS_BLOCK,
    information: *const c_void,
    len: u32,
    class: i32,
) -> NTSTATUS;

/// `NtSetIoCompletion`.
pub type NtSetIoCompletionFn =
    unsafe extern "system" fn(port: HANDLE, key: usize, context: usize, status: NTSTATUS, bytes: usize) -> NTSTATUS;

/// `NtRemoveIoCompletion`.
pub type NtRemoveIoCompletionFn = unsafe extern "system" fn(
    port: HANDLE,
    key: *mut usize,
    context: *mut usize,
    status: *mut IO_STATUS_BLOCK,
    timeout: *const i64,
) -> NTSTATUS;

/// `NtRemoveIoCompletionEx`.
pub type NtRemoveIoCompletionExFn = unsafe extern "system" fn(
    port: HANDLE,
    entries: *mut c_void,
    count: u32,
    removed: *mut u32,
    timeout: *const i64,
    is_alertable: u8,
) -> NTSTATUS;

/// `NtCancelIoFile`.
pub type NtCancelIoFileFn = unsafe extern "system" fn(file: HANDLE, status: *mut IO_STATUS_BLOCK) -> NTSTATUS;

/// `NtCancelIoFileEx`.
pub type NtCancelIoFileExFn =
    unsafe extern "system" fn(file: HANDLE, request: *const IO_STATUS_BLOCK, status: *mut IO_STATUS_BLOCK) -> NTSTATUS;

/// `NtDeviceIoControlFile`.
pub type NtDeviceIoControlFileFn = unsafe extern "system" fn(
    file: HANDLE,
    event: HANDLE,
    routine: *const c_void,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    code: u32,
    input: *const c_void,
    input_len: u32,
    output: *mut c_void,
    output_len: u32,
) -> NTSTATUS;

/// `NtReadFile`.
pub type NtReadFileFn = unsafe extern "system" fn(
    file: HANDLE,
    event: HANDLE,
    routine: *const c_void,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    buffer: *mut c_void,
    len: u32,
    offset: *const i64,
    key: *const u32,
) -> NTSTATUS;

/// `NtWriteFile`.
pub type NtWriteFileFn = unsafe extern "system" fn(
    file: HANDLE,
    event: HANDLE,
    routine: *const c_void,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    buffer: *const c_void,
    len: u32,
    offset: *const i64,
    key: *const u32,
) -> NTSTATUS;

/// `NtQueryObject`.
pub type NtQueryObjectFn = unsafe extern "system" fn(
    handle: HANDLE,
    class: i32,
    information: *mut c_void,
    len: u32,
    needed: *mut u32,
) -> NTSTATUS;

/// `NtClose`.
pub type NtCloseFn = unsafe extern "system" fn(handle: HANDLE) -> NTSTATUS;

/// `GetOverlappedResult`.
pub type GetOverlappedResultFn =
    unsafe extern "system" fn(file: HANDLE, request: *const OVERLAPPED, bytes: *mut u32, wait: BOOL) -> BOOL;

/// `GetOverlappedResultEx`.
pub type GetOverlappedResultExFn = unsafe extern "system" fn(
    file: HANDLE,
    request: *const OVERLAPPED,
    bytes: *mut u32,
    timeout_ms: u32,
    is_alertable: BOOL,
) -> BOOL;

/// Declares originals.
macro_rules! originals {
    ($( $name:ident: $function:ty = $module:ident $export:literal; )*) => {$(
        #[doc = concat!("The function of type [`", stringify!($function), "`].")]
        // SAFETY: the type is the one that the documentation of this export has.
        pub static $name: Original<$function> = unsafe { Original::new($module, $export) };
    )*};
}

originals! {
    NT_SET_INFORMATION_FILE: NtSetInformationFileFn = NTDLL c"NtSetInformationFile";
    NT_SET_IO_COMPLETION: NtSetIoCompletionFn = NTDLL c"NtSetIoCompletion";
    NT_REMOVE_IO_COMPLETION: NtRemoveIoCompletionFn = NTDLL c"NtRemoveIoCompletion";
    NT_REMOVE_IO_COMPLETION_EX: NtRemoveIoCompletionExFn = NTDLL c"NtRemoveIoCompletionEx";
    NT_DEVICE_IO_CONTROL_FILE: NtDeviceIoControlFileFn = NTDLL c"NtDeviceIoControlFile";
    NT_READ_FILE: NtReadFileFn = NTDLL c"NtReadFile";
    NT_WRITE_FILE: NtWriteFileFn = NTDLL c"NtWriteFile";
    NT_QUERY_OBJECT: NtQueryObjectFn = NTDLL c"NtQueryObject";
    NT_CLOSE: NtCloseFn = NTDLL c"NtClose";
    NT_CANCEL_IO_FILE: NtCancelIoFileFn = NTDLL c"NtCancelIoFile";
    NT_CANCEL_IO_FILE_EX: NtCancelIoFileExFn = NTDLL c"NtCancelIoFileEx";
    GET_OVERLAPPED_RESULT: GetOverlappedResultFn = KERNELBASE c"GetOverlappedResult";
    GET_OVERLAPPED_RESULT_EX: GetOverlappedResultExFn = KERNELBASE c"GetOverlappedResultEx";
}
