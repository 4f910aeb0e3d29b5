//! The Debian packages that tasks need, and their installation.
//!
//! On most Debian machines, installing a server package starts that server. Here it must not: while
//! apt-get runs, a `policy-rc.d` forbids it. Afterwards the package's units are disabled, so that
//! the next boot does not start them either.

use crate::unpacked;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use tickwire_lab::tools::installed;

/// A program (or a file) that is needed, the Debian package with it, and the package's service
/// units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    what: &'static str,
    package: &'static str,
    units: &'static [&'static str],
    /// The package is unpacked, and only its dependencies are installed.
    unpacked: bool,
}

impl Need {
    /// The Debian package.
    pub(crate) fn package(&self) -> &'static str {
        self.package
    }

    /// Whether it is installed.
    pub(crate) fn is_there(&self) -> bool {
        let is_file = self.what.starts_with('/') && Path::new(self.what).exists();
        is_file || installed(self.what) || self.unpacked && unpacked::has(self.package, self.what)
    }
}

const fn tool(what: &'static str, package: &'static str) -> Need {
    Need { what, package, units: &[], unpacked: false }
}

const fn server(what: &'static str, package: &'static str, units: &'static [&'static str]) -> Need {
    Need { what, package, units, unpacked: false }
}

const fn time_daemon(what: &'static str, package: &'static str) -> Need {
    Need { what, package, units: &[], unpacked: true }
}

/// Needed to build the BPF programs.
const CLANG: Need = tool("clang", "clang");
/// Needed to link.
const CC: Need = tool("cc", "gcc");
/// Needed by the lab.
const IP: Need = tool("ip", "iproute2");
const ETHTOOL: Need = tool("ethtool", "ethtool");
const TASKSET: Need = tool("taskset", "util-linux");
/// Shows that reading a clock makes no system call, and injects errors into the system calls of a
/// handover.
const STRACE: Need = tool("strace", "strace");
/// Programs that the demo and the lab tests run.
const PING: Need = tool("ping", "iputils-ping");
const SOCKPERF: Need = tool("sockperf", "sockperf");
const IPERF: Need = tool("iperf3", "iperf3");
pub(crate) const CURL: Need = tool("curl", "curl");
const PYTHON: Need = tool("python3", "python3");
pub(crate) const NGINX: Need = server("nginx", "nginx", &["nginx.service"]);
pub(crate) const REDIS: Need = server("redis-server", "redis-server", &["redis-server.service"]);
pub(crate) const REDIS_TOOLS: Need = tool("redis-benchmark", "redis-tools");

/// Programs that only the lab tests run.
const WGET: Need = tool("wget", "wget");
const MEMCACHED: Need = server("memcached", "memcached", &["memcached.service"]);
pub(crate) const MOSQUITTO: Need = server("mosquitto", "mosquitto", &["mosquitto.service"]);
pub(crate) const MOSQUITTO_CLIENTS: Need = tool("mosquitto_pub", "mosquitto-clients");
const ZEROMQ: Need = tool("/usr/lib/python3/dist-packages/zmq/__init__.py", "python3-zmq");
/// It includes the Java compiler, for programs of one file.
const JAVA: Need = tool("java", "default-jre-headless");
pub(crate) const NODE: Need = tool("node", "nodejs");

/// Opens the testbed's report.
const CHROMIUM: Need = tool("chromium", "chromium");
/// The testbed reaches other machines by it.
const SSH: Need = tool("ssh", "openssh-client");
const SSHD: Need = server("sshd", "openssh-server", &["ssh.service", "ssh.socket"]);

/// Counts instructions.
const VALGRIND: Need = tool("valgrind", "valgrind");

/// Clock daemons to compare ours with; they steer the kernel's clock. In the tests chronyd is also
/// a client of our server.
pub(crate) const NTPSEC: Need = time_daemon("ntpd", "ntpsec");
pub(crate) const CHRONY: Need = time_daemon("chronyd", "chrony");

/// Needed to build libFuzzer.
pub(crate) const CXX: Need = tool("c++", "g++");

/// Programs and libraries for the benchmark of programs only.
pub(crate) const WRK: Need = tool("wrk", "wrk");
pub(crate) const IPERF2: Need = tool("iperf", "iperf");
/// Its package creates a database cluster, which is not started here.
pub(crate) const POSTGRES: Need = server("pgbench", "postgresql", &["postgresql.service"]);
pub(crate) const CYCLONE_DDS: Need = tool("ddsperf", "cyclonedds-tools");
pub(crate) const LIBMODBUS: Need = tool("/usr/include/modbus/modbus.h", "libmodbus-dev");
pub(crate) const LIBZMQ: Need = tool("/usr/include/zmq.h", "libzmq3-dev");
pub(crate) const LIBMOSQUITTO: Need = tool("/usr/include/mosquitto.h", "libmosquitto-dev");
pub(crate) const BOOST: Need = tool("/usr/include/boost/asio.hpp", "libboost-dev");
pub(crate) const MONO: Need = tool("mono", "mono-runtime");
pub(crate) const MCS: Need = tool("mcs", "mono-mcs");
pub(crate) const JAVAC: Need = tool("javac", "default-jdk-headless");
pub(crate) const MAVEN: Need = tool("mvn", "maven");
pub(crate) const NPM: Need = tool("npm", "npm");
/// The package has no other file of its own.
pub(crate) const PYTHON_VENV: Need = tool("/var/lib/dpkg/info/python3-venv.list", "python3-venv");

/// What the lab, and building the programs that are measured in it, need.
pub(crate) const LAB: [Need; 5] = [CLANG, CC, IP, ETHTOOL, TASKSET];

/// What fuzzing needs in addition to Rust.
pub(crate) const FUZZING: [Need; 3] = [CLANG, CC, CXX];

/// What measuring clocks needs.
pub(crate) const CLOCKS: [Need; 6] = [CLANG, CC, IP, ETHTOOL, PING, STRACE];

/// What `bench scale` needs in addition to [`EVERYTHING`].
pub(crate) const SCALE: [Need; 1] = [VALGRIND];

/// What tests need in addition to [`EVERYTHING`].
pub(crate) const TESTS: [Need; 11] =
    [CHROMIUM, SSH, SSHD, WGET, MEMCACHED, MOSQUITTO, MOSQUITTO_CLIENTS, ZEROMQ, JAVA, NODE, STRACE];

/// Builds Windows programs of others.
pub(crate) const MAKE: Need = tool("make", "make");
pub(crate) const CMAKE: Need = tool("cmake", "cmake");
pub(crate) const CROSS_CXX: Need = tool("x86_64-w64-mingw32-g++", "g++-mingw-w64-x86-64-win32");

/// What building for Windows needs, and running the result.
///
/// The preloader keeps addresses free that Wine needs. Without it one program in a thousand does
/// not start, and says nothing if Wine's messages are off.
pub(crate) const WINDOWS: [Need; 3] = [
    tool("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64-win32"),
    tool("/usr/lib/wine/wine64", "wine64"),
    tool("/usr/lib/wine/wine64-preloader", "wine64-preloader"),
];

/// What running Windows programs in the lab needs in addition to [`WINDOWS`]: among others
/// Winelib's compiler, for the lab card and the driver's stand-in, and the tools by which these
/// keep packets from the kernel.
pub(crate) const WINDOWS_LAB: [Need; 7] = [
    CC,
    IP,
    ETHTOOL,
    PYTHON,
    tool("/usr/lib/wine/winegcc", "wine64-tools"),
    tool("nft", "nftables"),
    tool("iptables", "iptables"),
];

/// What packing the zip for Windows needs in addition to [`WINDOWS`].
pub(crate) const WINDOWS_PACKAGE: [Need; 1] = [PYTHON];

/// What builds, tests and demo need together.
pub(crate) const EVERYTHING: [Need; 14] =
    [CLANG, CC, IP, ETHTOOL, TASKSET, PING, SOCKPERF, IPERF, CURL, PYTHON, NGINX, REDIS, REDIS_TOOLS, CHRONY];

/// Installs the missing packages of `needs`; the error names exactly what to install.
pub(crate) fn install(needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.is_there()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|n| n.package).collect();
    let what: Vec<&str> = missing.iter().map(|n| n.what).collect();
    let by_hand = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    eprintln!("missing: {} (Debian packages: {})", what.join(", "), packages.join(" "));
    if !installed("apt-get") {
        bail!("this machine has no apt-get: install {} by its own means, then try again", what.join(", "));
    }
    let root = tickwire_lab::is_root();
    if !root && !installed("sudo") {
        bail!("installing needs root; as root run: {by_hand}");
    }
    for need in missing.iter().filter(|need| need.unpacked) {
        let package = need.package;
        eprintln!(
            "of {package} only what it needs is installed; it is itself unpacked beside the build, and replaces no other"
        );
    }
    let whole: Vec<&str> = missing.iter().filter(|need| !need.unpacked).map(|need| need.package).collect();
    if !whole.is_empty() {
        eprintln!("installing: {} (apt-get)", whole.join(" "));
    }
    // One shell script, so that the policy file is removed however apt-get ends, and sudo asks
    // once.
    let script = script(&missing);
    let mut command = if root { Command::new("sh") } else { Command::new("sudo") };
    if !root {
        command.arg("sh");
    }
    crate::workspace::run(command.args(["-c", &script])).with_context(|| format!("as root run: {by_hand}"))?;
    missing.iter().filter(|need| need.unpacked).try_for_each(|need| unpacked::get(need.package))?;
    match missing.iter().find(|need| !need.is_there()) {
        Some(need) => bail!("package {} is there, but {} is still not found", need.package, need.what),
        None => Ok(()),
    }
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

fn script(needs: &[&Need]) -> String {
    let mut script = String::from("set -e\nexport DEBIAN_FRONTEND=noninteractive\n");
    if !Path::new(POLICY).exists() {
        script += &format!(
            "trap 'rm -f {POLICY}' EXIT INT TERM\nprintf '#!/bin/sh\\nexit 101\\n' > {POLICY}\nchmod 755 {POLICY}\n"
        );
    }
    script += "apt-get update -q\n";
    let package = |need: &&Need| match need.unpacked {
        false => need.package.to_owned(),
        true => format!("$(apt-cache depends {} | sed -n 's/^ *Depends: \\([a-z0-9.+-]*\\)$/\\1/p')", need.package),
    };
    let packages: Vec<_> = needs.iter().map(package).collect();
    script += &format!("apt-get install -q -y --no-install-recommends {}\n", packages.join(" "));
    for unit in needs.iter().flat_map(|need| need.units) {
        script += &format!("if command -v systemctl >/dev/null; then systemctl --quiet disable {unit} || true; fi\n");
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's own helper refuses any caller but dpkg.
    #[test]
    fn units_are_disabled_by_a_command_that_any_caller_may_run() {
        let script = script(&[&NGINX]);
        assert!(script.contains("systemctl --quiet disable nginx.service"), "{script}");
        assert!(!script.contains("deb-systemd-helper"), "{script}");
    }
}
