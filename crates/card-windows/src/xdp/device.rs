//! Objects of XDP's driver, and the calls about them.

use super::abi::{DEVICE, ObjectType, open_attribute};
use super::driver::DriverCode;
use crate::event::Event;
use std::io;
use std::mem::zeroed;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{from_mut, from_ref, null, null_mut};
use windows_sys::Wdk::Foundation::OBJECT_ATTRIBUTES;
use windows_sys::Wdk::Storage::FileSystem::{FILE_CREATE, NtCreateFile};
use windows_sys::Win32::Foundation::{
    ERROR_IO_PENDING, GENERIC_READ, GENERIC_WRITE, GetLastError, HANDLE, OBJ_CASE_INSENSITIVE, RtlNtStatusToDosError,
    UNICODE_STRING,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_SHARE_READ, FILE_SHARE_WRITE, SYNCHRONIZE};
use windows_sys::Win32::System::IO::{DeviceIoControl, GetOverlappedResult, IO_STATUS_BLOCK, OVERLAPPED};

/// An object of the driver.
#[derive(Debug)]
pub(super) struct DriverObject(OwnedHandle);

/// The code of an error of Windows.
pub(super) fn code_of(error: &io::Error) -> DriverCode {
    DriverCode(error.raw_os_error().map_or(0, i32::cast_unsigned))
}

/// The error of the last call of this thread.
pub(super) fn last_error() -> DriverCode {
    // SAFETY: it has no conditions.
    DriverCode(unsafe { GetLastError() })
}

impl DriverObject {
    /// Makes one. What the parameters point to need live for this call only.
    pub(super) fn open(object: ObjectType, parameters: &[u8]) -> Result<Self, DriverCode> {
        let attribute = open_attribute(object, parameters);
        let mut name: Vec<u16> = DEVICE.encode_utf16().collect();
        let bytes = (name.len() * 2) as u16;
        let name = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: name.as_mut_ptr() };
        let attributes = OBJECT_ATTRIBUTES {
            Length: size_of::<OBJECT_ATTRIBUTES>() as u32,
            RootDirectory: null_mut(),
            ObjectName: &raw const name,
            Attributes: OBJ_CASE_INSENSITIVE,
            SecurityDescriptor: null(),
            SecurityQualityOfService: null(),
        };
        let mut handle: HANDLE = null_mut();
        // SAFETY: zeroes are valid for numbers and null pointers.
        let mut status: IO_STATUS_BLOCK = unsafe { zeroed() };
        // SAFETY: all of it lives until the call has ended, which it has when it returns. The
        // attribute has the lengths that it says.
        let result = unsafe {
            NtCreateFile(
                &raw mut handle,
                GENERIC_READ | GENERIC_WRITE | SYNCHRONIZE,
                &raw const attributes,
                &raw mut status,
                null(),
                0,
                FILE_SHARE_READ | FILE_SHARE_WRITE,
                FILE_CREATE,
                0,
                attribute.as_ptr().cast(),
                attribute.len() as u32,
            )
        };
        if result < 0 {
            // SAFETY: it has no conditions.
            return Err(DriverCode(unsafe { RtlNtStatusToDosError(result) }));
        }
        // SAFETY: a new handle, which nothing else owns.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle) }))
    }

    /// Its handle, which lives as long as this does.
    pub(super) fn handle(&self) -> HANDLE {
        self.0.as_raw_handle()
    }

    /// Makes a call, and waits until it is done. Returns what else it says: bytes, or flags.
    ///
    /// # Safety
    /// What `input` points to lives for this call. The driver writes only what is an `O`.
    pub(super) unsafe fn call<I, O>(&self, code: u32, input: &I, output: Option<&mut O>) -> Result<u32, DriverCode> {
        let event = Event::new(true).map_err(|error| code_of(&error))?;
        // SAFETY: zeroes are valid for numbers and null pointers.
        let mut overlapped: OVERLAPPED = unsafe { zeroed() };
        overlapped.hEvent = event.handle();
        let room = output.as_ref().map_or(0, |_| size_of::<O>() as u32);
        let output = output.map_or(null_mut(), |output| from_mut(output).cast());
        let mut done = 0;
        // SAFETY: an open handle; so many bytes to read, and room for so many. All of it lives
        // until the call has ended, which is waited for below.
        let result = unsafe {
            DeviceIoControl(
                self.handle(),
                code,
                from_ref(input).cast(),
                size_of::<I>() as u32,
                output,
                room,
                &raw mut done,
                &raw mut overlapped,
            )
        };
        if result != 0 {
            return Ok(done);
        }
        match last_error() {
            DriverCode(ERROR_IO_PENDING) => (),
            code => return Err(code),
        }
        // SAFETY: a call that has begun, whose event is its own.
        let result = unsafe { GetOverlappedResult(self.handle(), &raw const overlapped, &raw mut done, 1) };
        if result != 0 { Ok(done) } else { Err(last_error()) }
    }
}
