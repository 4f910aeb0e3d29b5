//! The kernel: its version, BPF, and the features that lanes need.

use super::system::System;
use tickwire_service::trial::Trial;
use tickwire_show::finding::Finding;

/// The BPF programs read packets by `bpf_xdp_load_bytes`, new in 5.18.
const OLDEST: (u32, u32) = (5, 18);

/// All checks of the kernel.
pub(crate) fn check(system: &System) -> Vec<Finding> {
    vec![version(system), jit(system)]
}

/// Checks that have to try the operation.
pub(crate) fn tried(trial: &Trial) -> Vec<Finding> {
    let denied = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    let is_unknown = trial.tap.as_ref().is_err_and(denied);
    let programs = match &trial.programs {
        Ok(()) => Finding::good("BPF programs", "the kernel takes them"),
        Err(_) if is_unknown => unknown("BPF programs"),
        Err(why) => Finding::missing(
            "BPF programs",
            format!("the kernel refuses them: {why}"),
            "the service needs CAP_BPF and Linux 6.1 or newer",
        ),
    };
    let ring = match &trial.safe_ring {
        Ok(true) => Finding::good("BPF ring buffers", "they hold against a hostile program"),
        Ok(false) => Finding::missing(
            "BPF ring buffers",
            "a program that maps one can overwrite kernel memory (CVE-2024-41009)",
            "update the kernel: mended in Linux 6.10, 6.6.37, 6.1.97, 5.15.162 and 5.10.221; without it the service does not start",
        ),
        Err(_) if is_unknown => unknown("BPF ring buffers"),
        Err(why) => Finding::missing(
            "BPF ring buffers",
            format!("they cannot be tried: {why}"),
            "lanes receive by them: the service needs CAP_BPF and Linux 6.1 or newer",
        ),
    };
    let connections = match &trial.connections {
        Ok(()) => Finding::good("TCP diagnostics", "the kernel tells which connections are its own"),
        Err(why) => Finding::missing(
            "TCP diagnostics",
            format!("the kernel does not tell which connections are its own: {why}"),
            "`modprobe tcp_diag` (CONFIG_INET_DIAG): without it only UDP is accelerated",
        ),
    };
    let tap = match &trial.tap {
        Ok(()) => Finding::good("TAP devices", "lanes send by them"),
        Err(error) if denied(error) => unknown("TAP devices"),
        Err(error) => Finding::missing(
            "TAP devices",
            format!("none can be made: {error}"),
            "`modprobe tun` (CONFIG_TUN), and in a container /dev/net/tun: lanes send by them",
        ),
    };
    vec![programs, ring, tap, connections]
}

fn version(system: &System) -> Finding {
    let release = system.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (major, minor) = OLDEST;
    if version >= OLDEST {
        Finding::good("kernel", release)
    } else {
        Finding::missing("kernel", release, format!("the service needs Linux {major}.{minor} or newer"))
    }
}

fn jit(system: &System) -> Finding {
    const FILE: &str = "proc/sys/net/core/bpf_jit_enable";
    match system.number(FILE) {
        // A kernel that always compiles has no such setting.
        None if system.exists("sys/fs/bpf") => Finding::good("BPF", "available"),
        None => Finding::missing("BPF", "not in this kernel", "a kernel with CONFIG_BPF_SYSCALL is needed"),
        Some(0) => Finding::improve(
            "BPF",
            "programs are interpreted",
            "`sysctl net.core.bpf_jit_enable=1` compiles them: matters much, about a microsecond for each packet",
        ),
        Some(_) => Finding::good("BPF", "available, compiled"),
    }
}

fn unknown(check: &str) -> Finding {
    Finding::unknown(check, "only root can try it: `sudo tickwire doctor`")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, verdicts};
    use super::*;
    use tickwire_show::finding::Verdict::{Good, Improve, Missing, Unknown};

    #[test]
    fn what_was_tried_is_told_and_so_is_what_could_not_be() {
        let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let of =
            |programs, safe_ring, tap, connections| verdicts(&tried(&Trial { programs, safe_ring, tap, connections }));
        let no = || "no".to_owned();
        let absent = || Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        assert_eq!(of(Ok(()), Ok(true), Ok(()), Ok(())), [Good; 4]);
        assert_eq!(of(Ok(()), Ok(false), absent(), Ok(())), [Good, Missing, Missing, Good]);
        assert_eq!(of(Err(no()), Err(no()), Err(denied()), Ok(())), [Unknown, Unknown, Unknown, Good], "not root");
        assert_eq!(of(Err(no()), Err(no()), Ok(()), Err(no())), [Missing, Missing, Good, Missing]);
    }

    #[test]
    fn an_old_kernel_is_told_apart_from_a_new_one() {
        let new = tree(&[("proc/sys/kernel/osrelease", "6.18.4-amd64"), ("proc/sys/net/core/bpf_jit_enable", "1")]);
        assert_eq!(verdicts(&check(&System::at(new.path()))), [Good, Good]);
        let old = tree(&[("proc/sys/kernel/osrelease", "5.10.0-1"), ("proc/sys/net/core/bpf_jit_enable", "0")]);
        assert_eq!(verdicts(&check(&System::at(old.path()))), [Missing, Improve]);
    }
}
