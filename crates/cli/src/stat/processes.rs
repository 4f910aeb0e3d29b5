//! Processes that run with the preload library, as `/proc` shows them.
//!
//! The processes control much of this text, and may end while it is read. Whatever cannot be read,
//! or belongs to another user, is left out.

use super::search::Deadline;
use crate::run::environment::LIBRARY;
use nix::sys::stat::makedev;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tickwire_lane::control::Name;

/// The most processes that are checked.
const PROCESSES: usize = 1 << 16;
/// The most descriptors of each that are checked.
const DESCRIPTORS: usize = 1 << 16;
/// The most bytes of a file that are read: a process may have any number of mappings.
const BYTES: u64 = 16 << 20;

/// The name of a lane's region in the list of mappings (`tickwire_lane_linux::region`).
const REGION: &str = "/memfd:tickwire-lane (deleted)";

/// Device and inode, which identify a file.
pub(super) type FileId = (u64, u64);

/// A process that may be accelerated.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) uid: u32,
    pub(super) program: String,
    /// The regions of lanes that it maps: its own, its parent's, and those that have ended.
    pub(super) regions: BTreeSet<FileId>,
    folder: PathBuf,
}

/// The identity of a file.
pub(super) fn id(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
}

/// The processes of our network namespace that have the library mapped, until the deadline.
pub(super) fn with_library(proc: &Path, deadline: Deadline) -> Vec<Process> {
    let Some(here) = namespace(&proc.join("self")) else { return Vec::new() };
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = numbers.take(PROCESSES).collect();
    pids.sort_unstable();
    let in_time = pids.into_iter().take_while(|_| !deadline.has_passed());
    in_time.filter_map(|pid| Process::read(proc, pid, here, deadline)).collect()
}

impl Process {
    fn read(proc: &Path, pid: u32, here: FileId, deadline: Deadline) -> Option<Self> {
        let folder = proc.join(pid.to_string());
        if namespace(&folder)? != here {
            return None;
        }
        let regions = regions(&folder, deadline)?;
        let program = Name::new(text(&folder.join("comm"))?.trim_end()).as_str().to_owned();
        let uid = user(&text(&folder.join("status"))?)?;
        Some(Self { pid, uid, program, regions, folder })
    }

    /// Its descriptors that are sockets, each with the socket's inode, until the deadline.
    pub(super) fn sockets(&self, deadline: Deadline) -> Vec<(u32, u64)> {
        let entries = fs::read_dir(self.folder.join("fd")).into_iter().flatten().flatten().take(DESCRIPTORS);
        let entries = entries.take_while(|_| !deadline.has_passed());
        let socket = |entry: fs::DirEntry| {
            let inode = socket_inode(&entry.path())?;
            Some((entry.file_name().to_str()?.parse().ok()?, inode))
        };
        let mut sockets: Vec<(u32, u64)> = entries.filter_map(socket).collect();
        sockets.sort_unstable();
        sockets
    }

    /// Whether it still runs, and has mapped no new region since it was read.
    pub(super) fn is_as_it_was(&self, deadline: Deadline) -> bool {
        regions(&self.folder, deadline).is_some_and(|now| now == self.regions)
    }
}

/// The inode of a socket, from its descriptor's link in `/proc`; none if it is no socket.
pub(super) fn socket_inode(descriptor: &Path) -> Option<u64> {
    let target = fs::read_link(descriptor).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn namespace(folder: &Path) -> Option<FileId> {
    fs::metadata(folder.join("ns/net")).ok().as_ref().map(id)
}

fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The effective user, from the file `status`.
fn user(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The regions that a process maps; none if it has not mapped the library, or if the deadline has
/// passed.
fn regions(folder: &Path, deadline: Deadline) -> Option<BTreeSet<FileId>> {
    let mut maps = BufReader::new(File::open(folder.join("maps")).ok()?.take(BYTES));
    let mut regions = BTreeSet::new();
    let mut has_library = false;
    let mut line = Vec::new();
    while maps.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Some((file, path)) = mapped(&String::from_utf8_lossy(&line)) {
            has_library |= is_library(path);
            regions.extend((path == REGION).then_some(file));
        }
        line.clear();
        if deadline.has_passed() {
            return None;
        }
    }
    has_library.then_some(regions)
}

/// The file of a line of `maps`: addresses, rights, offset, device, inode, path.
fn mapped(line: &str) -> Option<(FileId, &str)> {
    let mut fields = line.trim_end().splitn(6, ' ').skip(3);
    let (major, minor) = fields.next()?.split_once(':')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let device = makedev(hexadecimal(major)?, hexadecimal(minor)?);
    Some(((device, fields.next()?.parse().ok()?), fields.next()?.trim_start()))
}

/// After an update, running programs keep the old library, which is deleted.
fn is_library(path: &str) -> bool {
    path.strip_suffix(" (deleted)").unwrap_or(path).rsplit('/').next() == Some(LIBRARY)
}

#[cfg(test)]
mod tests {
    use super::super::fake::{LIBRARY_LINE, Proc, region};
    use super::*;

    #[test]
    fn a_line_of_maps_names_a_file() {
        let line = "7fc85a687000-7fc85a689000 rw-p 00033000 fe:01 325835                     /usr/lib/a b.so\n";
        assert_eq!(mapped(line), Some(((makedev(0xfe, 1), 325_835), "/usr/lib/a b.so")));
        for none in ["", "\n", "7f-8f rw-p 0 00:00 0 \n", "a b c d e f", "a b c 1:1 x /f", "a b c :: 1 /f", "   :   "] {
            assert_eq!(mapped(none), None, "{none:?}");
        }
    }

    #[test]
    fn the_library_is_known_by_its_name_wherever_it_is() {
        for path in ["/usr/lib/tickwire/libtickwire_preload.so", "/a b/libtickwire_preload.so (deleted)"] {
            assert!(is_library(path), "{path}");
        }
        for path in ["/usr/lib/libc.so.6", "/libtickwire_preload.so/other", "/mylibtickwire_preload.so", ""] {
            assert!(!is_library(path), "{path}");
        }
    }

    #[test]
    fn processes_with_the_library_in_this_namespace_are_found_and_all_others_are_not() {
        let proc = Proc::new();
        proc.process(30, "later", LIBRARY_LINE, &[]);
        proc.process(20, "\x1b[2J-a-name-with-a-terminal-command", &format!("{LIBRARY_LINE}{}", region(77)), &[]);
        proc.process(21, "plain", "7f00-7f10 r-xp 00000000 fe:00 12 /usr/lib/libc.so.6\n", &[]);
        proc.process(22, "elsewhere", LIBRARY_LINE, &[]);
        proc.elsewhere(22);
        // These have ended meanwhile, or belong to another user.
        for (pid, file) in [(23, "ns/net"), (24, "maps"), (25, "comm"), (26, "status")] {
            proc.process(pid, "ending", LIBRARY_LINE, &[]);
            proc.remove(pid, file);
        }
        proc.process(27, "nonsense", "\u{0}:\n\n- - - - - -\n", &[]);
        let found = with_library(proc.path(), Deadline::of_a_search());
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [20, 30]);
        assert_eq!((found[0].program.as_str(), found[0].uid), ("?[2J-a-name-with-a-terminal-command", 1000));
        assert_eq!(found[0].regions, [(makedev(0, 1), 77)].into());
        assert!(found[1].regions.is_empty());
    }

    #[test]
    fn sockets_are_found_among_descriptors_and_a_new_lane_is_noticed() {
        let proc = Proc::new();
        let files =
            [("10", "socket:[7]"), ("3", "socket:[5]"), ("4", "pipe:[6]"), ("5", "socket:[x]"), ("6", "/tmp/[")];
        proc.process(20, "server", LIBRARY_LINE, &files);
        let found = with_library(proc.path(), Deadline::of_a_search());
        assert_eq!(found[0].sockets(Deadline::of_a_search()), [(3, 5), (10, 7)]);
        assert!(found[0].is_as_it_was(Deadline::of_a_search()));
        proc.remove(20, "fd/3");
        proc.write(20, "maps", &format!("{LIBRARY_LINE}{}", region(77)));
        assert!(!found[0].is_as_it_was(Deadline::of_a_search()), "it has a lane now");
        proc.remove(20, "maps");
        assert!(!found[0].is_as_it_was(Deadline::of_a_search()), "it has ended");
        assert_eq!(found[0].sockets(Deadline::of_a_search()), [(10, 7)]);
    }

    #[test]
    fn nothing_is_read_when_the_time_is_over() {
        let proc = Proc::new();
        proc.process(20, "server", LIBRARY_LINE, &[("3", "socket:[5]")]);
        let found = with_library(proc.path(), Deadline::of_a_search());
        let passed = Deadline::passed();
        assert!(with_library(proc.path(), passed).is_empty());
        assert!(found[0].sockets(passed).is_empty());
        assert!(!found[0].is_as_it_was(passed), "past the deadline it is not known");
    }

    #[test]
    fn a_folder_that_is_no_proc_has_no_processes() {
        assert!(with_library(Path::new("/nonexistent"), Deadline::of_a_search()).is_empty());
        assert!(with_library(tempfile::tempdir().unwrap().path(), Deadline::of_a_search()).is_empty());
    }
}
