//! Linux.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tickwire_stamping::cross_timestamp::now as ns;

/// What ends a daemon: a descriptor that becomes readable, or whose other end is closed.
pub type Stop<'a> = BorrowedFd<'a>;
/// A socket that is waited for.
pub(crate) use std::os::fd::BorrowedFd as BorrowedSocket;

/// Where a host may have its table of leap seconds: in the time zone data.
pub(crate) const LEAP_TABLES: [&str; 2] = ["/usr/share/zoneinfo/leap-seconds.list", "/usr/share/zoneinfo/leapseconds"];

/// The configuration file of the service, which has the clock's settings, too.
pub(crate) fn default_file() -> PathBuf {
    "/etc/tickwire/tickwire.toml".into()
}

pub(crate) fn borrow(socket: &impl AsFd) -> BorrowedSocket<'_> {
    socket.as_fd()
}

/// Waits for sockets.
#[derive(Debug)]
pub(crate) struct Waiter;

impl Waiter {
    #[expect(clippy::unnecessary_wraps, reason = "as on other systems")]
    pub(crate) const fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Sleeps until a socket is ready, a client has connected for a report, or so many ns have
    /// passed. Returns whether it is time to stop.
    pub(crate) fn wait<'a>(
        &self,
        stop: Stop<'a>,
        readable: impl Iterator<Item = BorrowedSocket<'a>>,
        writable: impl Iterator<Item = BorrowedSocket<'a>>,
        reports: &'a ReportListener,
        ns: i64,
    ) -> io::Result<bool> {
        let timeout = PollTimeout::try_from((ns + 999_999) / 1_000_000).unwrap_or(PollTimeout::ZERO);
        let readable = [stop].into_iter().chain(readable).chain([reports.0.as_fd()]);
        let readable = readable.map(|socket| PollFd::new(socket, PollFlags::POLLIN));
        let mut all: Vec<_> = readable.chain(writable.map(|socket| PollFd::new(socket, PollFlags::POLLOUT))).collect();
        match poll(&mut all, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(all[0].any().unwrap_or(true)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The clock that nothing steers, in ns: CLOCK_MONOTONIC_RAW.
pub(crate) fn unsteered() -> i64 {
    ns(ClockId::CLOCK_MONOTONIC_RAW)
}

/// How long the machine has slept since its start, in ns: CLOCK_BOOTTIME - CLOCK_MONOTONIC.
pub(crate) fn slept() -> i64 {
    // A delay between the two readings makes the difference smaller, which would look like sleep at
    // the next look. So the largest of five differences counts.
    (0..5).map(|_| ns(ClockId::CLOCK_BOOTTIME) - ns(ClockId::CLOCK_MONOTONIC)).max().expect("tries")
}

/// Why the TSC of this machine is not used, if it is not.
pub(crate) fn why_no_tsc() -> Option<&'static str> {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has =
        |flag: &str| flags.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|word| word == flag));
    if !has("constant_tsc") || !has("nonstop_tsc") {
        return Some("the TSC of this processor changes its speed or stops");
    }
    let path = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let sources = std::fs::read_to_string(path).unwrap_or_default();
    // Linux removes the TSC from the list when its watchdog finds the processors' counters apart.
    let is_trusted = sources.split_whitespace().any(|source| source == "tsc");
    (!is_trusted).then_some("the kernel does not trust the TSC")
}

/// The processors that this thread may run on.
pub(crate) fn processors() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&processor| allowed.is_set(processor).unwrap_or(false)).collect()
}

/// Lets this thread run on one processor only; `None` if it may not.
pub(crate) fn pin(processor: usize) -> Option<()> {
    let mut only = CpuSet::new();
    only.set(processor).ok()?;
    sched_setaffinity(Pid::from_raw(0), &only).ok()
}

/// Opens a file of the daemon's own to be read. It follows no link, and waits for nothing.
pub(crate) fn open_own(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// Whether only this user, or root, can write a file.
pub(crate) fn is_own(file: &File) -> io::Result<bool> {
    Ok(tickclock::foreign_owner(file)?.is_none() && file.metadata()?.mode() & 0o022 == 0)
}

/// Creates a file that only this user can read and write.
pub(crate) fn create_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The socket beside the page, by which the daemon answers with its report.
pub(crate) fn report_path(page: &Path) -> PathBuf {
    let mut name = page.as_os_str().to_owned();
    name.push(".sock");
    name.into()
}

/// The report of a page's daemon, as text.
pub(crate) fn read_report(page: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(report_path(page))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Where clients of reports connect.
#[derive(Debug)]
pub(crate) struct ReportListener(UnixListener);

/// A client that waits for a report.
#[derive(Debug)]
pub(crate) struct ReportClient(UnixStream);

impl ReportListener {
    /// Binds the socket. A socket of that name is a leftover; another file is not replaced.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "something else has this name")),
            Err(_) => {}
        }
        let reports = UnixListener::bind(path)?;
        // Every user may read the status, like the page itself.
        std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
        reports.set_nonblocking(true)?;
        Ok(Self(reports))
    }

    /// A client that has connected, if there is one.
    pub(crate) fn accept(&mut self) -> Option<ReportClient> {
        self.0.accept().ok().map(|(client, _)| ReportClient(client))
    }

    /// Removes the name of a socket that is not used any more.
    pub(crate) fn remove(path: &Path) {
        // A leftover would be replaced at the next start.
        let _ = std::fs::remove_file(path);
    }
}

impl ReportClient {
    /// Gives the client the report.
    pub(crate) fn answer(mut self, text: &[u8]) {
        // The report fits a socket's buffer; a client that is gone gets nothing.
        let _ = self.0.set_nonblocking(true).and_then(|()| self.0.write_all(text));
    }
}
