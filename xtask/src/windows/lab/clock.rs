//! The clock daemon of Windows on a host with Wine, a time server on a host with a kernel, and a C
//! program that reads the clock by tickclock.dll.
//!
//! The true time is a function of the machine's counter, which both hosts share. So the error of
//! each reading is known, and can be compared with the bound that the clock itself gives.

use crate::windows::build::Profile;
use crate::windows::lab_programs;
use crate::windows::wine_host::WineHost;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::str::FromStr;
use std::thread;
use std::time::Duration;
use tickwire_lab::{LabHost, LabPair, Process, tools};

/// Within this a program does what it is to do, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What the clock has to find out: it is 1 ms and 10 ppm off at first.
const RECIPE: &str = "ahead_us = 1000.0\nrate_ppm = 10.0\n";

/// Seconds between requests.
pub(super) const POLL: &str = "0.1";

/// How long the clock is sampled in each phase.
const PHASE: Duration = Duration::from_secs(2);

/// Readings that are made where the kernel allows no system call.
const READS: u32 = 1_000_000;

/// Bits of a reading's status (tickclock.h).
const HOLDOVER: u32 = 0x4;
const STALE: u32 = 0x8;

/// Builds the C program.
pub(super) fn build() -> Result<()> {
    lab_programs::build_clock(&Profile::Debug.windows("tickclock.dll")?)
}

/// The true time, served on host b.
pub(super) struct Reference {
    program: String,
    truth: String,
    host: LabHost,
}

impl Reference {
    /// Fixes a true time that begins now.
    pub(super) fn begin(host: &LabHost) -> Result<Self> {
        let program = Profile::Debug.linux_example("reference")?.display().to_string();
        let file = |name: &str| host.directory().join(name).display().to_string();
        let (recipe, truth) = (file("recipe.toml"), file("truth.toml"));
        fs::write(&recipe, RECIPE).with_context(|| format!("cannot write {recipe}"))?;
        host.run(&[&program, "begin", &recipe, &truth])?;
        Ok(Self { program, truth, host: host.clone() })
    }

    /// Starts the time server.
    pub(super) fn serve(&self, address: &str) -> Result<Process> {
        let mut server = self.host.spawn(&[&self.program, "serve", &self.truth, &format!("{address}:123")])?;
        server.wait_for("serving", TIMEOUT)?;
        Ok(server)
    }

    /// The same; the true time must be within the bound of each reading.
    pub(super) fn bounded(&self, readings: &[Reading]) -> Result<Vec<i64>> {
        let errors = self.errors(readings)?;
        for (reading, error) in readings.iter().zip(&errors) {
            let truth = reading.utc - error;
            ensure!(
                (reading.earliest..=reading.latest).contains(&truth),
                "the true time is not within the bound: {reading:?} is {error} ns ahead"
            );
        }
        Ok(errors)
    }

    /// How far each reading is ahead of the true time, in ns.
    fn errors(&self, readings: &[Reading]) -> Result<Vec<i64>> {
        let mut judge = self.host.command(&self.program);
        judge.args(["judge", &self.truth]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut judge = judge.spawn().context("cannot start the judge")?;
        let mut input = judge.stdin.take().context("no standard input")?;
        let lines: String = readings.iter().map(|one| format!("{} {}\n", one.count, one.utc)).collect();
        // It writes while it reads.
        let writer = thread::spawn(move || input.write_all(lines.as_bytes()));
        let output = judge.wait_with_output().context("the judge")?;
        writer.join().expect("it does not panic").context("the judge does not read")?;
        let errors = String::from_utf8(output.stdout)?.lines().map(i64::from_str).collect::<Result<Vec<_>, _>>()?;
        ensure!(errors.len() == readings.len(), "the judge has judged {} of {}", errors.len(), readings.len());
        Ok(errors)
    }
}

/// A reading that a program has printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) count: u64,
    pub(super) utc: i64,
    pub(super) earliest: i64,
    pub(super) latest: i64,
    pub(super) status: u32,
}

impl Reading {
    /// From what `tickwire clock` says as JSON.
    pub(super) fn of_json(line: &str) -> Result<Self> {
        let said: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        let ns = |name: &str| said[name].as_i64().with_context(|| format!("no {name}: {line}"));
        let count = said["counter"].as_u64().with_context(|| format!("no counter: {line}"))?;
        Ok(Self { count, utc: ns("utc_ns")?, earliest: ns("earliest_ns")?, latest: ns("latest_ns")?, status: 0 })
    }

    /// From a line of the program.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("sample ")?.split(' ');
        let count = words.next()?.parse().ok()?;
        let [utc, earliest, latest] = [words.next()?, words.next()?, words.next()?].map(|word| word.parse().ok());
        let (utc, earliest, latest) = (utc?, earliest?, latest?);
        let reading = Self { count, utc, earliest, latest, status: words.next()?.parse().ok()? };
        // The last line may be incomplete without its last word.
        words.next().is_some().then_some(reading)
    }

    const fn bound(&self) -> i64 {
        (self.latest - self.earliest) / 2
    }

    const fn has(&self, status: u32) -> bool {
        self.status & status != 0
    }
}

/// All readings so far.
fn readings(sampler: &Process) -> Vec<Reading> {
    sampler.stdout().lines().filter_map(Reading::parse).collect()
}

/// Waits until the newest reading has this status bit, or no more.
fn until(sampler: &Process, what: &str, status: u32, is_set: bool) -> Result<()> {
    tools::until(what, TIMEOUT, || readings(sampler).last().is_some_and(|last| last.has(status) == is_set))
}

/// The clock synchronises, loses its server, finds it again, and loses its daemon. All the time the
/// true time is within the bound that a program reads. Without the server the bound grows.
pub(super) fn keeps_its_bound() -> Result<()> {
    let pair = LabPair::new()?;
    let wine = WineHost::new(&pair.a)?;
    let address = pair.b_v4();
    let reference = Reference::begin(&pair.b)?;
    let mut server = reference.serve(&address)?;
    let keep = Profile::Debug.windows("examples/keep.exe")?;
    let mut daemon = wine.spawn(&keep, &["--poll", POLL, &address])?;
    let mut sampler = wine.spawn(&lab_programs::clock()?, &["sample"])?;
    sampler.wait_for("sample ", TIMEOUT)?;
    thread::sleep(PHASE);
    let report = report(&wine, &keep)?;
    let used = &report["sources"][0];
    ensure!(used["standing"] == "followed" && used["used"].as_u64() > Some(8), "the server is not followed: {report}");
    // Wine has no timestamps of Winsock.
    ensure!(used["stamps"] == "program", "stamped by another: {report}");

    server.kill();
    until(&sampler, "the clock notices that its server is gone", HOLDOVER, true)?;
    thread::sleep(PHASE);
    let alone = readings(&sampler).len();
    let _server = reference.serve(&address)?;
    until(&sampler, "the clock finds its server again", HOLDOVER, false)?;
    thread::sleep(PHASE);
    let confined = confined(&wine, &report)?;
    daemon.kill();
    until(&sampler, "a reader notices that the daemon is gone", STALE, true)?;
    sampler.kill();
    ensure!(!sampler.stdout().contains("unknown"), "the time was known, and then unknown");

    let readings = readings(&sampler);
    let errors = reference.bounded(&readings)?;
    grows(&readings[..alone])?;
    let recovered = readings[alone..].iter().filter(|one| !one.has(HOLDOVER)).map(Reading::bound).min();
    let lost = readings[alone - 1].bound();
    ensure!(recovered.is_some_and(|bound| bound < lost), "the bound does not shrink again: {recovered:?} after {lost}");
    let mut sizes: Vec<_> = errors.iter().map(|error| error.unsigned_abs()).collect();
    sizes.sort_unstable();
    let (median, worst) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    println!(
        "{} readings: median error {median} ns, greatest {worst} ns; bound {} ns, without a server up to {lost} ns; {confined}",
        sizes.len(),
        recovered.unwrap_or_default(),
    );
    Ok(())
}

/// Checks that the bound grows in the outage at the end of these readings.
fn grows(readings: &[Reading]) -> Result<()> {
    let from = readings.iter().rposition(|one| !one.has(HOLDOVER)).context("the outage has no begin")? + 1;
    let outage = &readings[from..];
    ensure!(outage.len() > 50, "only {} readings in the outage", outage.len());
    // Not from one reading to the next: a publication may take some ns back.
    let last = outage.len() - 1;
    let bounds = [0, last / 3, last * 2 / 3, last].map(|at| outage[at].bound());
    ensure!(bounds.is_sorted_by(|a, b| a < b), "the bound does not grow without a server: {bounds:?} ns");
    Ok(())
}

/// The daemon's status, as another program reads it.
fn report(wine: &WineHost, keep: &Path) -> Result<Value> {
    let text = wine.spawn(keep, &["--status"])?.success(TIMEOUT)?;
    serde_json::from_str(&text).context("the daemon's report")
}

/// Reads the clock in a program that the kernel would kill at any system call. Returns what that
/// costs. Only the TSC is read without a system call under Wine.
fn confined(wine: &WineHost, report: &Value) -> Result<String> {
    if report["counter"] != "TSC" {
        return Ok(format!("not read without system calls: the counter is {}", report["counter"]));
    }
    let text = wine.spawn(&lab_programs::clock()?, &["reads", &READS.to_string()])?.success(TIMEOUT)?;
    let expected = format!("reads={READS} unknown=0 ");
    ensure!(text.starts_with(&expected), "expected {expected}, got {text}");
    Ok(format!("without system calls {}", text.trim()))
}
