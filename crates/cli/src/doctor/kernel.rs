//! The kernel: its version, BPF and AF_XDP.

use super::finding::Finding;
use super::system::System;

/// The service tells network namespaces apart by SO_NETNS_COOKIE, new in 5.14.
const OLDEST: (u32, u32) = (5, 14);

/// All checks of the kernel.
pub(crate) fn check(system: &System) -> Vec<Finding> {
    vec![version(system), af_xdp(system), jit(system)]
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
    use super::super::finding::Verdict::{Good, Improve, Missing};
    use super::super::tests::{tree, verdicts};
    use super::*;

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
