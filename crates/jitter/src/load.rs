//! The paper's loads (section IV). They consist of threads of this program and an unlinked file, so
//! nothing outlives the program.

use crate::disk::{Disk, Serial, SerialError};
use crate::going::Going;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;

/// A load of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum MachineLoad {
    /// No load by this program.
    #[serde(rename = "none")]
    None,
    /// A computing thread for each processor, without memory accesses or system calls.
    #[serde(rename = "cpu")]
    Cpu,
    /// Blocks of 8 MB, read repeatedly from the disk with direct I/O.
    #[serde(rename = "disk")]
    Disk,
    /// Both `Cpu` and `Disk`.
    #[serde(rename = "cpu+disk")]
    CpuDisk,
    /// `Disk`, and about 100 characters for each block on a serial line.
    #[serde(rename = "disk+serial")]
    DiskSerial,
}

impl MachineLoad {
    /// All loads, in the paper's order.
    pub const ALL: [Self; 5] = [Self::None, Self::Cpu, Self::Disk, Self::CpuDisk, Self::DiskSerial];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
            Self::CpuDisk => "cpu+disk",
            Self::DiskSerial => "disk+serial",
        }
    }

    const fn computes(self) -> bool {
        matches!(self, Self::Cpu | Self::CpuDisk)
    }

    const fn reads(self) -> bool {
        matches!(self, Self::Disk | Self::CpuDisk | Self::DiskSerial)
    }

    /// Starts the load for at most `limit`, with a file on the disk of this directory, and this
    /// serial line.
    ///
    /// # Errors
    /// The machine lacks the device, or refuses the load.
    pub(crate) fn begin(self, limit: Duration, directory: &Path, serial: Option<&Path>) -> Result<Running, LoadError> {
        let mut running = Running {
            going: Arc::new(Going::new(limit)),
            threads: Vec::new(),
            begun: Instant::now(),
            blocks: Arc::default(),
        };
        let serial = match (self, serial) {
            (Self::DiskSerial, None) => return Err(LoadError::NoSerial),
            (Self::DiskSerial, Some(device)) => Some(Serial::open(device)?),
            _ => None,
        };
        if self.reads() {
            let disk = Disk::prepare(directory).map_err(|error| LoadError::Disk(directory.into(), error))?;
            let blocks = Arc::clone(&running.blocks);
            running.spawn(move |going| disk.read(serial, going, &blocks))?;
        }
        if self.computes() {
            for _ in 0..thread::available_parallelism().map_err(LoadError::Thread)?.get() {
                running.spawn(|going| {
                    compute(going);
                    Ok(())
                })?;
            }
        }
        Ok(running)
    }
}

/// Why a load failed.
#[derive(Debug, Error)]
pub(crate) enum LoadError {
    /// No serial line was named.
    #[error("no serial line was named (--serial DEVICE)")]
    NoSerial,
    /// The named device is not a serial line.
    #[error(transparent)]
    Serial(#[from] SerialError),
    /// No file for direct I/O can be created.
    #[error("the disk of {0} cannot be read past the kernel's cache: {1}")]
    Disk(PathBuf, io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// It ended too early.
    #[error("it ended while it was measured: {0}")]
    Ended(io::Error),
    /// The measurement took longer than the load's limit.
    #[error("it was given up after {0:?}, while it was measured")]
    Late(Duration),
}

/// A load that runs until this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Running {
    going: Arc<Going>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    begun: Instant,
    blocks: Arc<AtomicU64>,
}

impl Running {
    fn spawn(&mut self, work: impl FnOnce(&Going) -> io::Result<()> + Send + 'static) -> Result<(), LoadError> {
        let going = Arc::clone(&self.going);
        let thread = thread::Builder::new().name("load".to_owned()).spawn(move || work(&going));
        self.threads.push(thread.map_err(LoadError::Thread)?);
        Ok(())
    }

    /// Ends the load. Returns the number of blocks read, and its duration.
    ///
    /// # Errors
    /// The load had already ended.
    pub(crate) fn finish(mut self) -> Result<(u64, Duration), LoadError> {
        let late = Instant::now() >= self.going.until;
        self.end()?;
        if late {
            return Err(LoadError::Late(self.going.limit));
        }
        Ok((self.blocks.load(Ordering::Relaxed), self.begun.elapsed()))
    }

    fn end(&mut self) -> Result<(), LoadError> {
        self.going.stop.store(true, Ordering::Relaxed);
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            if let Ok(Err(error)) = thread.join() {
                ended = Err(LoadError::Ended(error));
            }
        }
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Searches primes, as the paper's sysbench does.
fn compute(going: &Going) {
    let mut candidate = 3_u64;
    while going.on() {
        // This takes less than a millisecond.
        for _ in 0..1000 {
            let is_prime =
                (3_u64..).step_by(2).take_while(|d| d * d <= candidate).all(|d| !candidate.is_multiple_of(d));
            std::hint::black_box(is_prime);
            candidate = if candidate > 10_000_000 { 3 } else { candidate + 2 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn names_are_those_of_the_command_line_and_of_json() {
        for load in MachineLoad::ALL {
            assert_eq!(serde_json::to_value(load).unwrap(), load.name());
        }
    }

    #[test]
    fn a_load_of_the_processors_has_a_thread_for_each_and_ends_when_it_is_told() {
        let here = Path::new(".");
        let running = MachineLoad::Cpu.begin(LONG, here, None).unwrap();
        assert_eq!(running.threads.len(), thread::available_parallelism().unwrap().get());
        let begun = Instant::now();
        assert_eq!(running.finish().unwrap().0, 0);
        assert!(begun.elapsed() < LONG / 2);
        assert!(MachineLoad::None.begin(LONG, here, None).unwrap().threads.is_empty());
    }

    #[test]
    fn a_load_ends_by_itself_and_what_was_measured_so_long_is_not_told() {
        let running = MachineLoad::Cpu.begin(Duration::from_millis(10), Path::new("."), None).unwrap();
        while running.threads.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(matches!(running.finish(), Err(LoadError::Late(_))));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let begin = |load: MachineLoad, directory: &str, serial: Option<&str>| {
            load.begin(LONG, Path::new(directory), serial.map(Path::new)).unwrap_err().to_string()
        };
        assert_eq!(begin(MachineLoad::DiskSerial, ".", None), "no serial line was named (--serial DEVICE)");
        assert!(begin(MachineLoad::DiskSerial, ".", Some("/dev/null")).starts_with("/dev/null is no serial line"));
        let words = begin(MachineLoad::Disk, "/nonexistent", None);
        assert!(
            words.starts_with("the disk of /nonexistent cannot be read past the kernel's cache: No such"),
            "{words}"
        );
    }
}
