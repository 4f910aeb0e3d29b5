//! The Linux Test Project's tests of the system calls that concern sockets and waiting for them.

use super::Options;
use super::programs::{Suite, Tally, Test};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The folder of the system calls' tests.
const CALLS: &str = "testcases/kernel/syscalls";

/// The system calls.
const NAMES: [&str; 44] = [
    "accept",
    "accept4",
    "bind",
    "close",
    "close_range",
    "connect",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "fcntl",
    "getpeername",
    "getsockname",
    "getsockopt",
    "listen",
    "poll",
    "ppoll",
    "pselect",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "select",
    "send",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "sockioctl",
    "socket",
    "socketcall",
    "socketpair",
    "splice",
    "tee",
    "write",
    "writev",
];

/// Tests that are worse by design.
const KNOWN: &[(&str, &str)] = &[
    ("accept03", RINGS),
    ("accept4_01", DIRECT),
    ("bind02", "a user who may not use the lab's service, and `--require`"),
    ("connect01", DIRECT),
    ("connect02", "turns a used connection of IPv6 into one of IPv4 (IPV6_ADDRFORM)"),
    ("epoll_ctl06", RINGS),
    ("sendmmsg01", DIRECT),
    ("splice07", RINGS),
];
const DIRECT: &str = "makes system calls without the C library's functions";
const RINGS: &str = "tries a ring (io_uring), which is not to be had: what needs one is skipped";

/// The requested tests, from the project's folder.
pub(super) fn tests(folder: &Path, options: &Options) -> Result<Vec<Test>> {
    let calls = folder.join(CALLS);
    let calls = calls.canonicalize().with_context(|| {
        format!("no Linux Test Project (docs/compatibility.md says where to get it): cannot find {}", calls.display())
    })?;
    let mut tests = Vec::new();
    for call in NAMES {
        find(&calls.join(call), call, &mut tests)?;
    }
    if tests.is_empty() {
        bail!("{} has no programs: the tests have to be built first (docs/compatibility.md says how)", calls.display());
    }
    options.choose(tests)
}

/// Runs the tests from the project's folder.
pub(super) fn run(folder: &Path, options: &Options) -> Result<()> {
    let tests = tests(folder, options)?;
    let environment = vec![("LTP_COLORIZE_OUTPUT", "0".into())];
    Suite { read, environment, known: KNOWN }.compare(&tests, options.only.is_empty())
}

/// The programs in a system call's folder.
fn find(folder: &Path, call: &str, tests: &mut Vec<Test>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let program = entry?.path();
        let metadata = program.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 && program.extension().is_none() {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push(Test { name, group: call.to_owned(), program, arguments: Vec::new() });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    tests.append(&mut found);
    Ok(())
}

/// Each case is a line with its result: `accept01.c:85: TPASS: ...`, or in the older form
/// `accept01    1  TPASS  :  ...`.
fn read(said: &str, well: bool) -> Tally {
    let mut tally = Tally::default();
    for line in said.lines() {
        match line.split([' ', ':']).find(|word| ["TPASS", "TFAIL", "TBROK", "TCONF"].contains(word)) {
            Some("TPASS") => tally.ok += 1,
            Some("TCONF") => tally.skipped += 1,
            Some(_) => tally.failed += 1,
            None => {}
        }
    }
    if !well && tally.failed + tally.skipped == 0 {
        tally.failed = 1;
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_by_how_they_ended() {
        let said = "tst_test.c:1: TINFO: TPASSes are not counted\na.c:2: TPASS: one\nb    1  TPASS  :  two\n\
            a.c:3: TFAIL: three: TPASS: or not\na.c:4: TCONF: four\n";
        assert_eq!(read(said, false), Tally { ok: 2, failed: 1, skipped: 1 });
        assert_eq!(read("nothing", false), Tally { failed: 1, ..Tally::default() });
        assert_eq!(read("", true), Tally::default());
    }
}
