//! The headers of a program or a library (PE format), as far as they are needed here.
//!
//! The bytes are of another process, or of a file, so anything may be in them. Offsets and counts
//! are bounded, and arithmetic with them cannot overflow.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The bytes of an image, by their offset in memory or in a file.
pub trait ImageBytes {
    /// Reads so many bytes.
    ///
    /// # Errors
    /// If they are not all there.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

impl ImageBytes for [u8] {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let source = rest.and_then(|rest| rest.get(..bytes.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(source);
        Ok(())
    }
}

/// The bytes of a file.
#[derive(Debug)]
pub struct FileBytes(pub File);

impl ImageBytes for FileBytes {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        (&self.0).seek(SeekFrom::Start(offset))?;
        (&self.0).read_exact(bytes)
    }
}

/// Why an image is not used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Something else than a program or a library.
    #[error("it is no executable file of Windows")]
    NotExecutable,
    /// A number is out of its range.
    #[error("its headers are damaged ({0})")]
    Damaged(&'static str),
    /// The bytes are not there.
    #[error("its headers cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// The processor that this crate was built for (`IMAGE_FILE_MACHINE_*`).
pub const OWN_MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    0x8664
} else if cfg!(target_arch = "aarch64") {
    0xaa64
} else {
    0
};

/// Entries of [`ImageHeaders::directories`].
pub const EXPORT: usize = 0;
/// Import descriptors.
pub const IMPORT: usize = 1;
/// Addresses of imported functions that were entered when the program was built.
pub const BOUND_IMPORT: usize = 11;
/// All tables of imported addresses.
pub const ADDRESS_TABLES: usize = 12;
/// The header of .NET.
pub const MANAGED: usize = 14;
/// The number of entries that have a meaning.
pub const DIRECTORIES: usize = 16;

/// Bytes of an entry.
pub const DIRECTORY_BYTES: usize = 8;

/// Where a table is: its address relative to the image's start, and its size. All zero: nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataDirectory {
    /// The relative address.
    pub rva: u32,
    /// Bytes.
    pub size: u32,
}

impl DataDirectory {
    /// Whether there is no such table.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.rva == 0 || self.size == 0
    }

    /// Whether an address is in the table.
    #[must_use]
    pub const fn contains(self, rva: u32) -> bool {
        rva >= self.rva && rva - self.rva < self.size
    }
}

/// A section: a range of the image in memory, and its bytes in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSection {
    /// Its range in memory.
    pub memory: DataDirectory,
    /// Where it is in the file.
    file_offset: u32,
    /// Bytes in the file.
    file_size: u32,
}

/// The headers of an image.
#[derive(Debug)]
pub struct ImageHeaders {
    /// The processor (`IMAGE_FILE_MACHINE_*`).
    pub machine: u16,
    /// Whether it is a library.
    pub is_library: bool,
    /// Whether it has the format for 64-bit processors (PE32+). A .NET program that suits both has
    /// the other one, and yet runs in a process of 64 bits.
    pub is_wide: bool,
    /// Bytes of the image in memory.
    pub size: u32,
    /// Bytes of all headers: at the start of the file and of the image.
    pub header_size: u32,
    /// Where the directories begin in the image.
    pub directories_at: u64,
    /// How many directories there are.
    pub directory_count: usize,
    /// The directories; those that are not there are empty.
    pub directories: [DataDirectory; DIRECTORIES],
    /// The sections.
    pub sections: Vec<ImageSection>,
}

/// The DOS header, whose last field says where the others begin.
const DOS_BYTES: usize = 64;
/// Signature and file header.
const FILE_BYTES: usize = 24;
/// The optional header with 16 directories.
const MOST_OPTIONAL: usize = 112 + DIRECTORIES * DIRECTORY_BYTES;
const SECTION_BYTES: usize = 40;
/// The limit of the system's loader.
const MOST_SECTIONS: u16 = 96;
/// Where the others begin at most: more than any linker puts in front of them.
const FURTHEST: u32 = 1 << 20;
/// The file is a library (`IMAGE_FILE_DLL`).
const IS_LIBRARY: u16 = 0x2000;
/// Formats of the optional header.
const NARROW: u16 = 0x10b;
const WIDE: u16 = 0x20b;

impl ImageHeaders {
    /// Reads the headers of an image.
    ///
    /// # Errors
    /// If they are none, or damaged; if they cannot be read.
    pub fn read(image: &(impl ImageBytes + ?Sized)) -> Result<Self, ImageError> {
        let mut dos = [0; DOS_BYTES];
        read_or_other(image, 0, &mut dos)?;
        if !dos.starts_with(b"MZ") {
            return Err(ImageError::NotExecutable);
        }
        let start = u32_at(&dos, 60);
        if start > FURTHEST {
            // Programs of DOS have other bytes there.
            return Err(ImageError::NotExecutable);
        }
        let mut file = [0; FILE_BYTES];
        read_or_other(image, start.into(), &mut file)?;
        if !file.starts_with(b"PE\0\0") {
            return Err(ImageError::NotExecutable);
        }
        let (section_count, optional_size) = (u16_at(&file, 6), u16_at(&file, 20));
        if section_count > MOST_SECTIONS {
            return Err(ImageError::Damaged("sections"));
        }
        let optional_at = u64::from(start) + FILE_BYTES as u64;
        let mut optional = [0; MOST_OPTIONAL];
        let present = usize::from(optional_size).min(MOST_OPTIONAL);
        image.read_at(optional_at, optional.get_mut(..present).unwrap_or_default())?;
        let is_wide = match u16_at(&optional, 0) {
            WIDE => true,
            NARROW => false,
            _ => return Err(ImageError::Damaged("format")),
        };
        let directories_begin = if is_wide { 112 } else { 96 };
        let Some(room) = present.checked_sub(directories_begin) else {
            return Err(ImageError::Damaged("length of the optional header"));
        };
        let named = u32_at(&optional, directories_begin - 4) as usize;
        let directory_count = named.min(DIRECTORIES).min(room / DIRECTORY_BYTES);
        let mut directories = [DataDirectory::default(); DIRECTORIES];
        for (index, directory) in directories.iter_mut().enumerate().take(directory_count) {
            let at = directories_begin + index * DIRECTORY_BYTES;
            *directory = DataDirectory { rva: u32_at(&optional, at), size: u32_at(&optional, at + 4) };
        }
        Ok(Self {
            machine: u16_at(&file, 4),
            is_library: u16_at(&file, 22) & IS_LIBRARY != 0,
            is_wide,
            size: u32_at(&optional, 56),
            header_size: u32_at(&optional, 60),
            directories_at: optional_at + directories_begin as u64,
            directory_count,
            directories,
            sections: sections(image, optional_at + u64::from(optional_size), section_count)?,
        })
    }

    /// A directory.
    #[must_use]
    pub fn directory(&self, index: usize) -> DataDirectory {
        self.directories.get(index).copied().unwrap_or_default()
    }

    /// The section that an address is in.
    #[must_use]
    pub fn section(&self, rva: u32) -> Option<&ImageSection> {
        self.sections.iter().find(|section| section.memory.contains(rva))
    }

    /// Where so many bytes at an address are in the file.
    ///
    /// # Errors
    /// If they are not in the headers, nor in a section.
    pub fn file_offset(&self, rva: u32, length: u32) -> Result<u64, ImageError> {
        let outside = ImageError::Damaged("an address is outside of the file");
        if let Some(section) = self.section(rva) {
            let within = rva - section.memory.rva;
            let is_inside = within.checked_add(length).is_some_and(|end| end <= section.file_size);
            return if is_inside { Ok(u64::from(section.file_offset) + u64::from(within)) } else { Err(outside) };
        }
        let is_inside = rva.checked_add(length).is_some_and(|end| end <= self.header_size);
        if is_inside { Ok(rva.into()) } else { Err(outside) }
    }
}

fn sections(image: &(impl ImageBytes + ?Sized), begin: u64, count: u16) -> Result<Vec<ImageSection>, ImageError> {
    let mut bytes = vec![0; usize::from(count) * SECTION_BYTES];
    image.read_at(begin, &mut bytes)?;
    let section = |header: &[u8]| {
        let file_size = u32_at(header, 16);
        // A section without a size in memory has that of the file.
        let size = if u32_at(header, 8) == 0 { file_size } else { u32_at(header, 8) };
        let memory = DataDirectory { rva: u32_at(header, 12), size };
        ImageSection { memory, file_offset: u32_at(header, 20), file_size }
    };
    Ok(bytes.chunks_exact(SECTION_BYTES).map(section).collect())
}

/// Reads bytes without which the file is none of Windows.
fn read_or_other(image: &(impl ImageBytes + ?Sized), at: u64, bytes: &mut [u8]) -> Result<(), ImageError> {
    image.read_at(at, bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ImageError::NotExecutable,
        _ => ImageError::Unreadable(error),
    })
}

/// A number of two bytes; 0 beyond the end.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |number| u16::from_le_bytes(*number))
}

/// A number of four bytes; 0 beyond the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |number| u32::from_le_bytes(*number))
}

/// Images for tests.
#[cfg(test)]
pub(crate) mod made {
    use super::*;

    /// Where the headers begin behind the DOS header, and the directories.
    pub(crate) const START: usize = 0x80;
    pub(crate) const DIRECTORIES_AT: usize = START + FILE_BYTES + 112;
    const SECTIONS_AT: usize = START + FILE_BYTES + MOST_OPTIONAL;

    pub(crate) fn put(image: &mut [u8], at: usize, numbers: &[u32]) {
        for (place, number) in image[at..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// An image of 0x3000 bytes with a section from 0x1000 to 0x2000 whose bytes are in the file at
    /// 0x400. The offsets of memory and file are those of memory if `is_loaded`.
    pub(crate) fn image(directories: &[(usize, DataDirectory)]) -> Vec<u8> {
        let mut image = vec![0; 0x3000];
        image[..2].copy_from_slice(b"MZ");
        put(&mut image, 60, &[START as u32]);
        image[START..START + 4].copy_from_slice(b"PE\0\0");
        put(&mut image, START + 4, &[u32::from(OWN_MACHINE) | 1 << 16]);
        put(&mut image, START + 20, &[MOST_OPTIONAL as u32]);
        let optional = START + FILE_BYTES;
        put(&mut image, optional, &[u32::from(WIDE)]);
        put(&mut image, optional + 56, &[0x3000, 0x400]);
        put(&mut image, optional + 108, &[DIRECTORIES as u32]);
        for (index, directory) in directories {
            put(&mut image, DIRECTORIES_AT + index * DIRECTORY_BYTES, &[directory.rva, directory.size]);
        }
        put(&mut image, SECTIONS_AT + 8, &[0x1000, 0x1000, 0xc00, 0x400]);
        image
    }
}

#[cfg(test)]
mod tests {
    use super::made::{DIRECTORIES_AT, START, image, put};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_read() {
        let table = DataDirectory { rva: 0x1010, size: 40 };
        let headers = ImageHeaders::read(&image(&[(IMPORT, table)])[..]).unwrap();
        assert_eq!((headers.machine, headers.is_library, headers.is_wide), (OWN_MACHINE, false, true));
        assert_eq!((headers.size, headers.header_size, headers.directory_count), (0x3000, 0x400, 16));
        assert_eq!(headers.directories_at, DIRECTORIES_AT as u64);
        assert_eq!(headers.directory(IMPORT), table);
        assert!(headers.directory(EXPORT).is_empty() && headers.directory(99).is_empty());
        assert_eq!(headers.sections.len(), 1);
        assert_eq!(headers.section(0x1fff).unwrap().memory, DataDirectory { rva: 0x1000, size: 0x1000 });
        assert!(headers.section(0x2000).is_none());
    }

    #[test]
    fn addresses_are_found_in_the_file() {
        let headers = ImageHeaders::read(&image(&[])[..]).unwrap();
        assert_eq!(headers.file_offset(0x1010, 16).unwrap(), 0x410);
        assert_eq!(headers.file_offset(0x10, 16).unwrap(), 0x10);
        for (rva, length) in [(0x1bff, 2), (0x3f0, 17), (0x2000, 1), (u32::MAX, 1), (0x1010, u32::MAX)] {
            assert!(headers.file_offset(rva, length).is_err(), "{rva:#x} {length:#x}");
        }
    }

    #[test]
    fn other_files_are_told_from_damaged_ones() {
        for text in [&b""[..], b"echo hello", &[b'x'; 100], &[0x7f, b'E', b'L', b'F'], b"MZ", &[b'M'; 64]] {
            assert!(matches!(ImageHeaders::read(text), Err(ImageError::NotExecutable)));
        }
        let changed = |at: usize, number: u32| {
            let mut image = image(&[]);
            put(&mut image, at, &[number]);
            ImageHeaders::read(&image[..]).map(|_| ())
        };
        assert!(matches!(changed(60, u32::MAX), Err(ImageError::NotExecutable)));
        assert!(matches!(changed(60, 0x8_0000), Err(ImageError::NotExecutable)));
        assert!(matches!(changed(START, 0), Err(ImageError::NotExecutable)));
        assert!(matches!(changed(START + 4, 97 << 16), Err(ImageError::Damaged(_))));
        assert!(matches!(changed(START + 20, 100), Err(ImageError::Damaged(_))));
        assert!(matches!(changed(START + 20, 0xffff), Err(ImageError::Unreadable(_))));
        assert!(matches!(changed(START + 24, 0), Err(ImageError::Damaged(_))));
    }

    #[test]
    fn directories_that_are_not_there_are_empty() {
        let mut image = image(&[(IMPORT, DataDirectory { rva: 1, size: 1 })]);
        put(&mut image, DIRECTORIES_AT - 4, &[1]);
        let headers = ImageHeaders::read(&image[..]).unwrap();
        assert_eq!((headers.directory_count, headers.directory(IMPORT)), (1, DataDirectory::default()));
        put(&mut image, DIRECTORIES_AT - 4, &[u32::MAX]);
        assert_eq!(ImageHeaders::read(&image[..]).unwrap().directory_count, 16);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            changes in prop::collection::vec((0..0x200_usize, any::<u8>()), 0..20),
            cut in 0..0x400_usize,
            rva: u32,
            length: u32,
        ) {
            let mut image = image(&[]);
            for (at, byte) in changes {
                image[at] = byte;
            }
            for image in [&image[..], &image[..cut]] {
                if let Ok(headers) = ImageHeaders::read(image) {
                    let _ = headers.file_offset(rva, length);
                }
            }
        }
    }
}
