//! Starts an unmodified Windows program with a library loaded into it before its first instruction
//! runs.
//!
//! `Launch` makes the process suspended, enters the library, and lets the process run. A library
//! that has been entered can use `enter` itself, for processes that its program makes.
//!
//! There are two ways to enter ([`EnteredBy`]):
//!
//! 1. **By the import table.** A process that has not run yet consists of the program's image and
//!    `ntdll`. The list of libraries that the program imports is copied to new memory near the
//!    image, with ours in front, and the image's headers are pointed at the copy. So the system's
//!    loader loads our library before all others that the program imports, and a program without
//!    it does not start. The loader then enters the address of one of the library's functions in
//!    that memory, which shows from outside that the library is loaded.
//! 2. **By a thread** in the process that calls `LoadLibraryW`, if the first way is not possible:
//!    the image is a .NET program, for instance, or the library's path is not ASCII. The thread
//!    ends before the program runs. It is the first thread of the process, so it loads what the
//!    program imports, too.
//!
//! A library can say by an event that it is ready (`LOADED_EVENT`).
//!
//! | module | purpose |
//! |---|---|
//! | [`command_line`], [`environment_block`] | texts for a new process |
//! | [`program_search`] | the file that a name stands for |
//! | [`pe_image`] | the headers of an image |
//! | [`import_table`] | the new import table of a program |
//! | [`library_file`] | the library, as its file describes it |
//! | [`error`] | why a program was not started, or a library not entered |
//! | `enter`, `launch`, `running` | Windows only: entering, starting, waiting for a process |
//! | `sys` | Windows only: the calls |
//!
//! The modules without calls are the same on every operating system, and their tests run
//! everywhere. What they read may be damaged or hostile. May depend on the operating system
//! (Windows) and on nothing of the workspace. `unsafe` is allowed in `sys` only. `enter` does not
//! panic: it runs inside of other programs.
#![deny(unsafe_code)]

pub mod command_line;
pub mod environment_block;
pub mod error;
pub mod import_table;
pub mod library_file;
pub mod pe_image;
pub mod program_search;

#[cfg(windows)]
mod enter;
#[cfg(windows)]
mod launch;
#[cfg(windows)]
mod running;
#[cfg(windows)]
mod sys;

pub use error::{EnterError, EnteredBy, LaunchError};

#[cfg(windows)]
pub use enter::enter;
#[cfg(windows)]
pub use launch::{LOADED_EVENT, Launch};
#[cfg(windows)]
pub use running::{LoadState, RunningProgram};
