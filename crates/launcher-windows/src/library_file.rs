//! A library as its file describes it: whether a program of this processor can load it, and what a
//! program can import from it.

use crate::pe_image::{EXPORT, FileBytes, ImageBytes, ImageError, ImageHeaders, OWN_MACHINE, u32_at};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", .path.display())]
pub struct LibraryError {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: LibraryFault,
}

/// What is wrong with a library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryFault {
    /// The file cannot be opened.
    #[error("cannot be opened: {0}")]
    Unreadable(io::Error),
    /// Its headers are not those of a library.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// It is a program.
    #[error("it is a program, not a library")]
    Program,
    /// It is for another processor.
    #[error("it is for another processor architecture")]
    OtherArchitecture,
}

/// A library that a program of this processor can load.
#[derive(Debug)]
pub struct LibraryFile {
    path: PathBuf,
    ordinal: Option<u16>,
}

/// The most exported functions that are looked at: the first one suffices as a rule.
const MOST_EXPORTS: u32 = 1024;

/// The longest path in an import table (`MAX_PATH`).
const MOST_PATH: usize = 259;

impl LibraryFile {
    /// Looks into a library's file.
    ///
    /// # Errors
    /// If there is none, or it is no library for this processor.
    pub fn open(path: &Path) -> Result<Self, LibraryError> {
        let fault = |fault| LibraryError { path: path.to_path_buf(), fault };
        // A program may have another current folder by the time it loads the library.
        let absolute = std::path::absolute(path).map_err(|error| fault(LibraryFault::Unreadable(error)))?;
        let file = File::open(&absolute).map_err(|error| fault(LibraryFault::Unreadable(error)))?;
        let ordinal = first_ordinal(&FileBytes(file)).map_err(fault)?;
        Ok(Self { path: plain(absolute), ordinal })
    }

    /// Its absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The ordinal of a function that a program can import.
    #[must_use]
    pub const fn ordinal(&self) -> Option<u16> {
        self.ordinal
    }

    /// Its path as an import table can have it. The loader reads that in the system's code page, so
    /// other characters than those of ASCII may be read as others.
    #[must_use]
    pub fn import_name(&self) -> Option<&[u8]> {
        let name = self.path.to_str()?;
        (name.is_ascii() && name.len() <= MOST_PATH).then_some(name.as_bytes())
    }
}

/// The path without the prefix of verbatim paths, which an import table cannot have, if it means
/// the same without.
fn plain(path: PathBuf) -> PathBuf {
    let rest = path.to_str().and_then(|path| path.strip_prefix(r"\\?\"));
    let is_on_drive = |rest: &&str| rest.as_bytes().get(1..3) == Some(&br":\"[..]) && rest.len() <= MOST_PATH;
    rest.filter(is_on_drive).map(PathBuf::from).unwrap_or(path)
}

/// Reads data that a library exports by this name. Returns whether it does.
///
/// # Errors
/// If there is no such file, or it is no library for this processor.
pub fn read_exported(path: &Path, name: &str, bytes: &mut [u8]) -> Result<bool, LibraryError> {
    let fault = |fault| LibraryError { path: path.to_path_buf(), fault };
    let file = File::open(path).map_err(|error| fault(LibraryFault::Unreadable(error)))?;
    exported(&FileBytes(file), name, bytes).map_err(fault)
}

/// As [`read_exported`].
///
/// # Errors
/// If the image is no library of this processor.
pub fn exported(image: &impl ImageBytes, name: &str, bytes: &mut [u8]) -> Result<bool, LibraryFault> {
    let headers = library_headers(image)?;
    let exports = headers.directory(EXPORT);
    if exports.is_empty() {
        return Ok(false);
    }
    let read = |rva: u32, bytes: &mut [u8]| -> Result<(), ImageError> {
        image.read_at(headers.file_offset(rva, bytes.len() as u32)?, bytes)?;
        Ok(())
    };
    let mut table = [0; 40];
    read(exports.rva, &mut table)?;
    let [count, addresses, names, ordinals] = [24, 28, 32, 36].map(|at| u32_at(&table, at));
    let entry = |table: u32, number: u32, size: u32| table.wrapping_add(number.wrapping_mul(size));
    let mut found = vec![0; name.len() + 1];
    for number in 0..count.min(MOST_EXPORTS) {
        let mut word = [0; 4];
        read(entry(names, number, 4), &mut word)?;
        // A name at the end of the image may be shorter than what is read.
        if read(u32_at(&word, 0), &mut found).is_err() || found.split_last() != Some((&0, name.as_bytes())) {
            continue;
        }
        let mut ordinal = [0; 2];
        read(entry(ordinals, number, 2), &mut ordinal)?;
        read(entry(addresses, u16::from_le_bytes(ordinal).into(), 4), &mut word)?;
        read(u32_at(&word, 0), bytes)?;
        return Ok(true);
    }
    Ok(false)
}

/// The ordinal of a function that a library has itself.
///
/// # Errors
/// If the image is no library of this processor.
pub fn first_ordinal(image: &impl ImageBytes) -> Result<Option<u16>, LibraryFault> {
    Ok(first_exported(image, &library_headers(image)?)?)
}

/// The headers of a library of this processor.
fn library_headers(image: &impl ImageBytes) -> Result<ImageHeaders, LibraryFault> {
    let headers = ImageHeaders::read(image)?;
    if headers.machine != OWN_MACHINE || !headers.is_wide {
        return Err(LibraryFault::OtherArchitecture);
    }
    if !headers.is_library {
        return Err(LibraryFault::Program);
    }
    Ok(headers)
}

fn first_exported(image: &impl ImageBytes, headers: &ImageHeaders) -> Result<Option<u16>, ImageError> {
    let exports = headers.directory(EXPORT);
    if exports.is_empty() {
        return Ok(None);
    }
    let mut table = [0; 40];
    image.read_at(headers.file_offset(exports.rva, table.len() as u32)?, &mut table)?;
    let (base, count, addresses) = (u32_at(&table, 16), u32_at(&table, 20), u32_at(&table, 28));
    let count = count.min(MOST_EXPORTS);
    let mut functions = vec![0; count as usize * 4];
    image.read_at(headers.file_offset(addresses, count * 4)?, &mut functions)?;
    for (ordinal, function) in (u64::from(base)..).zip(functions.chunks_exact(4)) {
        let address = u32_at(function, 0);
        // An address in the table itself is a text: the function is another library's.
        if address != 0 && !exports.contains(address) {
            return Ok(u16::try_from(ordinal).ok());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe_image::DataDirectory;
    use crate::pe_image::made::{self, START, put};
    use proptest::prelude::*;

    /// A library with four exported functions from ordinal 7: none, another library's, two own.
    fn library() -> Vec<u8> {
        let mut image = made::image(&[(EXPORT, DataDirectory { rva: 0x1100, size: 0x80 })]);
        image[START + 23] = 0x20;
        put(&mut image, 0x500 + 16, &[7, 4, 0, 0x1140]);
        put(&mut image, 0x540, &[0, 0x1160, 0x1200, 0x1210]);
        image
    }

    #[test]
    fn the_first_function_that_is_its_own_is_found() {
        assert_eq!(first_ordinal(&Bytes(library())).unwrap(), Some(9));
        let mut none = library();
        put(&mut none, 0x500 + 20, &[2]);
        assert_eq!(first_ordinal(&Bytes(none)).unwrap(), None);
        let mut too_large = library();
        put(&mut too_large, 0x500 + 16, &[0xffff]);
        assert_eq!(first_ordinal(&Bytes(too_large)).unwrap(), None);
        let mut nothing = made::image(&[]);
        nothing[START + 23] = 0x20;
        assert_eq!(first_ordinal(&Bytes(nothing)).unwrap(), None);
    }

    #[test]
    fn exported_data_is_found_by_its_name() {
        let mut image = library();
        // Two names: their addresses, the ordinals of what they name, and the texts.
        put(&mut image, 0x500 + 24, &[2, 0x1140, 0x1180, 0x1190]);
        put(&mut image, 0x580, &[0x11a0, 0x11a8]);
        put(&mut image, 0x590, &[2 | 3 << 16]);
        image[0x5a0..0x5a0 + 14].copy_from_slice(b"version\0mark\0\0");
        image[0x610..0x614].copy_from_slice(b"tick");
        let mut bytes = [0; 4];
        assert!(exported(&Bytes(image.clone()), "mark", &mut bytes).unwrap());
        assert_eq!(&bytes, b"tick");
        for other in ["mar", "marks", ""] {
            assert!(!exported(&Bytes(image.clone()), other, &mut bytes).unwrap(), "{other:?}");
        }
        assert!(exported(&Bytes(image), "mark", &mut [0; 0x2000]).is_err(), "more than the file has");
        assert!(!exported(&Bytes(library()), "mark", &mut bytes).unwrap());
    }

    #[test]
    fn what_is_no_library_of_this_processor_is_refused() {
        let program = Bytes(made::image(&[]));
        assert!(matches!(first_ordinal(&program), Err(LibraryFault::Program)));
        let mut other = library();
        put(&mut other, START + 4, &[0x1_014c]);
        assert!(matches!(first_ordinal(&Bytes(other)), Err(LibraryFault::OtherArchitecture)));
        let mut damaged = library();
        put(&mut damaged, 0x500 + 28, &[u32::MAX]);
        assert!(matches!(first_ordinal(&Bytes(damaged)), Err(LibraryFault::Image(_))));
    }

    #[test]
    fn files_are_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.dll");
        assert!(matches!(LibraryFile::open(&path).unwrap_err().fault, LibraryFault::Unreadable(_)));
        std::fs::write(&path, "text").unwrap();
        assert!(matches!(LibraryFile::open(&path).unwrap_err().fault, LibraryFault::Image(ImageError::NotExecutable)));
        std::fs::write(&path, library()).unwrap();
        let opened = LibraryFile::open(&path).unwrap();
        assert_eq!(opened.ordinal(), Some(9));
        assert_eq!(opened.import_name(), path.to_str().map(str::as_bytes));
        let other = folder.path().join("bücherei.dll");
        std::fs::copy(&path, &other).unwrap();
        assert_eq!(LibraryFile::open(&other).unwrap().import_name(), None);
    }

    #[test]
    fn the_verbatim_prefix_is_left_out_where_it_can_be() {
        assert_eq!(plain(r"\\?\C:\a\b.dll".into()), Path::new(r"C:\a\b.dll"));
        for path in [r"\\?\UNC\host\b.dll", r"\\?\Volume{1}\b.dll", r"C:\b.dll", r"\\host\b.dll"] {
            assert_eq!(plain(path.into()), Path::new(path));
        }
    }

    struct Bytes(Vec<u8>);

    impl ImageBytes for Bytes {
        fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
            self.0[..].read_at(offset, bytes)
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            changes in prop::collection::vec((0..0x600_usize, any::<u8>()), 0..20),
            cut in 0..0x800_usize,
        ) {
            let mut image = library();
            for (at, byte) in changes {
                image[at] = byte;
            }
            let read_all = |image: Vec<u8>| {
                let image = Bytes(image);
                let _ = first_ordinal(&image);
                let _ = exported(&image, "mark", &mut [0; 8]);
            };
            read_all(image.clone());
            image.truncate(cut);
            read_all(image);
        }
    }
}
