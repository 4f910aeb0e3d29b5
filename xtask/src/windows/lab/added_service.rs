//! A service of Windows, on the kernel's sockets and, once it was added, on the lane.

use super::lane;
use super::program::{Hosts, PORT, TIMEOUT};
use crate::windows::lab_programs;
use crate::windows::wine::windows_path;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use tickwire_lab::tools;

/// Its name.
const NAME: &str = "LabEcho";

/// The key with its command line.
const KEY: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\LabEcho";

/// A service echoes on the kernel's sockets. It is added, and echoes on the lane; the counters of
/// the service Tickwire prove it. It is removed, and is as it was.
pub(super) fn added() -> Result<()> {
    let hosts = Hosts::new()?;
    let _service = hosts.service()?;
    let address = hosts.pair.a_v4();
    let tool = |program: &str, arguments: &[&str]| -> Result<String> {
        let spawned = hosts.wine.spawn(Path::new(program), arguments)?.success(TIMEOUT);
        spawned.with_context(|| format!("{program} {arguments:?}"))
    };
    let run = |arguments: &[&str], words: &str| -> Result<()> {
        let ended = hosts.run(&[&["run"], arguments].concat())?;
        let is_so = ended.status.success() && ended.stdout.contains(words);
        ensure!(is_so, "{arguments:?} has not said {words:?}: {ended:?}");
        Ok(())
    };
    let echoes = |on: &str| -> Result<()> {
        let connected = hosts.pair.b.within(|| lane::connect(&address, PORT))?;
        let exchanged = connected.context("cannot connect").and_then(|mut stream| lane::exchange(&mut stream, 1));
        exchanged.with_context(|| format!("on the {on}"))
    };
    let echoes_on_kernel = || tools::until("the service echoes", TIMEOUT, || echoes("kernel").is_ok());

    let program = windows_path(&lab_programs::program("echo_service")?);
    let line = format!("\"{program}\" {NAME} {address} {PORT}");
    tool("sc", &["create", NAME, "binPath=", &line, "start=", "demand"])?;
    let before = tool("reg", &["query", KEY])?;
    ensure!(before.contains("echo_service.exe"), "no command line: {before}");
    tool("net", &["start", NAME])?;
    echoes_on_kernel()?;
    ensure!(hosts.stat()?["lanes"] == Value::Array(Vec::new()), "it is on a lane before it was added");
    tool("net", &["stop", NAME])?;

    hosts.fails(&["run", "--remove", NAME], 1, "the service LabEcho was not added")?;
    hosts.fails(&["run", "--add", "NoSuchEcho"], 1, "there is no service \"NoSuchEcho\"")?;
    run(&["--require", "--add", NAME], "from its next start on it runs by `tickwire run`")?;
    hosts.fails(&["run", "--add", NAME], 1, "was added already")?;
    run(&["--list"], "LabEcho: starts by ")?;
    let doctor = hosts.run(&["doctor"])?;
    ensure!(doctor.stdout.contains("LabEcho starts by "), "doctor: {}", doctor.stdout);

    tool("net", &["start", NAME])?;
    // (While the kernel has a connection at the port, it is not claimed.)
    hosts.stat_until("the service is on the lane", is_on_lane)?;
    echoes("lane")?;
    let stat = hosts.stat()?;
    let diverted = stat["host"]["counters"]["diverted"].as_u64().unwrap_or(0);
    ensure!(diverted > 3, "the lane has had {diverted} packets: {stat}");
    tool("net", &["stop", NAME])?;
    hosts.stat_until("its lane has ended", |stat| stat["lanes"] == Value::Array(Vec::new()))?;

    run(&["--remove", NAME], "its command line is: ")?;
    let after = tool("reg", &["query", KEY])?;
    ensure!(after == before, "it is not as it was: {before}{after}");
    run(&["--list"], "no service was added")?;
    tool("net", &["start", NAME])?;
    echoes_on_kernel()?;
    tool("net", &["stop", NAME])?;
    tool("sc", &["delete", NAME]).map(drop)
}

/// The service has a listener and a datagram socket there.
fn is_on_lane(stat: &Value) -> bool {
    let lane = &stat["lanes"][0];
    let sockets = lane["sockets"]
        .as_array()
        .map_or(0, |sockets| sockets.iter().filter(|socket| socket["accelerated"] == true).count());
    lane["program"] == "echo_service" && lane["accelerated"] == true && sockets >= 2
}
