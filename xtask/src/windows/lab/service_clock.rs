//! The service keeps the clock, and `tickwire clock` reads it.

use super::clock::{POLL, Reading, Reference};
use super::program::{Hosts, SERVICE, TIMEOUT};
use crate::windows::wine::windows_path;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use tickwire_lab::{Ended, tools};

/// Readings that are judged.
const READS: usize = 5;

/// Requests whose packets WinDivert stamps before the test ends.
const STAMPED: u64 = 20;

/// The exit status of a time that is not known.
const UNKNOWN: i32 = 3;

/// The clock's subcommands read what the service keeps, and the true time is within their bounds.
/// After the service's end its page can still be read. A service that cannot keep the clock says
/// why, and serves programs.
pub(super) fn kept() -> Result<()> {
    let hosts = Hosts::new()?;
    let no_clock = r"there is no clock at C:\ProgramData\Tickwire\clock";
    hosts.fails(&["clock", "read"], 1, no_clock)?;
    hosts.fails(&["clock", "wait", "--timeout", "0.2"], UNKNOWN, "there is still no clock at")?;
    let reference = Reference::begin(&hosts.pair.b)?;
    let address = hosts.pair.b_v4();
    let _server = reference.serve(&address)?;
    let file = hosts.pair.a.directory().join("tickwire.toml");
    let configure = |more: &str| {
        let text = format!("[clock]\npoll = {POLL}\n{more}[[clock.servers]]\nhost = '{address}'\n");
        fs::write(&file, text).context("cannot write the configuration")
    };
    let config = windows_path(&file);
    let service = [&SERVICE[..], &["--config", &config]].concat();
    configure("pol = 1\n")?;
    hosts.fails(&service, 1, "tickwire.toml:3:1: unknown key `pol`")?;
    configure("")?;
    let mut running = hosts.service_with(&service)?;

    let succeeds = |arguments: &[&str]| -> Result<String> {
        let Ended { status, stdout, stderr } = hosts.run(arguments)?;
        ensure!(status.success(), "{arguments:?} ended with {status}: {stdout}{stderr}");
        Ok(stdout)
    };
    succeeds(&["clock", "wait", "--bound", "20000", "--timeout", "30"])?;
    let report: Value = serde_json::from_str(&succeeds(&["clock", "status", "--json"])?).context("no JSON")?;
    let source = &report["sources"][0];
    ensure!(source["standing"] == "followed" && source["name"] == *address, "another server: {report}");
    ensure!(succeeds(&["clock", "sources"])?.contains(&address), "the server is not shown");
    let mut readings = Vec::new();
    for _ in 0..READS {
        readings.push(Reading::of_json(&succeeds(&["clock", "read", "--json"])?)?);
    }
    let counts: Vec<String> = readings.iter().map(|reading| reading.count.to_string()).collect();
    let convert: Vec<&str> =
        ["clock", "convert", "--json"].into_iter().chain(counts.iter().map(String::as_str)).collect();
    let converted = succeeds(&convert)?.lines().map(Reading::of_json).collect::<Result<Vec<_>>>()?;
    ensure!(converted.iter().map(|one| one.count).eq(readings.iter().map(|one| one.count)), "other counts");
    let mut errors: Vec<_> = reference.bounded(&readings)?;
    errors.extend(reference.bounded(&converted)?);
    succeeds(&["doctor"])?;
    hosts.fails(&["clock", "run", "--server", &address], 1, "another clock daemon writes")?;

    running.signal(Signal::SIGINT)?;
    let ended = running.wait(TIMEOUT)?;
    ensure!(ended.status.success(), "the service: {ended:?}");
    hosts.fails(&["clock", "status"], 1, "no clock daemon answers for")?;
    reference.bounded(&[Reading::of_json(&succeeds(&["clock", "read", "--json"])?)?])?;

    // A folder in the page's place.
    configure(&format!("page = '{}'\n", windows_path(&hosts.pair.a.directory())))?;
    let failing = hosts.service_with(&service)?;
    let says = || failing.stderr().contains("there is no clock, and it is tried again: ");
    tools::until("the service says that there is no clock", TIMEOUT, says)?;
    succeeds(&["doctor"])?;
    let worst = errors.iter().map(|error| error.unsigned_abs()).max().unwrap_or_default();
    println!("{} readings and {} conversions: greatest error {worst} ns", readings.len(), converted.len());
    Ok(())
}

/// A clock in the foreground, and then that of the service, have the timestamps of WinDivert.
pub(super) fn stamped_by_windivert() -> Result<()> {
    let hosts = Hosts::with_windivert()?;
    let reference = Reference::begin(&hosts.pair.b)?;
    let address = hosts.pair.b_v4();
    let _server = reference.serve(&address)?;
    let file = hosts.pair.a.directory().join("tickwire.toml");
    fs::write(&file, format!("[clock]\npoll = {POLL}\n[[clock.servers]]\nhost = '{address}'\n"))
        .context("cannot write the configuration")?;
    let config = windows_path(&file);
    let foreground = ["clock", "run", "--server", &address, "--poll", POLL];
    let service = ["service", "--interface", "eth0", "--driver", "windivert", "--config", &config];
    let mut worst = 0;
    for arguments in [&foreground[..], &service] {
        let mut daemon = hosts.spawn(arguments)?;
        let mut report = Value::Null;
        tools::until("packets are stamped by WinDivert", TIMEOUT, || {
            let said = hosts.run(&["clock", "status", "--json"]).ok();
            report = said.and_then(|said| serde_json::from_str(&said.stdout).ok()).unwrap_or_default();
            report["sources"][0]["stamped"]["kernel"].as_u64() > Some(STAMPED)
        })
        .with_context(|| format!("{arguments:?}: {report}, {}", daemon.stderr()))?;
        let stamped = report["sources"][0]["stamped"].clone();
        ensure!(stamped["program"].as_u64() <= Some(STAMPED / 10), "stamped by the program, too: {stamped}");
        let read = hosts.run(&["clock", "read", "--json"])?;
        let errors = reference.bounded(&[Reading::of_json(&read.stdout)?])?;
        worst = errors.iter().map(|error| error.unsigned_abs()).fold(worst, u64::max);
        daemon.signal(Signal::SIGINT)?;
        ensure!(daemon.wait(TIMEOUT)?.status.success(), "{arguments:?} has failed");
    }
    println!("a clock in the foreground and one of the service: greatest error {worst} ns");
    Ok(())
}
