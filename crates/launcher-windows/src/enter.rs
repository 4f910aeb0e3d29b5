//! Entering a library into a process.

use crate::error::{EnterError, EnteredBy, ImportError, ThreadError};
use crate::import_table::{ProgramImports, REACH};
use crate::library_file::LibraryFile;
use crate::pe_image::{ImageBytes, ImageHeaders, OWN_MACHINE};
use crate::sys::{self, RemoteProcess};
use std::io;
use std::os::windows::io::BorrowedHandle;
use std::path::Path;
use std::time::Duration;

/// For how long the thread in a process may load the library, and all that the program imports.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Enters a library into a process that was made suspended and has not run yet. The process remains
/// suspended. The handle has to be one that `CreateProcessW` gave, or to permit as much: reading
/// and writing memory, making threads, asking.
///
/// Both ways of [`EnteredBy`] are tried. A process that has run already can be entered by a thread
/// only.
///
/// # Errors
/// If both ways fail; the process can be resumed all the same, without the library. (It may have
/// ended if loading what the program imports ends it.)
pub fn enter(process: BorrowedHandle<'_>, library: &Path) -> Result<EnteredBy, EnterError> {
    let entered = enter_by(process, &LibraryFile::open(library)?, None)?;
    Ok(entered.by())
}

/// How a library was entered, and where that shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entered {
    ByImportTable(ImportSlot),
    ByThread,
}

impl Entered {
    pub(crate) const fn by(self) -> EnteredBy {
        match self {
            Self::ByImportTable(_) => EnteredBy::ImportTable,
            Self::ByThread => EnteredBy::RemoteThread,
        }
    }
}

/// The place in a process where the loader enters the address of a function when it has loaded the
/// library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportSlot {
    at: u64,
    unresolved: u64,
}

impl ImportSlot {
    /// Whether the loader has loaded the library.
    pub(crate) fn is_resolved(self, process: BorrowedHandle<'_>) -> io::Result<bool> {
        Ok(RemoteProcess::new(process).read_word(self.at)? != self.unresolved)
    }
}

/// Enters a library, if `only` is given by this way and no other.
pub(crate) fn enter_by(
    process: BorrowedHandle<'_>,
    library: &LibraryFile,
    only: Option<EnteredBy>,
) -> Result<Entered, EnterError> {
    let process = RemoteProcess::new(process);
    check_architecture(process)?;
    let import_table = match only {
        Some(EnteredBy::RemoteThread) => ImportError::NotTried,
        _ => match prepend_import(process, library) {
            Ok(slot) => return Ok(Entered::ByImportTable(slot)),
            Err(error) => error,
        },
    };
    let thread = match only {
        Some(EnteredBy::ImportTable) => ThreadError::NotTried,
        _ => match sys::load_library(process, library.path(), LOAD_TIMEOUT) {
            Ok(()) => return Ok(Entered::ByThread),
            Err(error) => error,
        },
    };
    Err(EnterError::Failed { import_table, thread })
}

/// A library can be loaded only into a process of its own architecture.
fn check_architecture(process: RemoteProcess<'_>) -> Result<(), EnterError> {
    if process.is_emulated().map_err(EnterError::Unknown)? {
        return Err(EnterError::OtherArchitecture("32 bits"));
    }
    // On ARM64, Windows does not count programs for x64 as emulated. Headers that cannot be read
    // are the import table's problem.
    let base = process.image().map_err(EnterError::Unknown)?.base;
    match ImageHeaders::read(&RemoteImage { process, base }) {
        Ok(headers) if headers.is_wide && headers.machine != OWN_MACHINE => {
            Err(EnterError::OtherArchitecture("another instruction set"))
        }
        _ => Ok(()),
    }
}

/// Has the program import the library.
fn prepend_import(process: RemoteProcess<'_>, library: &LibraryFile) -> Result<ImportSlot, ImportError> {
    let refused = |what| move |source| ImportError::Refused { what, source };
    let name = library.import_name().ok_or(ImportError::LibraryPath)?;
    let ordinal = library.ordinal().ok_or(ImportError::NoExport)?;
    let image = process.image().map_err(refused("find its image"))?;
    if image.has_run {
        return Err(ImportError::HasRun);
    }
    let imports = ProgramImports::read(&RemoteImage { process, base: image.base })?;
    let end = image.base.saturating_add(imports.image_size().into());
    let bounds = end..image.base.saturating_add(REACH);
    let memory = process.allocate_within(bounds, imports.table_size(name.len()));
    let memory = memory.map_err(refused("allocate memory"))?.ok_or(ImportError::NoRoom)?;
    let place = memory.at().checked_sub(image.base).and_then(|place| u32::try_from(place).ok());
    let new = imports.with_library(place.ok_or(ImportError::NoRoom)?, name, ordinal)?;
    process.write(memory.at(), &new.table).map_err(refused("write to its memory"))?;
    let slot = ImportSlot { at: memory.at() + new.slot as u64, unresolved: new.unresolved };
    // Should only a part be written, the table has to be there.
    memory.leave();
    let headers = image.base.saturating_add(new.directories_at);
    process.write_protected(headers, &new.directories).map_err(refused("write to its headers"))?;
    Ok(slot)
}

/// An image in a process.
struct RemoteImage<'p> {
    process: RemoteProcess<'p>,
    base: u64,
}

impl ImageBytes for RemoteImage<'_> {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let at = self.base.checked_add(offset).ok_or(io::ErrorKind::InvalidInput)?;
        self.process.read(at, bytes)
    }
}
