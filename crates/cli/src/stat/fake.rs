//! A directory that imitates `/proc`, for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) const LIBRARY_LINE: &str =
    "7f00-7f10 r-xp 00000000 fe:00 12                         /usr/lib/tickwire/libtickwire_preload.so\n";

pub(super) struct Proc(TempDir);

impl Proc {
    /// With one process, the asking one (`self`).
    pub(super) fn new() -> Self {
        let proc = Self(tempfile::tempdir().unwrap());
        for folder in ["self/ns", "self/net", "net"] {
            fs::create_dir_all(proc.path().join(folder)).unwrap();
        }
        fs::write(proc.path().join("self/ns/net"), "").unwrap();
        proc
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A process of user 1000 in the asking process's namespace, with these mappings and
    /// descriptors.
    pub(super) fn process(&self, pid: u32, name: &str, maps: &str, descriptors: &[(&str, &str)]) {
        for folder in ["ns", "fd"] {
            fs::create_dir_all(self.file(pid, folder)).unwrap();
        }
        fs::hard_link(self.path().join("self/ns/net"), self.file(pid, "ns/net")).unwrap();
        self.write(pid, "comm", &format!("{name}\n"));
        self.write(pid, "status", "Name:\tx\nUid:\t0\t1000\t1000\t1000\nGid:\t0\t0\t0\t0\n");
        self.write(pid, "maps", maps);
        for (number, target) in descriptors {
            symlink(target, self.file(pid, "fd").join(number)).unwrap();
        }
    }

    /// Puts a process into another namespace.
    pub(super) fn elsewhere(&self, pid: u32) {
        self.remove(pid, "ns/net");
        self.write(pid, "ns/net", "");
    }

    pub(super) fn write(&self, pid: u32, file: &str, text: &str) {
        fs::write(self.file(pid, file), text).unwrap();
    }

    pub(super) fn remove(&self, pid: u32, file: &str) {
        fs::remove_file(self.file(pid, file)).unwrap();
    }

    /// A table of the kernel's sockets.
    pub(super) fn table(&self, name: &str, lines: &[String]) {
        let text = format!("  sl  local_address rem_address   st ...\n{}\n", lines.join("\n"));
        fs::write(self.path().join("self/net").join(name), text).unwrap();
    }

    fn file(&self, pid: u32, file: &str) -> PathBuf {
        self.path().join(pid.to_string()).join(file)
    }
}

/// A line of `maps`: the region of a lane.
pub(super) fn region(inode: u64) -> String {
    format!("7e00-7e10 rw-s 00000000 00:01 {inode}                         /memfd:tickwire-lane (deleted)\n")
}

/// A line of a table of sockets: one at port 9000, in this state.
pub(super) fn line(state: u8, inode: u64) -> String {
    format!(
        "   0: 0100007F:2328 00000000:0000 {state:02X} 00000002:00000003 00:00000000 00000000     0        0 {inode} 1 0000 100 0 0 10 0"
    )
}
