//! Anonymous sections: memory that two processes share, without a name by which a third one could
//! open it.

use crate::private_object;
use crate::sys::own;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::{NonNull, null};
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, PAGE_READWRITE,
    UnmapViewOfFile,
};

/// The rights of a program to a section that it reads.
pub const PROGRAM_READS: u32 = FILE_MAP_READ;

/// The rights of a program to a section that it writes.
pub const PROGRAM_WRITES: u32 = FILE_MAP_READ | FILE_MAP_WRITE;

/// A section, by its handle.
#[derive(Debug)]
pub struct SharedSection {
    handle: OwnedHandle,
}

impl SharedSection {
    /// Makes a section of so many bytes, all zero. Its memory is reserved at once, so no access to
    /// a view of it can fail later.
    ///
    /// # Errors
    /// If there is no memory left.
    pub fn create(size: usize) -> io::Result<Self> {
        let size = size as u64;
        let attributes = private_object::attributes()?;
        let (high, low) = ((size >> 32) as u32, size as u32);
        // SAFETY: valid attributes, and no name are passed.
        let handle = unsafe {
            CreateFileMappingW(INVALID_HANDLE_VALUE, &raw const attributes, PAGE_READWRITE, high, low, null())
        };
        // SAFETY: the result of that call.
        unsafe { own(handle) }.map(Self::from)
    }

    /// Maps the first bytes of the section to be read, for as long as the view lives.
    ///
    /// # Errors
    /// If the section is shorter, or the handle does not permit it.
    pub fn view(&self, size: usize) -> io::Result<SectionView> {
        SectionView::map(self, FILE_MAP_READ, size)
    }

    /// Maps the first bytes of the section to be read and written.
    ///
    /// # Errors
    /// As [`SharedSection::view`].
    pub fn view_writable(&self, size: usize) -> io::Result<WritableView> {
        SectionView::map(self, FILE_MAP_READ | FILE_MAP_WRITE, size).map(WritableView)
    }
}

impl AsHandle for SharedSection {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}

impl From<OwnedHandle> for SharedSection {
    /// A handle that another process has passed. If it is none of a section, no view of it can be
    /// mapped.
    fn from(handle: OwnedHandle) -> Self {
        Self { handle }
    }
}

/// A section's memory in this process, to be read. The other side may write to it at any time.
#[derive(Debug)]
pub struct SectionView {
    at: NonNull<u8>,
    size: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread. It is used by atomics, and by copies
// whose bytes may be any.
unsafe impl Send for SectionView {}
// SAFETY: as above.
unsafe impl Sync for SectionView {}

impl SectionView {
    fn map(section: &SharedSection, access: u32, size: usize) -> io::Result<Self> {
        // SAFETY: the system chooses an address where nothing else is.
        let view = unsafe { MapViewOfFile(section.handle.as_raw_handle(), access, 0, 0, size) };
        let at = NonNull::new(view.Value.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { at, size })
    }

    /// A value at this offset.
    ///
    /// # Panics
    /// If it is not inside of the view, or not aligned.
    pub(crate) fn at<T>(&self, offset: usize) -> NonNull<T> {
        self.array(offset, 1)
    }

    /// Values at this offset, one behind the other; there may be none.
    ///
    /// # Panics
    /// As [`SectionView::at`].
    pub(crate) fn array<T>(&self, offset: usize, count: usize) -> NonNull<T> {
        let at = self.bytes(offset, size_of::<T>() * count).cast::<T>();
        assert!(at.is_aligned(), "an offset in a section is aligned");
        NonNull::new(at).expect("a mapping does not begin at 0")
    }

    /// Bytes at this offset.
    ///
    /// # Panics
    /// If they are not inside of the view.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> *mut u8 {
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= self.size);
        assert!(is_inside, "{len} bytes at {offset} are not inside of a view of {}", self.size);
        self.at.as_ptr().wrapping_add(offset)
    }

    /// Copies bytes out of the section.
    pub(crate) fn copy_out(&self, offset: usize, to: &mut [u8]) {
        let from = self.bytes(offset, to.len());
        // SAFETY: inside of the mapping, as was just checked; any bytes are valid. A process that
        // changes them meanwhile tears its own data.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }
}

impl Drop for SectionView {
    fn drop(&mut self) {
        let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: self.at.as_ptr().cast() };
        // SAFETY: this view was mapped by `map`, and nothing refers to it any more.
        unsafe { UnmapViewOfFile(view) };
    }
}

/// A section's memory in this process, to be read and written.
#[derive(Debug)]
pub struct WritableView(SectionView);

impl WritableView {
    /// To be read.
    pub(crate) fn reading(&self) -> &SectionView {
        &self.0
    }

    /// Copies bytes into the section.
    ///
    /// # Panics
    /// If they are not inside of the view.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let to = self.0.bytes(offset, bytes.len());
        // SAFETY: inside of the mapping, as was just checked, which is writable; the slice is of
        // this process's own memory, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::DuplicateHandle;
    use windows_sys::Win32::System::Threading::GetCurrentProcess;

    #[test]
    fn what_is_written_in_one_view_is_read_in_another_as_far_as_it_reaches() {
        let section = SharedSection::create(8192).unwrap();
        let (written, read) = (section.view_writable(8192).unwrap(), section.view(8192).unwrap());
        written.copy_in(5000, b"tick");
        let mut bytes = [0; 4];
        read.copy_out(5000, &mut bytes);
        assert_eq!(&bytes, b"tick");
        assert!(section.view(1 << 20).is_err(), "longer than the section");
    }

    #[test]
    fn rights_to_a_section_cannot_be_widened() {
        let section = SharedSection::create(4096).unwrap();
        let narrow = duplicate(section.as_handle(), PROGRAM_READS).unwrap();
        assert!(SharedSection::from(narrow.try_clone().unwrap()).view(4096).is_ok());
        assert!(SharedSection::from(narrow.try_clone().unwrap()).view_writable(4096).is_err());
        assert!(duplicate(narrow.as_handle(), PROGRAM_WRITES).is_err());
    }

    /// Another handle in this process, with these rights.
    fn duplicate(handle: BorrowedHandle<'_>, access: u32) -> io::Result<OwnedHandle> {
        let mut copy = std::ptr::null_mut();
        // SAFETY: handles of this process, and a place for the result.
        let done = unsafe {
            let own = GetCurrentProcess();
            DuplicateHandle(own, handle.as_raw_handle(), own, &raw mut copy, access, 0, 0)
        };
        let copy = if done == 0 { std::ptr::null_mut() } else { copy };
        // SAFETY: the result of that call.
        unsafe { own(copy) }
    }

    #[test]
    fn a_handle_of_something_else_is_no_section() {
        let event = crate::event::WakeEvent::new().unwrap();
        let section = SharedSection::from(event.as_handle().try_clone_to_owned().unwrap());
        assert!(section.view(4096).is_err());
    }
}
