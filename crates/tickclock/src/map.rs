//! The page's file, mapped into memory.

use crate::boot::boot;
use crate::counter::Moved;
use crate::os;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use thiserror::Error;
use tickwire_clockpage::{Count, CounterKind, Page, PageFault, Parameters, SIZE, WORDS};

/// A mapped page.
#[derive(Debug)]
pub(crate) struct Mapping(NonNull<AtomicU64>);

// SAFETY: the memory holds atomic words, which any thread may access; only the owner unmaps it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Why a file cannot be mapped.
#[derive(Debug)]
pub(crate) enum MapFault {
    System(io::Error),
    /// Not a regular file.
    Kind,
    Page(PageFault),
}

impl From<io::Error> for MapFault {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Mapping {
    /// Maps the page in a file. A reader cannot change it.
    pub(crate) fn reader(path: &Path) -> Result<(Self, CounterKind), MapFault> {
        let file = os::open_to_read(path)?;
        let page = Self::map(&file, false).and_then(|mapping| {
            let (_, counter) = Page::open(mapping.words(), boot()).map_err(MapFault::Page)?;
            Ok((mapping, counter))
        });
        match page {
            // A daemon is just making the page, or none has run since boot.
            Err(MapFault::Page(PageFault::Size(0) | PageFault::Blank | PageFault::Boot)) => {
                Err(MapFault::System(io::ErrorKind::NotFound.into()))
            }
            page => page,
        }
    }

    fn map(file: &File, writable: bool) -> Result<Self, MapFault> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(MapFault::Kind);
        }
        if metadata.len() != SIZE as u64 {
            return Err(MapFault::Page(PageFault::Size(metadata.len())));
        }
        // The file is as long as the mapping, and its owner, the daemon, never truncates it.
        Ok(Self(os::map(file, SIZE, writable)?.cast()))
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping is WORDS words long, aligned to a page, lives as long as `self`, and
        // is accessed by atomic operations only. A reader's mapping is never stored to:
        // `Page::open` only loads, and only `Writer` publishes.
        unsafe { self.0.cast().as_ref() }
    }

    #[inline]
    pub(crate) fn page(&self) -> Page<'_> {
        Page::assume(self.words())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing borrows from it any more.
        unsafe { os::unmap(self.0.cast(), SIZE) };
    }
}

/// Creates the directory of the default page if it is missing, accessible to all users whatever the
/// umask, because the page is for all of them. Any other missing directory is taken for a typing
/// error.
fn make_directory(directory: &Path) -> Result<(), CreateError> {
    if directory.is_dir() {
        return Ok(());
    }
    if os::service_page().parent() != Some(directory) {
        return Err(CreateError::Directory(directory.into()));
    }
    match os::make_directory(directory) {
        // Another daemon has created it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        made => made.map_err(|error| CreateError::System("make the directory", directory.into(), error)),
    }
}

/// Why the page cannot be made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// Another daemon writes it.
    #[error("another clock daemon writes {0}; stop it, or choose another page with --page")]
    Busy(PathBuf),
    /// The system refused.
    #[error("cannot {0} {1}: {2}")]
    System(&'static str, PathBuf, io::Error),
    /// Its directory does not exist.
    #[error("there is no directory {0}: make it, or choose another page with --page")]
    Directory(PathBuf),
    /// The path is a symbolic link, usually to another daemon's page.
    #[error(
        "{0} is a symbolic link, to another daemon's page (of tickwire-clock.service?); stop that, or choose another page with --page"
    )]
    Link(PathBuf),
    /// Its owner could modify it concurrently, or truncate it, which would kill its readers with
    /// SIGBUS.
    #[error("{0} belongs to user {1} and could be changed at any time; remove it, or choose another page with --page")]
    Owner(PathBuf, String),
    /// The counter's offset in this program's time namespace cannot be determined.
    #[error("the counter {name} cannot be published by this program: {1}", name = .0.name())]
    Moved(CounterKind, Moved),
    /// Another kind of file has this name.
    #[error("{0} is no clock page, and is left alone; remove it, or choose another page with --page")]
    Foreign(PathBuf),
}

/// The owner of a file, if it is neither the user of this process nor an administrator. A daemon
/// does not use a file that another user could change at any time.
///
/// # Errors
/// The system does not tell.
pub fn foreign_owner(file: &File) -> io::Result<Option<String>> {
    os::stranger(file)
}

/// Ends a page: notifies its readers and removes its file.
fn end(mapping: &Mapping, path: &Path) -> io::Result<()> {
    mapping.page().retire();
    os::remove(path)
}

/// The only writer of a page. Readers keep using the page after the writer is gone, so its file
/// stays, unless nothing was ever published on it.
#[derive(Debug)]
pub struct Writer {
    mapping: Mapping,
    path: PathBuf,
    /// Locked as long as this process writes the page.
    file: File,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A daemon that could not start must not leave an unmaintained page behind.
        if self.is_blank() && os::has_name(&self.file, &self.path) {
            // A reader that has already opened it finds the status retired.
            let _ = end(&self.mapping, &self.path);
        }
    }
}

impl Writer {
    /// Takes over the page at this path, or creates one that all users may read.
    ///
    /// A page for another counter, or of another version, is replaced by a new one, and its readers
    /// are notified to reopen it.
    ///
    /// # Errors
    /// Another daemon writes the page, another kind of file has this name, the directory does not
    /// exist (that of the default page is created), or the system refused. Or the counter's offset
    /// in this program's time namespace cannot be determined.
    pub fn create(path: &Path, counter: CounterKind) -> Result<Self, CreateError> {
        crate::counter::is_common(counter).map_err(|why| CreateError::Moved(counter, why))?;
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            make_directory(directory)?;
        }
        for _ in 0..4 {
            match Self::attempt(path, counter)? {
                Some(writer) => return Ok(writer),
                None => continue,
            }
        }
        Err(CreateError::Busy(path.into()))
    }

    /// `None`: the file was replaced meanwhile, or had to be; the caller retries.
    fn attempt(path: &Path, counter: CounterKind) -> Result<Option<Self>, CreateError> {
        let system = |what| move |error: io::Error| CreateError::System(what, path.into(), error);
        let file = os::open_to_write(path).map_err(system("open"))?.ok_or_else(|| CreateError::Link(path.into()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CreateError::Busy(path.into())),
            Err(TryLockError::Error(error)) => return Err(system("lock")(error)),
        }
        let metadata = file.metadata().map_err(system("look at"))?;
        if !os::has_name(&file, path) {
            return Ok(None);
        }
        if let Some(owner) = foreign_owner(&file).map_err(system("look at"))? {
            return Err(CreateError::Owner(path.into(), owner));
        }
        if metadata.len() == 0 && metadata.is_file() {
            os::let_all_read(&file).map_err(system("let others read"))?;
            file.set_len(SIZE as u64).map_err(system("lengthen"))?;
        }
        let mapping = match Mapping::map(&file, true) {
            Ok(mapping) => mapping,
            Err(MapFault::System(error)) => return Err(system("map")(error)),
            Err(MapFault::Kind | MapFault::Page(_)) => return Err(CreateError::Foreign(path.into())),
        };
        match Page::open(mapping.words(), boot()) {
            Ok((_, existing)) if existing == counter => {}
            // Just created, perhaps by a daemon that died while it did.
            Err(PageFault::Blank) => {
                let _ = Page::create(mapping.words(), counter, boot());
            }
            Err(PageFault::Magic) => return Err(CreateError::Foreign(path.into())),
            // The existing page is for another counter, of another version, or from before this
            // boot.
            Ok(_) | Err(_) => {
                end(&mapping, path).map_err(|error| CreateError::System("replace", path.into(), error))?;
                return Ok(None);
            }
        }
        Ok(Some(Self { mapping, path: path.into(), file }))
    }

    /// Publishes the parameters of the clock.
    pub fn publish(&self, parameters: &Parameters) {
        self.mapping.page().publish(parameters);
    }

    /// The parameters published last, by this daemon or the one before it.
    #[must_use]
    pub fn last(&self) -> Parameters {
        self.mapping.page().read(|| ()).map_or(Parameters::UNKNOWN, |(parameters, ())| parameters)
    }

    /// Whether nothing has been published on this page yet.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.last().at == Count(0)
    }
}
