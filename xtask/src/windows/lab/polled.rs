//! Programs whose sockets are the kernel's: calls that wait poll those before they sleep. The
//! library's own counters, by way of the service, say what came of it.

use super::plain;
use super::program::{Hosts, PORT, TIMEOUT, UNAVAILABLE};
use crate::windows::lab_programs;
use crate::windows::wine::windows_path;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tickwire_lab::{Ended, Process};

const SERVICE: [&str; 5] = ["service", "--interface", "eth0", "--driver", "none"];

/// Echoes at each socket that is looked at.
const COUNT: u64 = 200;

/// Messages of each kind.
const FEWER: &str = "300";

/// How long `waits` waits, in milliseconds.
const WAITED: u64 = 1000;

/// Without a driver, and without a service, programs do what they do on a lane. Each socket is
/// shown with its reason.
pub(super) fn without_driver() -> Result<()> {
    let hosts = Hosts::new()?;
    let peer = hosts.pair.b_v4();
    let _echo = plain::peer(&hosts.pair, &peer)?;
    let [plain, waits] = ["plain", "waits"].map(|name| lab_programs::program(name).map(|path| windows_path(&path)));
    let (plain, waits, port) = (plain?, waits?, PORT.to_string());
    let service = hosts.service_with(&SERVICE)?;
    hosts.fails(&["run", "--require", &plain], UNAVAILABLE, "was not started: the service runs without a driver")?;
    // A program that polls without end never sleeps: it finds all by polling.
    for socket in sockets_of(&hosts, "always", &[&waits, &peer, &port])? {
        ensure!(socket["polled"] == json!({ "found": COUNT, "slept": 0 }), "a socket that is always polled: {socket}");
    }
    for socket in sockets_of(&hosts, "never", &[&waits, &peer, &port])? {
        ensure!(socket["polled"].is_null(), "a socket that is never polled: {socket}");
    }
    let client = ["run", &plain, "client", &peer, &port, FEWER];
    succeeds(&hosts.run(&client)?, "runs on the kernel's network stack, polled: the service runs without a driver")?;
    drop(service);
    let select = ["run", &plain, "select", &peer, &port];
    succeeds(&hosts.run(&select)?, "runs on the kernel's network stack, polled: no service answers")
}

/// What `stat` shows of a program with two sockets on the kernel, with this `TICKWIRE_SPIN`.
fn sockets_of(hosts: &Hosts, spin: &str, program: &[&str]) -> Result<Vec<Value>> {
    let mut command = hosts.command(&["run"]);
    command.args(program).arg(COUNT.to_string()).env("TICKWIRE_SPIN", spin);
    let mut running = Process::spawn(command)?;
    running.wait_for("held", TIMEOUT)?;
    let stat = hosts.stat()?;
    let lane = &stat["lanes"][0];
    let sockets = lane["sockets"].as_array().cloned().unwrap_or_default();
    ensure!(lane["program"] == "waits" && lane["accelerated"] == false && sockets.len() == 2, "others: {stat}");
    for socket in &sockets {
        let has_reason = socket["reason"].as_str().is_some_and(|why| why.contains("without a driver"));
        ensure!(socket["accelerated"] == false && has_reason, "no reason: {socket}");
    }
    hosts.end_process(lane)?;
    running.wait(TIMEOUT)?;
    hosts.stat_until("it has ended", |stat| stat["lanes"] == Value::Array(Vec::new()))?;
    Ok(sockets)
}

/// A program has done all of its work, and was said in one sentence to run on the kernel.
fn succeeds(ended: &Ended, words: &str) -> Result<()> {
    let sentences: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("tickwire: ")).collect();
    let is_so = sentences.len() == 1 && sentences[0].contains(words);
    ensure!(ended.status.success() && ended.stdout.contains("done") && is_so, "not {words:?}: {ended:?}");
    Ok(())
}

/// Times that a program has set are kept, also while it polls for nearly as long; of two threads
/// that receive at one socket each gets something.
pub(super) fn waits() -> Result<()> {
    let hosts = Hosts::new()?;
    let peer = hosts.pair.b_v4();
    let _echo = plain::peer(&hosts.pair, &peer)?;
    let program = windows_path(&lab_programs::program("waits")?);
    let port = PORT.to_string();
    // Microseconds; polling counts, so no call takes twice its time.
    for spin in ["never", "900000"] {
        let mut command = hosts.command(&["run", &program, &peer, &port]);
        command.env("TICKWIRE_SPIN", spin);
        let ended = Process::spawn(command)?.wait(TIMEOUT)?;
        ensure!(ended.status.success() && ended.stdout.contains("done"), "{spin}: {ended:?}");
        for call in ["recv", "select", "WSAPoll"] {
            let line = ended.stdout.lines().find_map(|line| line.strip_prefix(call)?.trim().strip_suffix(" ms"));
            let time: u64 = line.with_context(|| format!("no {call}: {ended:?}"))?.trim().parse().context("no time")?;
            ensure!((WAITED - 20..WAITED + 800).contains(&time), "{spin}: {call} took {time} ms");
        }
    }
    Ok(())
}
