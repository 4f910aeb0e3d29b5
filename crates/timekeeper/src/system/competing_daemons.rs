//! Other programs that are known to steer the system clock, found by name in /proc. Programs
//! outside this PID namespace are not visible there; their changes of the kernel's state are
//! detected later ([`super`]).

use std::path::Path;

/// Their names as in /proc/PID/comm, which has at most 15 characters.
const KNOWN: [&str; 7] = ["chronyd", "ntpd", "openntpd", "systemd-timesyn", "ntp-daemon", "phc2sys", "ptpd"];

/// A program that steers the system clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompetingDaemon {
    pub(super) name: String,
    pub(super) process: u32,
}

/// The first that is found.
pub(super) fn find() -> Option<CompetingDaemon> {
    find_in(Path::new("/proc"))
}

fn find_in(proc: &Path) -> Option<CompetingDaemon> {
    std::fs::read_dir(proc).ok()?.flatten().find_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        let name = name.trim_end();
        // chronyd -x leaves the clock alone.
        let steers = KNOWN.contains(&name) && !(name == "chronyd" && has_argument(&entry.path(), b'x'));
        steers.then(|| CompetingDaemon { name: name.into(), process })
    })
}

/// Whether a process was started with this letter among its options.
fn has_argument(process: &Path, letter: u8) -> bool {
    let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).skip(1).any(|word| word.len() == 2 && word[0] == b'-' && word[1] == letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_daemons_are_found_unless_they_leave_the_clock_alone() {
        let proc = tempfile::tempdir().unwrap();
        let process = |number: &str, comm: &str, line: &str| {
            let directory = proc.path().join(number);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("comm"), format!("{comm}\n")).unwrap();
            std::fs::write(directory.join("cmdline"), line).unwrap();
        };
        process("self", "ntpd", "ntpd\0");
        process("17", "bash", "bash\0chronyd\0");
        process("18", "chronyd", "/usr/sbin/chronyd\0-x\0");
        assert_eq!(find_in(proc.path()), None);
        process("19", "systemd-timesyn", "/lib/systemd/systemd-timesyncd\0");
        assert_eq!(find_in(proc.path()), Some(CompetingDaemon { name: "systemd-timesyn".into(), process: 19 }));
    }
}
