//! The kernel: its version, BPF and AF_XDP.

use super::finding::Finding;
use super::system::System;
use tickwire_service::trial::Trial;

/// The BPF programs read packets by `bpf_xdp_load_bytes`, new in 5.18.
const OLDEST: (u32, u32) = (5, 18);

/// All checks of the kernel.
pub(crate) fn check(system: &System) -> Vec<Finding> {
    vec![version(system), af_xdp(system), jit(system)]
}

/// What can only be found out by trying.
pub(crate) fn tried(trial: &Trial) -> Vec<Finding> {
    let denied = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    let programs = match (&trial.programs, &trial.long_frames) {
        (Ok(()), _) => Finding::good("BPF programs", "the kernel takes them"),
        (Err(_), Err(error)) if denied(error) => Finding::unknown("BPF programs"),
        (Err(why), _) => Finding::missing(
            "BPF programs",
            format!("the kernel refuses them: {why}"),
            "the service needs CAP_BPF and Linux 6.1 or newer",
        ),
    };
    let ability =
        |check, tried: &std::io::Result<bool>, has, (lacks, advice), (broken, remedy): (&str, &str)| match tried {
            Ok(true) => Finding::good(check, has),
            Ok(false) => Finding::improve(check, lacks, advice),
            Err(error) if denied(error) => Finding::unknown(check),
            Err(error) => Finding::missing(check, format!("{broken}: {error}"), remedy),
        };
    let long = ability(
        "jumbo frames",
        &trial.long_frames,
        "the kernel hands them to lanes",
        (
            "the kernel hands none to lanes",
            "Linux 6.6 does: matters only for interfaces with an MTU above 1778, which stay with the kernel here",
        ),
        ("no AF_XDP socket can be made", "a kernel with CONFIG_XDP_SOCKETS is needed: without it there are no lanes"),
    );
    let exec = ability(
        "sockets over exec",
        &trial.bound_rings,
        "the kernel lets a new program map a lane's rings",
        (
            "the kernel lets nobody map a lane's rings again",
            "Linux 6.4 does: matters only for programs that leave open sockets to a program they exec; here these are reset",
        ),
        ("a lane's rings cannot be made", "lanes need it: raise RLIMIT_MEMLOCK, or see the kernel's log"),
    );
    let connections = match &trial.connections {
        Ok(()) => Finding::good("TCP diagnostics", "the kernel tells which connections are its own"),
        Err(why) => Finding::missing(
            "TCP diagnostics",
            format!("the kernel does not tell which connections are its own: {why}"),
            "`modprobe tcp_diag` (CONFIG_INET_DIAG): without it only UDP is accelerated",
        ),
    };
    let bulk = match &trial.bulk {
        Ok(()) => Finding::good("TAP devices", "streams leave in trains of segments"),
        Err(error) if denied(error) => Finding::unknown("TAP devices"),
        Err(error) => Finding::improve(
            "TAP devices",
            format!("none can be made, so streams leave packet by packet: {error}"),
            "`modprobe tun` (CONFIG_TUN), and in a container /dev/net/tun: matters for long streams, two fifths of their rate",
        ),
    };
    vec![programs, long, exec, bulk, connections]
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

fn af_xdp(system: &System) -> Finding {
    let protocols = system.read("proc/net/protocols").unwrap_or_default();
    let there = protocols.lines().any(|line| line.split_whitespace().next() == Some("XDP"));
    if there {
        Finding::good("AF_XDP", "available")
    } else {
        Finding::missing(
            "AF_XDP",
            "not in this kernel",
            "a kernel with CONFIG_XDP_SOCKETS is needed: without it there are no lanes",
        )
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

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Good, Improve, Missing, Unknown};
    use super::super::tests::{tree, verdicts};
    use super::*;

    #[test]
    fn what_was_tried_is_told_and_so_is_what_could_not_be() {
        let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let of = |programs, long_frames, bound_rings, bulk, connections| {
            verdicts(&tried(&Trial { programs, long_frames, bound_rings, bulk, connections }))
        };
        let no = || Err("no".to_owned());
        let absent = || Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        assert_eq!(of(Ok(()), Ok(true), Ok(true), Ok(()), Ok(())), [Good; 5]);
        assert_eq!(of(Ok(()), Ok(false), Ok(false), absent(), Ok(())), [Good, Improve, Improve, Improve, Good]);
        let refused = of(no(), Err(denied()), Err(denied()), Err(denied()), Ok(()));
        assert_eq!(refused, [Unknown, Unknown, Unknown, Unknown, Good], "not root");
        assert_eq!(of(no(), Ok(true), Ok(true), Ok(()), no()), [Missing, Good, Good, Good, Missing]);
    }

    #[test]
    fn an_old_kernel_without_af_xdp_is_told_apart_from_a_new_one() {
        let new = tree(&[
            ("proc/sys/kernel/osrelease", "6.18.4-amd64"),
            ("proc/net/protocols", "protocol size\nXDP  960  0 -1"),
            ("proc/sys/net/core/bpf_jit_enable", "1"),
        ]);
        assert_eq!(verdicts(&check(&System::at(new.path()))), [Good, Good, Good]);
        let old = tree(&[
            ("proc/sys/kernel/osrelease", "5.10.0-1"),
            ("proc/net/protocols", "protocol size"),
            ("proc/sys/net/core/bpf_jit_enable", "0"),
        ]);
        assert_eq!(verdicts(&check(&System::at(old.path()))), [Missing, Missing, Improve]);
    }
}
