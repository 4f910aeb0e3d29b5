//! Starting a program with a library.

use crate::command_line::command_line;
use crate::enter::{Entered, enter_by};
use crate::environment_block::{Change, environment_block};
use crate::error::{EnterError, EnteredBy, LaunchError, TextError};
use crate::library_file::LibraryFile;
use crate::pe_image::{FileBytes, ImageError, ImageHeaders};
use crate::program_search;
use crate::running::{Kept, RunningProgram};
use crate::sys::{self, InterruptsIgnored, Job, LoadedEvent, NewProcess, StartedProcess};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use windows_sys::Win32::Foundation::{
    ERROR_BAD_EXE_FORMAT, ERROR_EXE_MACHINE_TYPE_MISMATCH, ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND,
};

/// The variable in the program's environment with the value of an event's handle, a decimal number.
/// The handle is in the program's process. The library sets the event when it is ready, and removes
/// the variable, which means nothing to processes that the program starts.
pub const LOADED_EVENT: &str = "TICKWIRE_LOADED_EVENT";

/// A program to start, and the library to be loaded into it.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program, found as [`program_search`] describes it.
    pub program: PathBuf,
    /// Its arguments, without its name.
    pub arguments: Vec<OsString>,
    /// The library.
    pub library: PathBuf,
    /// Whether the program is not to run without the library.
    pub require: bool,
    /// Variables to be set in the program's environment, or, with `None`, to be removed. All others
    /// are those of this process.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// Whether the program ends when the [`RunningProgram`] is dropped, and when this process ends,
    /// also if it is killed. Processes that the program starts go on. (Before Windows 8 it goes on
    /// if this process is in a job that does not let others out.)
    pub bound: bool,
    /// The only way to enter the library. `None`: both are tried.
    pub only: Option<EnteredBy>,
}

impl Launch {
    /// Starts the program in this process's current folder, with its standard handles, its console
    /// and all of its handles that can be inherited.
    ///
    /// Unless the library is required, the program runs even if the library cannot be entered; see
    /// [`RunningProgram::entered`].
    ///
    /// # Errors
    /// If there is no such program, or Windows does not start it; if the library is required and
    /// cannot be entered.
    pub fn start(&self) -> Result<RunningProgram, LaunchError> {
        let file = program_search::find(self.program.as_os_str()).ok_or(LaunchError::NotFound)?;
        check_file(&file)?;
        // From now on, because an interrupt before the process runs would leave it suspended.
        let interrupts = InterruptsIgnored::new();
        let loaded = LoadedEvent::new().map_err(LaunchError::Refused)?;
        let started = self.start_suspended(&file, &loaded)?;
        // Without a job the program runs all the same.
        let job = started.process().filter(|_| self.bound).and_then(|process| Job::of(process).ok());
        let entered = match self.enter(&started) {
            // What was started ends with this.
            Err(error) if self.require => return Err(LaunchError::NotEntered(error)),
            entered => entered,
        };
        let id = started.id();
        let process = started.resume().map_err(LaunchError::Refused)?;
        Ok(RunningProgram::new(process, id, entered, Kept { loaded, _interrupts: interrupts, _job: job }))
    }

    fn start_suspended(&self, file: &Path, loaded: &LoadedEvent) -> Result<StartedProcess, LaunchError> {
        let arguments: Vec<_> = self.arguments.iter().map(|argument| units(argument)).collect();
        let mut line = command_line(&units(self.program.as_os_str()), arguments.iter().map(Vec::as_slice))?;
        let event = loaded.inherited().map_err(LaunchError::Refused)?;
        let environment = self.environment(event.value())?;
        sys::start(NewProcess { file, command_line: &mut line, environment: &environment }).map_err(start_error)
    }

    /// The program's environment.
    fn environment(&self, event: usize) -> Result<Vec<u16>, TextError> {
        let event = (LOADED_EVENT.into(), Some(event.to_string().into()));
        let change = |(name, value): &(OsString, Option<OsString>)| -> Change {
            (units(name), value.as_ref().map(|value| units(value)))
        };
        let changes: Vec<_> = self.environment.iter().chain([&event]).map(change).collect();
        let variables = std::env::vars_os().map(|(name, value)| (units(&name), units(&value)));
        environment_block(variables, &changes)
    }

    fn enter(&self, started: &StartedProcess) -> Result<Entered, EnterError> {
        let library = LibraryFile::open(&self.library)?;
        let process = started.process().ok_or_else(|| EnterError::Unknown(io::ErrorKind::NotFound.into()))?;
        enter_by(process, &library, self.only)
    }
}

fn units(text: &OsStr) -> Vec<u16> {
    text.encode_wide().collect()
}

/// Refuses what `CreateProcessW` would start by another program: scripts of the command processor,
/// and in Wine programs of its host. What cannot be read is for Windows to judge.
fn check_file(file: &Path) -> Result<(), LaunchError> {
    if program_search::is_batch(file) {
        return Err(LaunchError::Batch);
    }
    let Ok(file) = File::open(file) else { return Ok(()) };
    match ImageHeaders::read(&FileBytes(file)) {
        Err(ImageError::NotExecutable) => Err(LaunchError::NotExecutable),
        _ => Ok(()),
    }
}

fn start_error(error: io::Error) -> LaunchError {
    match error.raw_os_error().map_or(0, i32::cast_unsigned) {
        ERROR_BAD_EXE_FORMAT | ERROR_EXE_MACHINE_TYPE_MISMATCH => LaunchError::NotExecutable,
        ERROR_FILE_NOT_FOUND | ERROR_PATH_NOT_FOUND => LaunchError::NotFound,
        _ => LaunchError::Refused(error),
    }
}
