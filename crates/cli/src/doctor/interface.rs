//! The network cards: how divert can be attached, and their interrupt coalescing.

use super::system::System;
use std::process::Command;
use tickwire_show::finding::Finding;

/// Drivers in Linux with native XDP.
const NATIVE: [&str; 34] = [
    "atlantic",
    "bnxt_en",
    "dpaa2-eth",
    "dpaa_eth",
    "ena",
    "fec",
    "fsl_enetc",
    "funeth",
    "gve",
    "hv_netvsc",
    "i40e",
    "iavf",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "ixgbevf",
    "mana",
    "mlx4_en",
    "mlx5_core",
    "mtk_soc_eth",
    "mvneta",
    "mvpp2",
    "nfp",
    "nicvf",
    "qede",
    "sfc",
    "sfc-siena",
    "st_gmac",
    "stmmaceth",
    "tsnep",
    "virtio_net",
    "vmxnet3",
    "xennet",
];

/// Interrupt coalescing for longer than this, in microseconds, is reported.
const LONG_US: u32 = 5;

/// The interfaces to check: those named, or all physical ones and those that the service
/// accelerates.
pub(crate) fn chosen(system: &System, named: &[String], accelerated: &[String]) -> Vec<String> {
    if !named.is_empty() {
        return named.to_vec();
    }
    let all = system.names("sys/class/net");
    let physical = |name: &String| system.exists(&format!("sys/class/net/{name}/device"));
    all.into_iter().filter(|name| physical(name) || accelerated.contains(name)).collect()
}

/// All checks of one interface.
pub(crate) fn check(system: &System, name: &str) -> Vec<Finding> {
    if !system.exists(&format!("sys/class/net/{name}")) {
        return vec![Finding::missing(name, "no such interface", "see `ip link`")];
    }
    // IFF_LOOPBACK, which the service checks, too.
    let flags = system.read(&format!("sys/class/net/{name}/flags")).unwrap_or_default();
    if flags.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok()).is_some_and(|flags| flags & 8 != 0) {
        let advice = "name a network interface (see `ip link`): the service refuses this one";
        return vec![Finding::missing(name, "the loopback: what stays inside this host is the kernel's", advice)];
    }
    let mut findings = vec![mode(system, name), state(system, name)];
    findings.extend(coalescing(name));
    findings
}

fn mode(system: &System, name: &str) -> Finding {
    let check = format!("{name} XDP");
    let Some(driver) = system.link(&format!("sys/class/net/{name}/device/driver")) else {
        return Finding::good(check, "a virtual device; the service chooses the mode that disturbs others least");
    };
    if NATIVE.contains(&driver.as_str()) {
        return Finding::good(check, format!("driver {driver} runs XDP programs natively"));
    }
    Finding::improve(
        check,
        format!("driver {driver} is not known to run XDP programs"),
        "the generic mode serves, at about a microsecond a packet more: matters little; a card of another kind would avoid it",
    )
}

fn state(system: &System, name: &str) -> Finding {
    let check = format!("{name} link");
    let state = system.read(&format!("sys/class/net/{name}/operstate")).unwrap_or_default();
    // The state of some virtual devices is always `unknown`.
    if state == "up" || state == "unknown" {
        let mtu = system.number(&format!("sys/class/net/{name}/mtu")).unwrap_or(0);
        return Finding::good(check, format!("{state}, MTU {mtu}"));
    }
    Finding::improve(check, state, format!("`ip link set {name} up`, and a cable"))
}

/// None if the device has no such setting.
fn coalescing(name: &str) -> Option<Finding> {
    let check = format!("{name} coalescing");
    match Command::new("ethtool").args(["-c", name]).output() {
        Err(_) => Some(Finding::improve(check, "not known", "install ethtool to see it")),
        Ok(output) => coalescing_of(name, &String::from_utf8_lossy(&output.stdout)),
    }
}

fn coalescing_of(name: &str, printed: &str) -> Option<Finding> {
    let value =
        |key: &str| printed.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':').map(str::trim));
    let usecs: u32 = value("rx-usecs")?.parse().ok()?;
    // A line like `Adaptive RX: on  TX: off`.
    let adaptive = value("Adaptive RX").is_some_and(|v| v.starts_with("on"));
    let check = format!("{name} coalescing");
    let found =
        if adaptive { "adaptive".to_owned() } else { format!("packets wait up to {usecs} us for an interrupt") };
    if !adaptive && usecs <= LONG_US {
        return Some(Finding::good(check, found));
    }
    let advice =
        format!("`ethtool -C {name} adaptive-rx off rx-usecs 0`: matters much, it is part of every round trip");
    Some(Finding::improve(check, found, advice))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, verdicts};
    use super::*;
    use tickwire_show::finding::Verdict::{Good, Improve, Missing};

    #[test]
    fn coalescing_is_read_from_ethtool() {
        let printed = |adaptive, usecs| {
            format!("Coalesce parameters for eth0:\nAdaptive RX: {adaptive}  TX: n/a\nrx-usecs:\t{usecs}\n")
        };
        assert_eq!(coalescing_of("eth0", &printed("off", 0)).unwrap().verdict, Good);
        assert_eq!(coalescing_of("eth0", &printed("off", 50)).unwrap().verdict, Improve);
        assert_eq!(coalescing_of("eth0", &printed("on", 0)).unwrap().verdict, Improve);
        assert!(coalescing_of("eth0", "rx-usecs: n/a").is_none());
        assert!(coalescing_of("eth0", "").is_none());
    }

    #[test]
    fn the_driver_decides_the_mode_and_a_missing_interface_is_said() {
        let root = tree(&[
            ("sys/class/net/eth0/operstate", "up"),
            ("sys/class/net/eth0/mtu", "1500"),
            ("sys/class/net/eth0/device/x", ""),
            ("sys/class/net/veth1/operstate", "down"),
            ("sys/class/net/lo/operstate", "unknown"),
            ("sys/class/net/lo/flags", "0x9"),
        ]);
        let system = System::at(root.path());
        std::os::unix::fs::symlink("../../drivers/ixgbe", root.path().join("sys/class/net/eth0/device/driver"))
            .unwrap();
        assert_eq!(chosen(&system, &[], &[]), ["eth0"]);
        assert_eq!(chosen(&system, &[], &["veth1".into()]), ["eth0", "veth1"]);
        assert_eq!(chosen(&system, &["eth9".into()], &["veth1".into()]), ["eth9"]);
        assert_eq!(verdicts(&[mode(&system, "eth0"), state(&system, "eth0")]), [Good, Good]);
        assert_eq!(state(&system, "veth1").verdict, Improve);
        assert_eq!(verdicts(&check(&system, "eth9")), [Missing]);
        assert_eq!(verdicts(&check(&system, "lo")), [Missing], "as the service says");
        let old = tree(&[("sys/class/net/eth0/device/x", "")]);
        std::os::unix::fs::symlink("../../drivers/e1000", old.path().join("sys/class/net/eth0/device/driver")).unwrap();
        assert_eq!(mode(&System::at(old.path()), "eth0").verdict, Improve);
    }
}
