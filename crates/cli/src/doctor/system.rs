//! The files of /proc and /sys, below a root that tests replace.

use std::path::{Path, PathBuf};

/// Where /proc and /sys are.
pub(crate) struct System {
    root: PathBuf,
}

impl System {
    /// This machine.
    pub(crate) fn this() -> Self {
        Self { root: "/".into() }
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A file's text without surrounding white space; none if there is no such file.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// A file that holds one number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The last part of what a link points to.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        target.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Whether there is such a file or directory.
    pub(crate) fn exists(&self, path: &str) -> bool {
        Path::exists(&self.path(path))
    }
}
