//! CPython's own tests of sockets. Python code substitutes the addresses (`cases.py`).

use super::Options;
use super::programs::CHANCES;
use super::topology::{MIRRORED, PYTHON, Topology};
use super::tries::{Outcomes, Tries};
use crate::unpacked;
use anyhow::{Context, Result, bail};
use std::time::Duration;
use tickwire_lab::Process;

/// The modules that use sockets, except those that wait minutes for timers.
const MODULES: [&str; 13] = [
    "test_selectors",
    "test_socket",
    "test_socketserver",
    "test_httplib",
    "test_ssl",
    "test_asyncio.test_buffered_proto",
    "test_asyncio.test_events",
    "test_asyncio.test_sendfile",
    "test_asyncio.test_server",
    "test_asyncio.test_sock_lowlevel",
    "test_asyncio.test_ssl",
    "test_asyncio.test_sslproto",
    "test_asyncio.test_streams",
];

/// Tests all functions that wait, but only with socket pairs within the host, which have no lane.
const LOCAL: &str = "test_selectors";

const CASES: &str = include_str!("cases.py");
/// The timeout of a module; a case has a timeout of its own.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The requested modules.
pub(super) fn chosen(options: &Options) -> Result<Vec<&'static str>> {
    let chosen: Vec<_> = MODULES.into_iter().filter(|module| options.wants(module)).collect();
    if chosen.is_empty() {
        bail!("no module's name contains {}; there are: {}", options.only.join(" or "), MODULES.join(", "));
    }
    Ok(chosen)
}

/// Runs the modules both ways and reports each case that is worse on Tickwire.
pub(super) fn run(options: &Options) -> Result<()> {
    let chosen = chosen(options)?;
    let tests = tests()?;
    let bed = Topology::new()?;
    let mut all_worse = 0;
    println!(
        "{:34} {:>6} {:>10} {:>12} {:>6} {:>8}",
        "module", "cases", "kernel ok", "tickwire ok", "worse", "packets"
    );
    let mut again = 0;
    for module in chosen {
        let kernel = outcomes(&bed, &tests, module, false)?;
        let before = bed.packets()?;
        let ours = outcomes(&bed, &tests, module, true)?;
        let packets = bed.packets()? - before;
        let mut tries = Tries::new(kernel, ours);
        for _ in 1..CHANCES {
            if tries.wants(false) {
                tries.again(false, &outcomes(&bed, &tests, module, false)?);
            }
            if tries.wants(true) {
                tries.again(true, &outcomes(&bed, &tests, module, true)?);
            }
        }
        let worse = tries.worse();
        let [kernel, ours] = tries.ok();
        println!("{module:34} {:>6} {kernel:>10} {ours:>12} {:>6} {packets:>8}", tries.cases(), worse.len());
        for (case, how) in &worse {
            println!("    {how}: {case}");
        }
        for line in tries.later() {
            println!("    {line}");
        }
        all_worse += worse.len();
        again += tries.later().count();
        if packets == 0 && module != LOCAL {
            bail!("nothing of {module} crossed the lane");
        }
    }
    println!("{again} cases passed at a later try only");
    if all_worse > 0 {
        bail!("{all_worse} cases are worse than on the kernel");
    }
    Ok(())
}

/// The folder of the interpreter's own tests, from a Debian package that is only unpacked.
pub(super) fn tests() -> Result<String> {
    let print = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = tickwire_lab::run(&[PYTHON, "-c", print]).context("the tests are for Debian's Python")?;
    let version = version.trim();
    let package = format!("libpython{version}-testsuite");
    let inside = format!("usr/lib/python{version}/test");
    if unpacked::folder(&package, &inside).is_none() {
        unpacked::get(&package)?;
    }
    let folder = unpacked::folder(&package, &inside).with_context(|| format!("{package} has no {inside}"))?;
    Ok(folder.to_string_lossy().into_owned())
}

/// Runs a module.
fn outcomes(bed: &Topology, tests: &str, module: &str, accelerated: bool) -> Result<Outcomes> {
    let mut command = bed.command(PYTHON, accelerated)?;
    let [v4, v6] = MIRRORED;
    command.args(["-c", CASES, tests, &bed.pair.a_v4(), v4, &bed.pair.a_v6(), v6, module]);
    let mut process = Process::spawn(command)?;
    let ended = process.wait(TIMEOUT);
    let found = read(&process.stdout());
    if found.is_empty() {
        let why = ended.map_or_else(|error| format!("{error:#}"), |ended| ended.stderr);
        bail!("{module} did not run: {why}");
    }
    Ok(found)
}

/// Parses lines of the form `case ok test.test_socket.BasicTCPTest.testRecv`; the tests print
/// others, too.
fn read(printed: &str) -> Outcomes {
    let cases = printed.lines().filter_map(|line| line.strip_prefix("case ")?.split_once(' '));
    cases.map(|(how, case)| (case.to_owned(), how.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_from_among_what_a_module_prints() {
        let cases = read("case ok a\nserver: case failed b\ncase failed c d\nend\n");
        let told: Vec<_> = cases.iter().map(|(case, how)| (case.as_str(), how.as_str())).collect();
        assert_eq!(told, [("a", "ok"), ("c d", "failed")]);
    }
}
