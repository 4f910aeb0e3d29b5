//! `CLOCK_MONOTONIC_RAW` as a counter of the machine.
//!
//! In a time namespace (time_namespaces(7); a container may have one) this clock has an offset, and
//! a page's readers need not be in the namespace of its writer. So the offset is subtracted, and
//! all programs get the values of the initial namespace.
//!
//! The offset is read once. A child that is forked into a new namespace later must execute a
//! program that opens the page itself.

use super::Moved;
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use tickwire_clockpage::Count;

const SECOND: i64 = 1_000_000_000;

/// The counter; wrong where [`moved`] is an error.
pub(super) fn read() -> Count {
    clock_gettime(ClockId::CLOCK_MONOTONIC_RAW).map_or(Count(0), |now| {
        let ns = now.tv_sec() * SECOND + now.tv_nsec();
        Count(ns.wrapping_sub(moved().unwrap_or(0)) as u64)
    })
}

/// The offset of the clock in ns, relative to the initial time namespace.
pub(super) fn moved() -> Result<i64, Moved> {
    static MOVED: OnceLock<Result<i64, Moved>> = OnceLock::new();
    *MOVED.get_or_init(|| told(Path::new("/proc/self")))
}

/// The offset that the kernel reports in this directory of /proc. A kernel without time namespaces
/// lists only the other namespaces, and the offset is 0.
fn told(process: &Path) -> Result<i64, Moved> {
    let text = match std::fs::read_to_string(process.join("timens_offsets")) {
        Ok(text) => text,
        Err(error) if missing(&error) && has_no_time(&process.join("ns")) => return Ok(0),
        Err(_) => return Err(Moved::Unread),
    };
    let namespace = |name| std::fs::read_link(process.join("ns").join(name)).map_err(|_| Moved::Unread);
    if namespace("time")? != namespace("time_for_children")? {
        return Err(Moved::Between);
    }
    offset(&text).ok_or(Moved::Unread)
}

/// Whether the kernel lists this process's namespaces and none of them is a time namespace. Without
/// /proc, or with that of another PID namespace, it lists none at all.
fn has_no_time(namespaces: &Path) -> bool {
    namespaces.is_dir() && std::fs::symlink_metadata(namespaces.join("time")).is_err_and(|error| missing(&error))
}

fn missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The offset of the monotonic clocks in ns; Linux before 5.7 names them by number.
fn offset(text: &str) -> Option<i64> {
    let mut words = text.lines().map(str::split_whitespace).find_map(|mut words| {
        let name = words.next()?;
        matches!(name, "monotonic" | "1").then_some(words)
    })?;
    let mut number = || words.next()?.parse::<i64>().ok();
    number()?.checked_mul(SECOND)?.checked_add(number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_offset() {
        assert_eq!(offset("monotonic           0         0\nboottime            0         0\n"), Some(0));
        assert_eq!(offset("boottime 7 0\nmonotonic      -10 500000000\n"), Some(-9_500_000_000));
        assert_eq!(offset("1 86400 1\n7 0 0\n"), Some(86_400_000_000_001));
        for wrong in
            ["", "monotonic", "monotonic 7", "monotonic seven 0", "monotonic 9223372036854775807 0", "boottime 1 1"]
        {
            assert_eq!(offset(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_offset_that_may_be_another_namespaces_is_not_taken() {
        use std::os::unix::fs::symlink;
        let process = tempfile::tempdir().unwrap();
        let namespaces = process.path().join("ns");
        assert_eq!(told(&process.path().join("self")), Err(Moved::Unread), "no /proc, or that of others");
        assert_eq!(told(process.path()), Err(Moved::Unread), "no /proc");
        std::fs::create_dir(&namespaces).unwrap();
        assert_eq!(told(process.path()), Ok(0), "a kernel without time namespaces");
        symlink("time:[1]", namespaces.join("time")).unwrap();
        assert_eq!(told(process.path()), Err(Moved::Unread));
        std::fs::write(process.path().join("timens_offsets"), "monotonic 5 0\n").unwrap();
        assert_eq!(told(process.path()), Err(Moved::Unread));
        symlink("time:[2]", namespaces.join("time_for_children")).unwrap();
        assert_eq!(told(process.path()), Err(Moved::Between));
        std::fs::remove_file(namespaces.join("time_for_children")).unwrap();
        symlink("time:[1]", namespaces.join("time_for_children")).unwrap();
        assert_eq!(told(process.path()), Ok(5 * SECOND));
    }
}
