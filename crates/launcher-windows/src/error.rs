//! Why a program was not started, or a library not entered into a process.

use crate::library_file::LibraryError;
use crate::pe_image::ImageError;
use std::io;

/// How a library was entered into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnteredBy {
    /// The program imports it: it is loaded when the program starts, or the program does not start.
    ImportTable,
    /// A thread in the process has loaded it.
    RemoteThread,
}

impl std::fmt::Display for EnteredBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ImportTable => "by its import table",
            Self::RemoteThread => "by a thread",
        })
    }
}

/// A text that cannot be given to a new process.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Windows ends texts at a zero.
    #[error("an argument or a variable contains a zero character")]
    Zero,
    /// A program's name is quoted in the command line, where a quote has no escape.
    #[error("the name of the program contains a quote")]
    Quote,
    /// A variable without a name, or with `=` in it.
    #[error("the name of a variable is empty or contains an equals sign")]
    Name,
    /// Windows' limit is 32767 characters, with the zero at the end.
    #[error("the command line is longer than Windows allows")]
    TooLong,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such file.
    #[error("not found")]
    NotFound,
    /// The file is a script of the command processor, whose arguments are quoted by other rules.
    #[error("is a batch file: start cmd.exe /c with its name")]
    Batch,
    /// Windows cannot execute the file.
    #[error("is there, but is no program that this Windows executes")]
    NotExecutable,
    /// A text cannot be given to it.
    #[error("cannot be started: {0}")]
    Text(#[from] TextError),
    /// Windows refuses.
    #[error("cannot be started: {0}")]
    Refused(io::Error),
    /// The library cannot be loaded into it, which was required. It has not run.
    #[error("was not started: {0}")]
    NotEntered(EnterError),
}

impl LaunchError {
    /// The exit status of a launcher that ends because of this error, as that of `tickwire run`.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound => 127,
            Self::Batch | Self::NotExecutable | Self::Refused(_) => 126,
            Self::Text(_) => 125,
            Self::NotEntered(_) => 69,
        }
    }
}

/// Why a library was not entered into a process.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The library's file is not there, or is not for this processor.
    #[error("the library cannot be used: {0}")]
    Library(#[from] LibraryError),
    /// The program is for another processor than the library.
    #[error("it is a program for another processor architecture ({0})")]
    OtherArchitecture(&'static str),
    /// Neither way was possible.
    #[error(
        "the library cannot be loaded into it, neither by its import table ({import_table}) nor by a thread ({thread})"
    )]
    Failed {
        /// Why not by the import table.
        import_table: ImportError,
        /// Why not by a thread.
        thread: ThreadError,
    },
    /// Windows does not describe the process.
    #[error("cannot look into it: {0}")]
    Unknown(io::Error),
}

/// Why a library was not entered by the import table.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The caller has chosen the other way.
    #[error("not tried")]
    NotTried,
    /// The system's loader has been at work: it reads the import table once.
    #[error("it has begun to run")]
    HasRun,
    /// The image's headers are unusual.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image is one of .NET, whose import table the loader may leave out.
    #[error("it is a .NET program")]
    Managed,
    /// A loader that finds nothing to import from a library does not load it.
    #[error("the library exports nothing")]
    NoExport,
    /// An import table has names of ASCII characters, up to the length of a path.
    #[error("the library's path is too long, or is not ASCII")]
    LibraryPath,
    /// The address space behind the image is taken.
    #[error("there is no free memory near its image")]
    NoRoom,
    /// Windows refuses to read or to write the process's memory.
    #[error("cannot {what}: {source}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Why a library was not entered by a thread.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The caller has chosen the other way.
    #[error("not tried")]
    NotTried,
    /// Windows refuses to make the thread, or the memory for it.
    #[error("cannot {what}: {source}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The thread still runs.
    #[error("it does not end")]
    TimedOut,
    /// `LoadLibraryW` failed in the process.
    #[error("Windows does not load the library there")]
    NotLoaded,
    /// The process ended meanwhile, with this exit code.
    #[error("the process ended with exit code {0:#x}")]
    Ended(u32),
}
