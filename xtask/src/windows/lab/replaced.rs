//! Programs that nothing has started but themselves: the DLLs of Winsock in their folder bring them
//! to the lane.

use super::plain;
use super::program::{Hosts, PORT, TIMEOUT, tickwire};
use crate::windows::{lab_programs, replacement};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use tickwire_lab::Process;

/// Messages of each kind.
const COUNT: u32 = 500;

/// A plain program, and an old one that imports by ordinals, run on the lane without a launcher.
/// The counters of the service prove it.
pub(super) fn by_replacements() -> Result<()> {
    let hosts = Hosts::new()?;
    let peer = hosts.pair.b_v4();
    let _echo = plain::peer(&hosts.pair, &peer)?;
    let folder = hosts.pair.a.directory().join("replaced");
    fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let copy = |file: &Path| -> Result<()> {
        let name = file.file_name().context("a file without a name")?;
        fs::copy(file, folder.join(name)).map(drop).with_context(|| format!("cannot copy {}", file.display()))
    };
    replacement::NAMES.into_iter().try_for_each(|name| copy(&replacement::library(name)?))?;
    let programs = ["plain", "by_ordinal"];
    programs.into_iter().try_for_each(|name| copy(&lab_programs::program(name)?))?;
    let (port, count) = (PORT.to_string(), COUNT.to_string());
    let run = |program: &str, arguments: &[&str]| -> Result<String> {
        let mut command = hosts.wine.command(&folder.join(program).with_extension("exe"));
        // As on a Windows on which these are no "known DLLs": those of the program's folder are
        // taken. (On Windows each program finds wsock32 and mswsock there.)
        command.env("WINEDLLOVERRIDES", "mscoree,mshtml=;ws2_32,wsock32,mswsock=n,b").args(arguments);
        let ended = Process::spawn(command)?.wait(TIMEOUT)?;
        ensure!(ended.status.success() && ended.stdout.contains("done"), "{program}: {ended:?}");
        Ok(ended.stderr)
    };
    let _service = hosts.service()?;
    // Without the library: on the kernel's sockets, and it says so.
    let said = run("by_ordinal", &[&peer, &port])?;
    ensure!(said.contains("tickwire_winsock.dll cannot be loaded from the program's folder"), "no sentence: {said}");
    let diverted = || -> Result<u64> { hosts.stat()?["host"]["counters"]["diverted"].as_u64().context("no counter") };
    ensure!(diverted()? == 0, "packets of a program without the library");

    copy(&tickwire()?.with_file_name("tickwire_winsock.dll"))?;
    let said = run("by_ordinal", &[&peer, &port])?;
    ensure!(!said.contains("tickwire:"), "by_ordinal: {said}");
    let of_first = diverted()?;
    ensure!(of_first >= 3, "the lane has had {of_first} packets");
    run("plain", &["client", &peer, &port, &count])?;
    let of_both = diverted()?;
    ensure!(of_both - of_first > u64::from(2 * COUNT), "the lane has had {of_both} packets, {of_first} before");
    Ok(())
}
