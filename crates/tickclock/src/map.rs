//! The page's file, mapped into memory.

use crate::boot::boot;
use crate::counter::Moved;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, open};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat};
use nix::unistd::{ftruncate, geteuid};
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use thiserror::Error;
use tickwire_clock::Count;
use tickwire_clock::page::{CounterKind, Fault, Page, Parameters, SIZE, WORDS};

/// A mapped page.
#[derive(Debug)]
pub(crate) struct Mapping(NonNull<AtomicU64>);

// SAFETY: it is memory of atomic words, which any thread may read or write, and is unmapped by its
// owner only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Why a file cannot be mapped.
#[derive(Debug)]
pub(crate) enum MapFault {
    System(Errno),
    /// No ordinary file.
    Kind,
    Page(Fault),
}

impl From<Errno> for MapFault {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl Mapping {
    /// Maps the page in a file. A reader cannot change it.
    pub(crate) fn reader(path: &Path) -> Result<(Self, CounterKind), MapFault> {
        // Not blocking: somebody may have put a pipe there.
        let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK, Mode::empty())?;
        let page = Self::map(&file, ProtFlags::PROT_READ).and_then(|mapping| {
            let (_, counter) = Page::open(mapping.words(), boot()).map_err(MapFault::Page)?;
            Ok((mapping, counter))
        });
        match page {
            // A daemon is just making it, or none has since the machine was started.
            Err(MapFault::Page(Fault::Size(0) | Fault::Blank | Fault::Boot)) => Err(MapFault::System(Errno::ENOENT)),
            page => page,
        }
    }

    fn map(file: impl AsFd, access: ProtFlags) -> Result<Self, MapFault> {
        let stat = fstat(&file)?;
        if stat.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits() {
            return Err(MapFault::Kind);
        }
        if stat.st_size != SIZE as i64 {
            return Err(MapFault::Page(Fault::Size(stat.st_size.unsigned_abs())));
        }
        let size = const { NonZeroUsize::new(SIZE).unwrap() };
        // SAFETY: a new mapping of a file that is as long as the mapping; the file's owner, the
        // daemon, never makes it shorter.
        let start = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self(start.cast()))
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping is WORDS words long, aligned to a page, lives as long as `self`, and
        // is accessed by atomic operations only; through a reader's mapping nobody stores:
        // `Page::open` hands out loads, and only `Writer` publishes.
        unsafe { self.0.cast().as_ref() }
    }

    #[inline]
    pub(crate) fn page(&self) -> Page<'_> {
        Page::assume(self.words())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing borrows from it any more. An error
        // would leave the mapping, which harms nobody.
        let _ = unsafe { munmap(self.0.cast(), SIZE) };
    }
}

/// Makes the usual page's directory if it is not there, so that everybody can pass: a page is for
/// all, also one of a daemon that keeps its files to itself (umask). Another one that is not there
/// is rather a slip of the pen.
fn make_directory(directory: &Path) -> Result<(), CreateError> {
    use std::os::unix::fs::PermissionsExt;
    if directory.is_dir() {
        return Ok(());
    }
    if Path::new(crate::DEFAULT_PATH).parent() != Some(directory) {
        return Err(CreateError::Directory(directory.into()));
    }
    let system = |what| move |error| CreateError::System(what, directory.into(), error);
    match std::fs::create_dir(directory) {
        // Another daemon has made it since.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && directory.is_dir() => return Ok(()),
        made => made.map_err(system("make the directory"))?,
    }
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).map_err(system("let others into"))
}

/// Why the page cannot be made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// Another daemon writes it.
    #[error("another clock daemon writes {0}; stop it, or choose another page with --page")]
    Busy(PathBuf),
    /// The system refused.
    #[error("cannot {0} {1}: {2}")]
    System(&'static str, PathBuf, std::io::Error),
    /// Where it is to be, nothing is.
    #[error("there is no directory {0}: make it, or choose another page with --page")]
    Directory(PathBuf),
    /// It is a link, behind which somebody else's page is.
    #[error(
        "{0} is a symbolic link, to another daemon's page (of tickwire-clock.service?); stop that, or choose another page with --page"
    )]
    Link(PathBuf),
    /// Its owner could change it under the daemon, or make it shorter, which kills whoever reads
    /// it.
    #[error("{0} belongs to user {1}, who could change it at any time; remove it, or choose another page with --page")]
    Owner(PathBuf, u32),
    /// By how much this program sees the counter moved cannot be told.
    #[error("the counter {name} cannot be published by this program: {1}", name = .0.name())]
    Moved(CounterKind, Moved),
    /// Something else has this name.
    #[error("{0} is no clock page, and is left alone; remove it, or choose another page with --page")]
    Foreign(PathBuf),
}

/// Whether a file is the one of this name.
fn has_name(file: &File, path: &Path) -> bool {
    let both = file.metadata().and_then(|file| Ok((file, std::fs::symlink_metadata(path)?)));
    both.is_ok_and(|(file, named)| (file.dev(), file.ino()) == (named.dev(), named.ino()))
}

/// A page is over: its readers are told, and its name is free.
fn end(mapping: &Mapping, path: &Path) -> std::io::Result<()> {
    mapping.page().retire();
    std::fs::remove_file(path)
}

/// The one writer of a page. Readers keep the page when it goes, so its file stays, unless nobody
/// has published anything on it.
#[derive(Debug)]
pub struct Writer {
    mapping: Mapping,
    path: PathBuf,
    /// Locked for as long as this process writes.
    file: Flock<File>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A daemon that could not start leaves no clock behind that nobody keeps.
        if self.is_blank() && has_name(&self.file, &self.path) {
            // Who meets it all the same finds that nothing is known.
            let _ = end(&self.mapping, &self.path);
        }
    }
}

impl Writer {
    /// Takes over the page of this name, or makes one, which everybody may read.
    ///
    /// A page about another counter, or of another version, is replaced by a new one; its readers
    /// are told to open that.
    ///
    /// # Errors
    /// Another daemon writes it, something else has this name, there is no such directory (that of
    /// the usual page is made), the system refused, or it does not tell how this program's time
    /// namespace moves the counter.
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

    /// `None`: the file was replaced meanwhile, or had to be; look again.
    fn attempt(path: &Path, counter: CounterKind) -> Result<Option<Self>, CreateError> {
        let system = |what| move |errno: Errno| CreateError::System(what, path.into(), errno.into());
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = open(path, flags, Mode::from_bits_truncate(0o644)).map_err(|errno| match errno {
            Errno::ELOOP => CreateError::Link(path.into()),
            errno => system("open")(errno),
        })?;
        let file = File::from(file);
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => CreateError::Busy(path.into()),
            errno => system("lock")(errno),
        })?;
        let stat = fstat(&*file).map_err(system("look at"))?;
        if !has_name(&file, path) {
            return Ok(None);
        }
        if stat.st_uid != geteuid().as_raw() && stat.st_uid != 0 {
            return Err(CreateError::Owner(path.into(), stat.st_uid));
        }
        if stat.st_size == 0 {
            fchmod(&*file, Mode::from_bits_truncate(0o644)).map_err(system("let others read"))?;
            ftruncate(&*file, SIZE as i64).map_err(system("lengthen"))?;
        }
        let mapping = match Mapping::map(&*file, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE) {
            Ok(mapping) => mapping,
            Err(MapFault::System(errno)) => return Err(system("map")(errno)),
            Err(MapFault::Kind | MapFault::Page(_)) => return Err(CreateError::Foreign(path.into())),
        };
        match Page::open(mapping.words(), boot()) {
            Ok((_, existing)) if existing == counter => {}
            // Just made, perhaps by a daemon that ended as it did.
            Err(Fault::Blank) => {
                let _ = Page::create(mapping.words(), counter, boot());
            }
            Err(Fault::Magic) => return Err(CreateError::Foreign(path.into())),
            // Its readers read another counter, or are of another version.
            Ok(_) | Err(_) => {
                end(&mapping, path).map_err(|error| CreateError::System("replace", path.into(), error))?;
                return Ok(None);
            }
        }
        Ok(Some(Self { mapping, path: path.into(), file }))
    }

    /// Publishes what the clock is.
    pub fn publish(&self, parameters: &Parameters) {
        self.mapping.page().publish(parameters);
    }

    /// What was published last, by this daemon or the one before it.
    #[must_use]
    pub fn last(&self) -> Parameters {
        self.mapping.page().read(|| ()).map_or(Parameters::UNKNOWN, |(parameters, ())| parameters)
    }

    /// Whether nobody has published anything on this page yet.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.last().at == Count(0)
    }
}
