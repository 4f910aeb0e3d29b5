//! The new import table of a program that has not run yet, with a library in front of all others.
//!
//! A program's import directory is a row of descriptors, one for each library, and an empty one at
//! the end. A descriptor names the library and two tables of functions: the one that says which,
//! and the one that the loader fills with addresses. All of these are at addresses relative to the
//! image's start, so the new ones have to be behind it, at most 4 GiB away.
//!
//! ```text
//! our descriptor | the program's descriptors | empty | which function | its address | name
//! ```

use crate::error::ImportError;
use crate::pe_image::{
    ADDRESS_TABLES, BOUND_IMPORT, DIRECTORY_BYTES, DataDirectory, IMPORT, ImageBytes, ImageError, ImageHeaders,
    MANAGED, OWN_MACHINE, u32_at,
};

/// Bytes of a descriptor.
const DESCRIPTOR: usize = 20;
/// Far more than any program has.
const MOST_DESCRIPTORS: usize = 4096;
/// Descriptors that are read at once.
const AT_ONCE: usize = 16;
/// A table of one function: a word of 64 bits, and an empty one.
const FUNCTIONS: usize = 16;
/// The function is given by its ordinal.
const BY_ORDINAL: u64 = 1 << 63;

/// How far behind the start of an image the new table may end. Half of what the format allows, in
/// case something takes the address as a signed number.
pub const REACH: u64 = 0x7fff_0000;

/// What a program imports.
#[derive(Debug)]
pub struct ProgramImports {
    headers: ImageHeaders,
    /// The descriptors without the empty one.
    descriptors: Vec<u8>,
}

/// A program's new import table.
#[derive(Debug)]
pub struct NewImports {
    /// The table.
    pub table: Vec<u8>,
    /// Where in the table the loader enters the address of the library's function.
    pub slot: usize,
    /// What is there until then.
    pub unresolved: u64,
    /// Where in the image the headers are to be changed.
    pub directories_at: u64,
    /// What is to be written there.
    pub directories: Vec<u8>,
}

impl ProgramImports {
    /// Reads them from the image of a process that has not run yet.
    ///
    /// # Errors
    /// If the image is not one of this processor, one of .NET, or damaged.
    pub fn read(image: &impl ImageBytes) -> Result<Self, ImportError> {
        let headers = ImageHeaders::read(image)?;
        if !headers.directory(MANAGED).is_empty() {
            return Err(ImportError::Managed);
        }
        if headers.machine != OWN_MACHINE || !headers.is_wide {
            return Err(ImageError::Damaged("processor").into());
        }
        if headers.directory_count <= ADDRESS_TABLES {
            return Err(ImageError::Damaged("number of directories").into());
        }
        let descriptors = descriptors(image, headers.directory(IMPORT).rva)?;
        Ok(Self { headers, descriptors })
    }

    /// Bytes of the image, which the new table has to be behind.
    #[must_use]
    pub const fn image_size(&self) -> u32 {
        self.headers.size
    }

    /// Bytes of the new table for a library's name of this length.
    #[must_use]
    pub fn table_size(&self, name_length: usize) -> usize {
        self.name_at() + name_length + 1
    }

    /// Where the table of functions begins: behind two more descriptors, aligned.
    fn functions_at(&self) -> usize {
        (self.descriptors.len() + 2 * DESCRIPTOR).next_multiple_of(8)
    }

    /// And the library's name.
    fn name_at(&self) -> usize {
        self.functions_at() + 2 * FUNCTIONS
    }

    /// The new table, for its place relative to the image's start.
    ///
    /// # Errors
    /// If that is too far; if the image does not say which addresses the loader may write.
    pub fn with_library(&self, place: u32, name: &[u8], ordinal: u16) -> Result<NewImports, ImportError> {
        let size = u32::try_from(self.table_size(name.len())).ok();
        if size.and_then(|size| place.checked_add(size)).is_none() {
            return Err(ImportError::NoRoom);
        }
        // Within the size, so this cannot overflow.
        let at = |offset: usize| place + offset as u32;
        let (functions, slot) = (self.functions_at(), self.functions_at() + FUNCTIONS);
        let unresolved = BY_ORDINAL | u64::from(ordinal);

        let mut table = Vec::with_capacity(self.table_size(name.len()));
        for number in [at(functions), 0, 0, at(self.name_at()), at(slot)] {
            table.extend(number.to_le_bytes());
        }
        table.extend(&self.descriptors);
        table.resize(functions, 0);
        // Both tables say which function it is: some loaders read the first one only inside of the
        // image.
        for number in [unresolved, 0, unresolved, 0] {
            table.extend(number.to_le_bytes());
        }
        table.extend(name);
        table.push(0);

        let mut directories = self.headers.directories;
        let descriptor_bytes = (self.descriptors.len() + 2 * DESCRIPTOR) as u32;
        let changed = [
            (IMPORT, DataDirectory { rva: place, size: descriptor_bytes }),
            // These belong to the old table.
            (BOUND_IMPORT, DataDirectory::default()),
            (ADDRESS_TABLES, self.address_tables(DataDirectory { rva: at(slot), size: FUNCTIONS as u32 })?),
        ];
        for (index, directory) in changed {
            if let Some(entry) = directories.get_mut(index) {
                *entry = directory;
            }
        }
        let written = directories.iter().take(ADDRESS_TABLES + 1).skip(IMPORT);
        Ok(NewImports {
            table,
            slot,
            unresolved,
            directories_at: self.headers.directories_at + (IMPORT * DIRECTORY_BYTES) as u64,
            directories: written.flat_map(|entry| [entry.rva, entry.size]).flat_map(u32::to_le_bytes).collect(),
        })
    }

    /// Which addresses the loader makes writable while it enters functions. If the image does not
    /// say so, the loader takes the section that the import directory is in. The new one is in no
    /// section, so the old one's is said here.
    fn address_tables(&self, ours: DataDirectory) -> Result<DataDirectory, ImportError> {
        let said = self.headers.directory(ADDRESS_TABLES);
        if !said.is_empty() {
            return Ok(said);
        }
        if self.descriptors.is_empty() {
            return Ok(ours);
        }
        let section = self.headers.section(self.headers.directory(IMPORT).rva);
        Ok(section.ok_or(ImageError::Damaged("imports"))?.memory)
    }
}

/// The descriptors of a directory, as far as the loader reads: until one without a name, or without
/// functions. The size in the header is not looked at, nor does the loader.
fn descriptors(image: &impl ImageBytes, rva: u32) -> Result<Vec<u8>, ImportError> {
    let mut found = Vec::new();
    if rva == 0 {
        return Ok(found);
    }
    let mut at = u64::from(rva);
    while found.len() < MOST_DESCRIPTORS * DESCRIPTOR {
        let mut several = [0; AT_ONCE * DESCRIPTOR];
        // The directory may end close to the end of what can be read.
        let one_by_one = image.read_at(at, &mut several).is_err();
        let length = if one_by_one { DESCRIPTOR } else { several.len() };
        let several = several.get_mut(..length).unwrap_or_default();
        if one_by_one {
            image.read_at(at, several).map_err(ImageError::Unreadable)?;
        }
        for descriptor in several.chunks_exact(DESCRIPTOR) {
            if u32_at(descriptor, 12) == 0 || u32_at(descriptor, 16) == 0 {
                return Ok(found);
            }
            found.extend(descriptor);
        }
        at += length as u64;
    }
    Err(ImageError::Damaged("number of imports").into())
}

/// The first address for so many bytes in a free region of memory, within these bounds. Windows
/// allocates at multiples of 64 KiB.
#[must_use]
pub fn place_in(region: std::ops::Range<u64>, bounds: std::ops::Range<u64>, size: u64) -> Option<u64> {
    const GRANULE: u64 = 0x1_0000;
    let start = region.start.max(bounds.start).checked_next_multiple_of(GRANULE)?;
    let end = start.checked_add(size)?;
    (end <= region.end.min(bounds.end)).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe_image::made::{self, DIRECTORIES_AT, START, put};
    use proptest::prelude::*;

    struct Bytes(Vec<u8>);

    impl ImageBytes for Bytes {
        fn read_at(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
            self.0[..].read_at(offset, bytes)
        }
    }

    const NAME: &[u8] = b"c:\\library.dll";

    /// The image of a program that imports two libraries.
    fn program(directories: &[(usize, DataDirectory)]) -> Vec<u8> {
        let imports = (IMPORT, DataDirectory { rva: 0x1100, size: 1 });
        let bound = (BOUND_IMPORT, DataDirectory { rva: 0x300, size: 24 });
        let mut image = made::image(&[&[imports, bound], directories].concat());
        put(&mut image, 0x1100, &[0x1200, 0, 0, 0x1300, 0x1400, 0x1210, 0, 0, 0x1310, 0x1410]);
        image
    }

    /// What a loader finds: the libraries' names, with the addresses of their tables of addresses.
    fn loaded(image: &Bytes) -> Vec<(String, u32)> {
        let headers = ImageHeaders::read(image).unwrap();
        let rows = descriptors(image, headers.directory(IMPORT).rva).unwrap();
        let row = |row: &[u8]| {
            let text = &image.0[u32_at(row, 12) as usize..];
            let end = text.iter().position(|byte| *byte == 0).unwrap();
            (String::from_utf8(text[..end].to_vec()).unwrap(), u32_at(row, 16))
        };
        rows.chunks_exact(DESCRIPTOR).map(row).collect()
    }

    /// Writes the new table behind the image.
    fn changed(mut image: Vec<u8>) -> (Bytes, NewImports) {
        let place = image.len();
        let imports = ProgramImports::read(&Bytes(image.clone())).unwrap();
        let new = imports.with_library(place as u32, NAME, 9).unwrap();
        assert_eq!(new.table.len(), imports.table_size(NAME.len()));
        image.extend(&new.table);
        let at = new.directories_at as usize;
        image[at..at + new.directories.len()].copy_from_slice(&new.directories);
        (Bytes(image), new)
    }

    #[test]
    fn the_library_is_in_front_of_the_others() {
        let tables = DataDirectory { rva: 0x1400, size: 0x20 };
        let mut image = program(&[(ADDRESS_TABLES, tables), (5, DataDirectory { rva: 5, size: 6 })]);
        image[0x1300..0x1306].copy_from_slice(b"a.dll\0");
        image[0x1310..0x1316].copy_from_slice(b"b.dll\0");
        let (image, new) = changed(image);
        let slot = 0x3000 + new.slot as u32;
        let names = [("c:\\library.dll", slot), ("a.dll", 0x1400), ("b.dll", 0x1410)];
        assert_eq!(loaded(&image), names.map(|(name, at)| (name.to_owned(), at)));
        let headers = ImageHeaders::read(&image).unwrap();
        assert_eq!(headers.directory(IMPORT), DataDirectory { rva: 0x3000, size: 80 });
        assert_eq!(headers.directory(ADDRESS_TABLES), tables);
        assert_eq!(headers.directory(BOUND_IMPORT), DataDirectory::default());
        assert_eq!(headers.directory(5), DataDirectory { rva: 5, size: 6 });
        // The function, both where it is named and where its address will be.
        let functions = &image.0[u32_at(&image.0, 0x3000) as usize..];
        assert_eq!(u64::from_le_bytes(*functions.first_chunk().unwrap()), new.unresolved);
        assert_eq!(new.unresolved, 1 << 63 | 9);
        assert_eq!(functions[8..16], [0; 8]);
        assert_eq!(functions[..16], image.0[slot as usize..][..16]);
        assert_eq!(new.slot % 8, 0);
    }

    #[test]
    fn a_program_that_imports_nothing_imports_the_library() {
        let (image, new) = changed(made::image(&[]));
        assert_eq!(loaded(&image), [("c:\\library.dll".to_owned(), 0x3000 + new.slot as u32)]);
        let headers = ImageHeaders::read(&image).unwrap();
        assert_eq!(headers.directory(ADDRESS_TABLES), DataDirectory { rva: 0x3000 + new.slot as u32, size: 16 });
    }

    #[test]
    fn where_addresses_are_entered_is_said_if_it_was_not() {
        let (image, _) = changed(program(&[]));
        let headers = ImageHeaders::read(&image).unwrap();
        assert_eq!(headers.directory(ADDRESS_TABLES), DataDirectory { rva: 0x1000, size: 0x1000 });
        let mut outside = program(&[(IMPORT, DataDirectory { rva: 0x2100, size: 20 })]);
        put(&mut outside, 0x2100, &[0x1200, 0, 0, 0x1300, 0x1400]);
        let imports = ProgramImports::read(&Bytes(outside)).unwrap();
        assert!(matches!(imports.with_library(0x3000, NAME, 9), Err(ImportError::Image(ImageError::Damaged(_)))));
    }

    #[test]
    fn unusual_images_are_left_alone() {
        let read = |image: Vec<u8>| ProgramImports::read(&Bytes(image)).map(|_| ());
        let managed = program(&[(MANAGED, DataDirectory { rva: 0x1000, size: 72 })]);
        assert!(matches!(read(managed), Err(ImportError::Managed)));
        let mut other = program(&[]);
        put(&mut other, START + 4, &[0x1_014c]);
        assert!(matches!(read(other), Err(ImportError::Image(ImageError::Damaged("processor")))));
        let mut few = program(&[]);
        put(&mut few, DIRECTORIES_AT - 4, &[12]);
        assert!(matches!(read(few), Err(ImportError::Image(ImageError::Damaged(_)))));
        let outside = program(&[(IMPORT, DataDirectory { rva: 0x2ff0, size: 20 })]);
        assert!(matches!(read(outside), Err(ImportError::Image(ImageError::Unreadable(_)))));
        let at_end = program(&[(IMPORT, DataDirectory { rva: 0x2fec, size: 20 })]);
        assert!(read(at_end).is_ok());
        let mut endless = program(&[(IMPORT, DataDirectory { rva: 0x3000, size: 20 })]);
        endless.resize(0x20_0000, 1);
        assert!(matches!(read(endless), Err(ImportError::Image(ImageError::Damaged(_)))));
    }

    #[test]
    fn a_place_that_is_too_far_is_refused() {
        let imports = ProgramImports::read(&Bytes(program(&[]))).unwrap();
        assert!(matches!(imports.with_library(u32::MAX - 20, NAME, 1), Err(ImportError::NoRoom)));
    }

    #[test]
    fn a_place_is_a_multiple_of_64_kib_within_the_bounds() {
        assert_eq!(place_in(0x1000..0x9_0000, 0x1_2345..u64::MAX, 0x100), Some(0x2_0000));
        assert_eq!(place_in(0x3_0000..0x9_0000, 0..u64::MAX, 0x6_0000), Some(0x3_0000));
        assert_eq!(place_in(0x3_0000..0x9_0000, 0..u64::MAX, 0x6_0001), None);
        assert_eq!(place_in(0x3_0000..0x9_0000, 0..0x3_0010, 0x11), None);
        assert_eq!(place_in(u64::MAX - 5..u64::MAX, 0..u64::MAX, 1), None);
        assert_eq!(place_in(0..u64::MAX, 0x1_0000..u64::MAX, u64::MAX), None);
    }

    proptest! {
        #[test]
        fn any_image_is_read_without_panic(
            headers in prop::collection::vec((0..0x200_usize, any::<u8>()), 0..12),
            imports in prop::collection::vec((0x1100..0x1140_usize, any::<u8>()), 0..12),
            place: u32,
        ) {
            let mut image = program(&[]);
            for (at, byte) in headers.into_iter().chain(imports) {
                image[at] = byte;
            }
            if let Ok(imports) = ProgramImports::read(&Bytes(image))
                && let Ok(new) = imports.with_library(place, NAME, 1)
            {
                prop_assert_eq!(new.table.len(), imports.table_size(NAME.len()));
                prop_assert!(new.slot + 16 <= new.table.len());
                prop_assert_eq!(new.directories.len(), 12 * DIRECTORY_BYTES);
            }
        }
    }
}
