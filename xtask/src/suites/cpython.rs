//! The tests of sockets that the interpreter CPython is tested with. What exchanges the addresses is Python itself (`cases.py`).

use super::Options;
use super::bed::{Bed, MIRRORED, PYTHON};
use super::programs::CHANCES;
use crate::unpacked;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::time::Duration;
use tickwire_lab::Process;

/// The modules that use sockets. Those that take minutes only to wait for timers are not among them.
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

/// Waits for pairs of sockets within the host only; that takes no lane, but all functions that wait.
const LOCAL: &str = "test_selectors";

const CASES: &str = include_str!("cases.py");
/// The longest that a module may take; a case has a limit of its own.
const PATIENCE: Duration = Duration::from_secs(600);

/// How each case ended: `ok`, `failed` or `skipped`. A module that was ended lacks the rest.
type Outcomes = BTreeMap<String, String>;

/// The modules that were asked for.
pub(super) fn chosen(options: &Options) -> Result<Vec<&'static str>> {
    let chosen: Vec<_> = MODULES.into_iter().filter(|module| options.wants(module)).collect();
    if chosen.is_empty() {
        bail!("no module's name contains {}; there are: {}", options.only.join(" or "), MODULES.join(", "));
    }
    Ok(chosen)
}

/// Runs the modules both ways and tells of each case that is worse on Tickwire.
pub(super) fn run(options: &Options) -> Result<()> {
    let chosen = chosen(options)?;
    let tests = tests()?;
    let bed = Bed::new()?;
    let mut all_worse = 0;
    println!(
        "{:34} {:>6} {:>10} {:>12} {:>6} {:>8}",
        "module", "cases", "kernel ok", "tickwire ok", "worse", "packets"
    );
    for module in chosen {
        let kernel = outcomes(&bed, &tests, module, false)?;
        let before = bed.packets()?;
        let mut ours = outcomes(&bed, &tests, module, true)?;
        let packets = bed.packets()? - before;
        for _ in 1..CHANCES {
            if worse(&kernel, &ours).is_empty() {
                break;
            }
            forgive(&mut ours, outcomes(&bed, &tests, module, true)?);
        }
        let ok = |outcomes: &Outcomes| outcomes.values().filter(|how| *how == "ok").count();
        let worse = worse(&kernel, &ours);
        let count = worse.len();
        println!("{module:34} {:>6} {:>10} {:>12} {count:>6} {packets:>8}", kernel.len(), ok(&kernel), ok(&ours));
        for case in worse {
            let how = ours.get(case).map_or("not run", String::as_str);
            println!("    {how}: {case}");
        }
        all_worse += count;
        if packets == 0 && module != LOCAL {
            bail!("nothing of {module} crossed the lane");
        }
    }
    if all_worse > 0 {
        bail!("{all_worse} cases are worse than on the kernel");
    }
    Ok(())
}

/// The folder of the interpreter's own tests, which Debian has in a package of their own. It is unpacked only.
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
fn outcomes(bed: &Bed, tests: &str, module: &str, accelerated: bool) -> Result<Outcomes> {
    let mut command = bed.command(PYTHON, accelerated)?;
    let [v4, v6] = MIRRORED;
    command.args(["-c", CASES, tests, &bed.pair.a_v4(), v4, &bed.pair.a_v6(), v6, module]);
    let mut process = Process::spawn(command)?;
    let ended = process.wait(PATIENCE);
    let found = read(&process.stdout());
    if found.is_empty() {
        let why = ended.map_or_else(|error| format!("{error:#}"), |ended| ended.stderr);
        bail!("{module} did not run: {why}");
    }
    Ok(found)
}

/// Lines of the form `case ok test.test_socket.BasicTCPTest.testRecv`, among others of the tests' own.
fn read(printed: &str) -> Outcomes {
    let cases = printed.lines().filter_map(|line| line.strip_prefix("case ")?.split_once(' '));
    cases.map(|(how, case)| (case.to_owned(), how.to_owned())).collect()
}

/// What goes well at another try goes well: some cases want what they have sent to be there at once, as on the loopback's device.
fn forgive(ours: &mut Outcomes, again: Outcomes) {
    for (case, how) in again {
        if how == "ok" {
            ours.insert(case, how);
        }
    }
}

/// The cases that went well on the kernel only.
fn worse<'a>(kernel: &'a Outcomes, ours: &Outcomes) -> Vec<&'a str> {
    let ok = kernel.iter().filter(|(_, how)| *how == "ok").map(|(case, _)| case.as_str());
    ok.filter(|case| ours.get(*case).is_none_or(|how| how != "ok")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worse_is_told_from_what_is_not() {
        let kernel =
            read("case ok a\nserver: case failed b\ncase ok b\ncase failed c\ncase skipped d\ncase ok e\nend\n");
        let ours = read("case ok a\ncase failed b\ncase failed c\ncase ok d\n");
        assert_eq!(worse(&kernel, &ours), ["b", "e"]);
        assert!(worse(&kernel, &kernel).is_empty());
        let mut ours = ours;
        forgive(&mut ours, read("case failed a\ncase failed b\ncase ok e\n"));
        assert_eq!(worse(&kernel, &ours), ["b"]);
    }
}
