//! The memory of another process.

use super::done;
use crate::import_table::place_in;
use std::io;
use std::mem::{size_of, zeroed};
use std::ops::Range;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};
use std::ptr::{without_provenance, without_provenance_mut};
use windows_sys::Wdk::System::Threading::{NtQueryInformationProcess, ProcessBasicInformation};
use windows_sys::Win32::Foundation::RtlNtStatusToDosError;
use windows_sys::Win32::System::Diagnostics::Debug::{ReadProcessMemory, WriteProcessMemory};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_FREE, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION, PAGE_READWRITE, VirtualAllocEx,
    VirtualFreeEx, VirtualProtectEx, VirtualQueryEx,
};
use windows_sys::Win32::System::Threading::{IsWow64Process, PROCESS_BASIC_INFORMATION};

/// Where the fields of a process's environment block (PEB) are that are read here.
const IMAGE_BASE: u64 = 0x10;
const LOADER_DATA: u64 = 0x18;

/// Regions of memory that are looked at in the search for a free one.
const MOST_REGIONS: usize = 0x1_0000;

/// Another process, by a handle that permits to read and to write its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteProcess<'p> {
    handle: BorrowedHandle<'p>,
}

/// What the system knows of a process's image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessImage {
    /// Where it begins.
    pub(crate) base: u64,
    /// Whether the system's loader has been at work.
    pub(crate) has_run: bool,
}

impl<'p> RemoteProcess<'p> {
    pub(crate) const fn new(handle: BorrowedHandle<'p>) -> Self {
        Self { handle }
    }

    pub(crate) const fn handle(&self) -> BorrowedHandle<'p> {
        self.handle
    }

    /// Whether it runs by the emulation of another architecture (on 64-bit Windows, that of 32
    /// bits).
    pub(crate) fn is_emulated(&self) -> io::Result<bool> {
        let mut is_emulated = 0;
        // SAFETY: an open process, and a place for the result.
        done(unsafe { IsWow64Process(self.handle.as_raw_handle(), &raw mut is_emulated) })?;
        Ok(is_emulated != 0)
    }

    /// Its image.
    pub(crate) fn image(&self) -> io::Result<ProcessImage> {
        let block = self.environment_block()?;
        let base = self.read_word(block.wrapping_add(IMAGE_BASE))?;
        let loader_data = self.read_word(block.wrapping_add(LOADER_DATA))?;
        Ok(ProcessImage { base, has_run: loader_data != 0 })
    }

    /// Where its environment block is.
    fn environment_block(&self) -> io::Result<u64> {
        // SAFETY: all-zero is a valid value.
        let mut information: PROCESS_BASIC_INFORMATION = unsafe { zeroed() };
        // SAFETY: an open process, and room for so many bytes.
        let status = unsafe {
            NtQueryInformationProcess(
                self.handle.as_raw_handle(),
                ProcessBasicInformation,
                (&raw mut information).cast(),
                size_of::<PROCESS_BASIC_INFORMATION>() as u32,
                std::ptr::null_mut(),
            )
        };
        if status < 0 {
            // SAFETY: the call takes a number.
            let code = unsafe { RtlNtStatusToDosError(status) };
            return Err(io::Error::from_raw_os_error(code.cast_signed()));
        }
        Ok(information.PebBaseAddress.addr() as u64)
    }

    /// Reads a word of 64 bits.
    pub(crate) fn read_word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(at, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut count = 0;
        let from = without_provenance(address(at)?);
        // SAFETY: any address of the other process may be given; room for so many bytes here.
        done(unsafe {
            ReadProcessMemory(self.handle.as_raw_handle(), from, bytes.as_mut_ptr().cast(), bytes.len(), &raw mut count)
        })?;
        if count == bytes.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut count = 0;
        let to = without_provenance(address(at)?);
        // SAFETY: any address of the other process may be given; so many bytes are read here.
        done(unsafe {
            WriteProcessMemory(self.handle.as_raw_handle(), to, bytes.as_ptr().cast(), bytes.len(), &raw mut count)
        })?;
        if count == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Writes to memory that is protected.
    pub(crate) fn write_protected(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let before = self.protect(at, bytes.len(), PAGE_READWRITE)?;
        let written = self.write(at, bytes);
        // The program runs as well with these pages writable.
        let _ = self.protect(at, bytes.len(), before);
        written
    }

    fn protect(&self, at: u64, length: usize, protection: u32) -> io::Result<u32> {
        let mut before = 0;
        let start = without_provenance(address(at)?);
        // SAFETY: any address of the other process may be given; a place for the result.
        done(unsafe { VirtualProtectEx(self.handle.as_raw_handle(), start, length, protection, &raw mut before) })?;
        Ok(before)
    }

    /// Allocates memory anywhere.
    pub(crate) fn allocate(&self, length: usize) -> io::Result<RemoteMemory<'p>> {
        self.allocate_at(0, length)
    }

    /// Allocates memory between these addresses. `None` if there is no room.
    pub(crate) fn allocate_within(&self, bounds: Range<u64>, length: usize) -> io::Result<Option<RemoteMemory<'p>>> {
        let mut at = bounds.start;
        for _ in 0..MOST_REGIONS {
            if at >= bounds.end {
                break;
            }
            let Some((region, is_free)) = self.region(at)? else { break };
            let place = place_in(region.clone(), bounds.clone(), length as u64);
            if let Some(place) = place.filter(|_| is_free) {
                // Some free regions are reserved for the system.
                if let Ok(memory) = self.allocate_at(place, length) {
                    return Ok(Some(memory));
                }
            }
            at = region.end.max(at.saturating_add(1));
        }
        Ok(None)
    }

    /// The region of memory from an address on, and whether it is free. `None` behind the last one.
    fn region(&self, at: u64) -> io::Result<Option<(Range<u64>, bool)>> {
        // SAFETY: all-zero is a valid value.
        let mut information: MEMORY_BASIC_INFORMATION = unsafe { zeroed() };
        let start = without_provenance(address(at)?);
        // SAFETY: any address of the other process may be given; room for so many bytes.
        let size = unsafe {
            VirtualQueryEx(
                self.handle.as_raw_handle(),
                start,
                &raw mut information,
                size_of::<MEMORY_BASIC_INFORMATION>(),
            )
        };
        if size == 0 {
            return Ok(None);
        }
        let begin = information.BaseAddress.addr() as u64;
        Ok(Some((begin..begin.saturating_add(information.RegionSize as u64), information.State == MEM_FREE)))
    }

    /// Allocates memory at an address, or anywhere if that is 0.
    fn allocate_at(&self, at: u64, length: usize) -> io::Result<RemoteMemory<'p>> {
        let wanted = without_provenance(address(at)?);
        // SAFETY: memory that nothing uses yet, in the other process.
        let memory = unsafe {
            VirtualAllocEx(self.handle.as_raw_handle(), wanted, length, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)
        };
        if memory.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(RemoteMemory { process: *self, at: memory.addr() as u64, is_left: false })
    }
}

fn address(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Memory that was allocated in the other process. It is freed, unless it is
/// [left there](Self::leave).
#[derive(Debug)]
pub(crate) struct RemoteMemory<'p> {
    process: RemoteProcess<'p>,
    at: u64,
    is_left: bool,
}

impl RemoteMemory<'_> {
    /// Its address there.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// The process uses it from now on.
    pub(crate) fn leave(mut self) {
        self.is_left = true;
    }
}

impl Drop for RemoteMemory<'_> {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let start = without_provenance_mut(self.at as usize);
        // SAFETY: the memory was allocated by this value, and nothing there knows of it.
        unsafe { VirtualFreeEx(self.process.handle.as_raw_handle(), start, 0, MEM_RELEASE) };
    }
}
