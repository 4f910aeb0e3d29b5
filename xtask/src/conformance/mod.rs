//! `cargo xtask conformance`: runs packetdrill's scripts on the stack and writes the table of
//! `docs/conformance.md`.
//!
//! packetdrill is not part of this project and its tests do not need it: an option names its
//! directory. Each script gets a network namespace of its own, because scripts set kernel
//! parameters. The stack reads those that concern it in this namespace.

mod push;

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where packetdrill is.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The folder of packetdrill: its program, built, and its scripts are looked for in there
    #[arg(long, value_name = "DIR")]
    packetdrill: PathBuf,

    /// Only scripts whose path contains this; the table is not written then
    only: Option<String>,
}

/// Where the program and the scripts are in packetdrill's folder.
const NET: &str = "gtests/net";
const PROGRAM: &str = "packetdrill/packetdrill";
/// Scripts that are not run: the security protocol PSP needs a network card with PSP support.
/// docs/conformance.md says so.
const EXCLUDED: &str = "psp/";
const TABLE: [&str; 2] = ["<!-- table: begin -->\n", "<!-- table: end -->\n"];

/// Makes the interface that the scripts' commands expect, in a namespace that ends with the script.
const NAMESPACE: &str = "ip link add tun0 type veth peer name tun1 && ip address add 192.168.0.1/16 dev tun0 && \
    ip address add fd3d:0a0b:17d6::1/64 dev tun0 nodad && ip link set tun0 up && ip link set tun1 up && exec \"$@\"";
/// The timeout of a script, in seconds.
const LONGEST: &str = "30";

/// One way to run a script.
struct Variant {
    name: &'static str,
    arguments: &'static [&'static str],
    flags: &'static str,
    /// Scripts with such names are not run in this way.
    not_for: &'static str,
}

const V4: &[&str] = &[
    "--local_ip=192.168.0.1",
    "--gateway_ip=192.168.0.1",
    "--netmask_ip=255.255.0.0",
    "--remote_ip=192.0.2.1",
    "-DTFO_COOKIE=3021b9d889017eeb",
    "-DCODE=host_unreachable",
];
const V6: &[&str] = &[
    "--mtu=1520",
    "--local_ip=fd3d:0a0b:17d6::1",
    "--gateway_ip=fd3d:0a0b:17d6:8888::1",
    "--remote_ip=fd3d:fa7b:d17d::1",
    "-DTFO_COOKIE=c1d1e9742a47a9bc",
];

const VARIANTS: [Variant; 3] = [
    Variant { name: "ipv4", arguments: V4, flags: "mtu=1500", not_for: "v6.pkt" },
    Variant { name: "ipv4-mapped-ipv6", arguments: V4, flags: "mtu=1500", not_for: "v6.pkt" },
    Variant { name: "ipv6", arguments: V6, flags: "mtu=1520,local=fd3d:0a0b:17d6::1", not_for: "v4.pkt" },
];

/// The reasons why scripts fail, by the prefix of their path: the longest match counts. Other
/// scripts are open.
const KNOWN: &[(&str, &str)] = &include!("known.rs");

/// Runs the scripts.
pub(crate) fn run(options: &Options) -> Result<()> {
    let net = options.packetdrill.join(NET);
    let net = net.canonicalize().with_context(|| {
        format!("no packetdrill (docs/conformance.md says where to get it): cannot find {}", net.display())
    })?;
    let program = net.join(PROGRAM);
    if !program.is_file() {
        bail!("{} is not there: packetdrill has to be built first (docs/conformance.md says how)", program.display());
    }
    workspace::run(workspace::cargo().args(["build", "--package", "tickwire-packetdrill"]))?;
    let library = workspace::target()?.join("debug/libtickwire_packetdrill.so");
    let copies = workspace::target()?.join("tmp/conformance");
    let runner = Runner { net: net.clone(), program, library, copies };
    let mut scripts = Vec::new();
    find(&net, &net, &mut scripts)?;
    scripts.retain(|s| !s.starts_with(EXCLUDED) && options.only.as_ref().is_none_or(|only| s.contains(only)));
    scripts.sort();
    let mut results = BTreeMap::new();
    for script in &scripts {
        for variant in VARIANTS.iter().filter(|v| !script.ends_with(v.not_for)) {
            let outcome = runner.run(script, variant)?;
            println!("{:<17} {script}: {outcome}", variant.name);
            results.entry(script.as_str()).or_insert_with(Vec::new).push((variant.name, outcome));
        }
    }
    let table = table(&results);
    println!("\n{}", table.lines().next().unwrap_or_default());
    if options.only.is_none() {
        write(&workspace::root().join("docs/conformance.md"), &table)?;
    }
    let open = open(&results);
    if !open.is_empty() {
        bail!("no reason is known yet why these fail: {}", open.join(", "));
    }
    Ok(())
}

fn find(top: &Path, folder: &Path, scripts: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            find(top, &path, scripts)?;
        } else if path.extension().is_some_and(|e| e == "pkt") {
            scripts.push(path.strip_prefix(top)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Pass,
    /// It passes if PSH is ignored.
    PushAside,
    /// The error of packetdrill.
    Fail(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::PushAside => f.write_str(PUSH_ASIDE),
            Self::Fail(said) => f.write_str(said),
        }
    }
}

/// Runs scripts: the paths of scripts, program, library and copies.
struct Runner {
    net: PathBuf,
    program: PathBuf,
    library: PathBuf,
    /// The directory for copies of scripts without PSH.
    copies: PathBuf,
}

impl Runner {
    /// Runs one script unchanged and, if it fails, again without PSH.
    fn run(&self, script: &str, variant: &Variant) -> Result<Outcome> {
        let Some(_) = self.once(&self.net.join(script), script, variant, variant.flags.into())? else {
            return Ok(Outcome::Pass);
        };
        let copy = push::copy_without(&self.net, script, &self.copies)?;
        let failure = self.once(&copy, script, variant, format!("{},push=hidden", variant.flags))?;
        Ok(failure.map_or(Outcome::PushAside, Outcome::Fail))
    }

    /// Runs the file of a script once; returns the error if it fails.
    fn once(&self, path: &Path, script: &str, variant: &Variant, flags: String) -> Result<Option<String>> {
        let family = if variant.name == "ipv4" { ["SOL_IP", "IP_RECVERR"] } else { ["SOL_IPV6", "IPV6_RECVERR"] };
        let mut unshare = Command::new("unshare");
        if !tickwire_lab::is_root() {
            unshare.arg("--map-root-user");
        }
        let output = unshare
            .args(["--net", "timeout", "--kill-after=2", LONGEST, "sh", "-c", NAMESPACE, "sh", "env"])
            .arg(format!("LD_PRELOAD={}", self.library.display()))
            .arg(&self.program)
            .args([format!("--ip_version={}", variant.name), format!("--so_filename={}", self.library.display())])
            .args([format!("--so_flags={flags}"), "--send_omit_free".into()])
            .args([format!("-DCMSG_LEVEL_IP={}", family[0]), format!("-DCMSG_TYPE_RECVERR={}", family[1])])
            .args(variant.arguments)
            .arg(path)
            .current_dir(self.net.join(script).parent().context("a script lies in a folder")?)
            .stdin(Stdio::null())
            .output()
            .context("cannot run unshare (of util-linux)")?;
        if output.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said =
            said.lines().find(|line| line.contains(script) || line.contains("Assert")).unwrap_or("no reason given");
        Ok(Some(said.rsplit(".pkt:").next().unwrap_or(said).to_owned()))
    }
}

fn why(script: &str) -> &'static str {
    let fitting = KNOWN.iter().filter(|(begins, _)| script.starts_with(begins));
    fitting.max_by_key(|(begins, _)| begins.len()).map_or(OPEN, |(_, why)| why)
}

/// The scripts that fail for no known reason.
fn open<'a>(results: &BTreeMap<&'a str, Vec<(&str, Outcome)>>) -> Vec<&'a str> {
    let fails = |runs: &Vec<(&str, Outcome)>| runs.iter().any(|(_, outcome)| matches!(outcome, Outcome::Fail(_)));
    results.iter().filter(|(script, runs)| fails(runs) && why(script) == OPEN).map(|(script, _)| *script).collect()
}

/// The line of the script at which it fails, from the beginning of packetdrill's error; none if
/// that has no line.
fn line(said: &str) -> Option<u32> {
    said.split_once(':')?.0.trim().parse().ok()
}

/// The table's entry for a script that fails for an unknown reason.
const OPEN: &str = "open";

/// The table's entry for a script that passes if PSH is ignored.
const PUSH_ASIDE: &str = "pass, PSH aside";

/// The table, preceded by the sums of runs and of scripts.
fn table(results: &BTreeMap<&str, Vec<(&str, Outcome)>>) -> String {
    let count = |f: fn(&Outcome) -> bool| results.values().flatten().filter(|(_, outcome)| f(outcome)).count();
    let (passed, aside) = (count(|o| *o == Outcome::Pass), count(|o| *o == Outcome::PushAside));
    let all = count(|_| true);
    let mut rows = String::new();
    let mut scripts = BTreeMap::<_, u32>::new();
    for (script, runs) in results {
        let (suite, name) = script.rsplit_once('/').unwrap_or(("", script));
        let failed: Vec<_> =
            runs.iter().filter(|(_, o)| matches!(o, Outcome::Fail(_))).map(|(variant, _)| *variant).collect();
        let said = match failed.len() {
            0 if runs.iter().all(|(_, outcome)| *outcome == Outcome::Pass) => "pass",
            0 => PUSH_ASIDE,
            _ => why(script),
        };
        let kind = said.split_once(':').map_or(said, |(kind, _)| kind);
        *scripts.entry(kind).or_default() += 1;
        let result = match failed.len() {
            n if n == 0 || n == runs.len() => said.to_owned(),
            _ => format!("{} (passes otherwise): {said}", failed.join(", ")),
        };
        // With the lines, a change that makes a script fail at another line also changes the table.
        let lines: BTreeSet<u32> = runs
            .iter()
            .filter_map(|(_, outcome)| if let Outcome::Fail(said) = outcome { line(said) } else { None })
            .collect();
        let lines = lines.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(rows, "| {suite} | {} | {result} | {lines} |", name.trim_end_matches(".pkt"));
    }
    let kinds = scripts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join("; ");
    let count = results.len();
    format!(
        "Of {all} runs of {count} scripts {passed} pass, and {aside} more PSH aside.\nBy script: {kinds}.\n\n\
         | suite | script | result | line |\n|---|---|---|---|\n{rows}"
    )
}

/// Replaces the table in the page.
fn write(page: &Path, table: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let parts = text.split_once(TABLE[0]).and_then(|(head, rest)| Some((head, rest.split_once(TABLE[1])?.1)));
    let (head, tail) = parts.with_context(|| format!("{} has no place for a table", page.display()))?;
    fs::write(page, format!("{head}{}{table}{}{tail}", TABLE[0], TABLE[1]))
        .with_context(|| format!("cannot write {}", page.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_sums_up_and_names_what_fails_on_some_variants_only() {
        let runs = |outcome: [Outcome; 3]| VARIANTS.iter().map(|v| v.name).zip(outcome).collect();
        let fail = |line: u32| Outcome::Fail(format!("{line}: error handling packet: live packet field"));
        let results = BTreeMap::from([
            ("tcp/a/good.pkt", runs([Outcome::Pass, Outcome::Pass, Outcome::Pass])),
            ("tcp/a/partly.pkt", runs([Outcome::Pass, Outcome::Pass, fail(7)])),
            ("tcp/a/pushed.pkt", runs([Outcome::Pass, Outcome::PushAside, Outcome::PushAside])),
            ("tcp/unheard-of/bad.pkt", runs([fail(9), fail(12), fail(9)])),
        ]);
        let table = super::table(&results);
        let sums =
            "Of 12 runs of 4 scripts 6 pass, and 2 more PSH aside.\nBy script: open 2; pass 1; pass, PSH aside 1.\n";
        assert!(table.starts_with(sums), "{table}");
        assert!(table.contains("| tcp/a | pushed | pass, PSH aside |  |"), "{table}");
        assert!(table.contains("| tcp/a | good | pass |  |"), "{table}");
        assert!(table.contains("| tcp/a | partly | ipv6 (passes otherwise): open | 7 |"), "{table}");
        assert!(table.contains("| tcp/unheard-of | bad | open | 9, 12 |"), "{table}");
        assert_eq!(open(&results), ["tcp/a/partly.pkt", "tcp/unheard-of/bad.pkt"]);
    }

    #[test]
    fn the_longest_beginning_that_fits_says_why() {
        assert_eq!(why("nothing/like/this.pkt"), "open");
        for (begins, why_known) in KNOWN {
            assert_eq!(why(&format!("{begins}!")), *why_known);
        }
    }
}
