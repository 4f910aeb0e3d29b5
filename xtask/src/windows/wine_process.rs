//! Windows processes as Linux sees them.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A process of Wine, by its number in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WineProcess(u32);

impl WineProcess {
    /// The process of a prefix whose command line ends with these words: a program's file, without
    /// its folder, and its arguments.
    pub(super) fn find(prefix: &Path, words: &[&str]) -> Result<Self> {
        let all = fs::read_dir("/proc").context("cannot read /proc")?;
        let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_it = |number: &u32| is_in(*number, prefix) && command_line(*number).is_some_and(|line| is(&line, words));
        numbers.into_iter().find(is_it).map(Self).with_context(|| format!("no process {words:?}"))
    }

    /// One that was started by this program.
    pub(super) const fn of(number: u32) -> Self {
        Self(number)
    }

    /// Kills it.
    pub(super) fn kill(self) -> Result<()> {
        kill(Pid::from_raw(self.0.cast_signed()), Signal::SIGKILL).context("cannot kill a process")
    }

    /// How many file descriptors it has.
    pub(super) fn descriptors(self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.0)).context("a process is gone")?.count())
    }

    /// How many of its file descriptors are no pipes. (Wine's server has three pipes for each
    /// thread of the programs.)
    pub(super) fn descriptors_without_pipes(self) -> Result<usize> {
        let all = fs::read_dir(format!("/proc/{}/fd", self.0)).context("a process is gone")?;
        let targets = all.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        Ok(targets.filter(|target| !target.as_os_str().as_bytes().starts_with(b"pipe:")).count())
    }

    /// How many sections it has mapped: memory that may be shared. (Libraries are mapped by other
    /// means.)
    pub(super) fn mappings(self) -> Result<usize> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.0)).context("a process is gone")?;
        let is_shared = |line: &&str| line.split_whitespace().nth(1).is_some_and(|rights| rights.ends_with('s'));
        Ok(maps.lines().filter(is_shared).count())
    }
}

/// Whether a process is of a prefix.
fn is_in(number: u32, prefix: &Path) -> bool {
    let wanted = [b"WINEPREFIX=", prefix.as_os_str().as_bytes()].concat();
    fs::read(format!("/proc/{number}/environ")).is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == wanted))
}

fn command_line(number: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{number}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// Whether a command line is that of a program: a file with this name, and these arguments.
fn is(line: &str, words: &[&str]) -> bool {
    let mut line = line.split('\0');
    let file = line.next().and_then(|path| path.rsplit(['/', '\\']).next());
    file == words.first().copied() && line.eq(words.iter().skip(1).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tickwire_lab::tools;

    #[test]
    fn a_command_line_is_known_by_file_and_arguments() {
        let words = ["stress.exe", "server", "10.0.0.1"];
        assert!(is("/lab/stress.exe\0server\x0010.0.0.1", &words));
        assert!(is("Z:\\lab\\stress.exe\0server\x0010.0.0.1", &words));
        assert!(!is("/lab/launch.exe\0/lab/stress.exe\0server\x0010.0.0.1", &words));
        assert!(!is("/lab/stress.exe\0server", &words) && !is("", &words));
    }

    #[test]
    fn what_a_process_has_is_counted() {
        let own = WineProcess::of(std::process::id());
        assert!(own.descriptors().unwrap() >= 3);
        let before = own.descriptors_without_pipes().unwrap();
        let _pipe = nix::unistd::pipe().unwrap();
        let others = || own.descriptors_without_pipes().unwrap();
        // (Other tests open files meanwhile.)
        tools::until("a pipe counts for nothing", Duration::from_secs(10), || others() <= before).unwrap();
        own.mappings().unwrap();
        assert!(WineProcess::find(Path::new("/no-such-prefix"), &["x"]).is_err());
    }
}
