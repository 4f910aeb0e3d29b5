//! The private network namespace in which the program ends of all lanes live.

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A network namespace without name: it lasts as long as this value, and as sockets made in it.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes an empty namespace. The caller stays in its own.
    pub(crate) fn create() -> io::Result<Self> {
        // The namespace of a thread is that of the thread alone, so a passing thread can make one.
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.join().map_err(|_| io::Error::other("the thread that makes the namespace failed"))??;
        Ok(Self { file })
    }

    /// Runs `work` inside, in a passing thread, and waits for it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let inside = std::thread::Builder::new().name("lane-namespace".into()).spawn_scoped(scope, || {
                setns(&self.file, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            })?;
            inside.join().map_err(|_| io::Error::other("the work in the namespace failed"))?
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn work_inside_is_elsewhere_and_the_caller_stays() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        let here = || std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        let before = here();
        let namespace = Namespace::create().unwrap();
        let inside = namespace.run(here).unwrap();
        assert_ne!(inside, before);
        assert_eq!(namespace.run(here).unwrap(), inside);
        assert_eq!(here(), before);
    }
}
