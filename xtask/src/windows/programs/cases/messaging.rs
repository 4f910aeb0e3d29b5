//! Brokers of messages and their clients.

use super::{data, file};
use crate::windows::programs::hosts::{ProgramRun, windows_path};
use crate::windows::programs::outcome::CaseFigure;
use crate::windows::programs::package;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::time::Duration;
use tickwire_lab::{Process, tools};

const MQTT: u16 = 1883;
const NATS: u16 = 4222;

/// Messages that are published one by one.
const MESSAGES: u64 = 300;
/// Packets that they need at least: some travel together.
pub(super) const LEAST: u64 = 20;
/// Bytes of a large message.
pub(super) const PAYLOAD: u64 = 1_000_000;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Publishes the lines 1 to `$3` at a broker, each acknowledged by it.
const PUBLISH: &str = "seq 1 $3 | mosquitto_pub -h $1 -p $2 -t lines -q 1 -l";

/// A broker's configuration, as a file of the run.
fn broker(run: &ProgramRun, address: &str) -> Result<std::path::PathBuf> {
    let path = run.folder()?.join("broker.conf");
    let text = format!("listener {MQTT} {address}\nallow_anonymous true\npersistence false\nuser root\n");
    fs::write(&path, text).context("cannot write a configuration")?;
    Ok(path)
}

/// Waits until a subscriber has said that it is subscribed.
fn subscribed(subscriber: &Process) -> Result<()> {
    let said = || subscriber.stdout().contains("Subscribed (mid: 1)");
    tools::until("the subscriber is there", TIMEOUT, said)
}

fn are_lines(printed: &str) -> Result<()> {
    let lines = printed.lines().filter_map(|line| line.strip_prefix("line:").map(str::trim));
    let expected = (1..=MESSAGES).map(|number| number.to_string());
    ensure!(lines.eq(expected), "other messages came: {printed}");
    Ok(())
}

const SUBSCRIBE: [&str; 8] = ["-d", "-t", "lines", "-q", "1", "-F", "line:%p", "-C"];

pub(super) fn mosquitto_broker(run: &ProgramRun) -> Result<CaseFigure> {
    let (here, port, count) = (run.here(), MQTT.to_string(), MESSAGES.to_string());
    let configuration = windows_path(&broker(run, &here)?);
    let command = run.windows(&file(&package::MOSQUITTO, "mosquitto.exe")?, &["-c", &configuration])?;
    let _server = run.server(command, "tcp", MQTT)?;
    let words = [&["stdbuf", "-oL", "mosquitto_sub", "-h", &here, "-p", &port], &SUBSCRIBE[..], &[&count]].concat();
    let mut subscriber = run.peer(&words)?;
    subscribed(&subscriber)?;
    run.peer_client(&["sh", "-c", PUBLISH, "publish", &here, &port, &count])?;
    are_lines(&subscriber.success(TIMEOUT)?)?;
    Ok(CaseFigure::Works)
}

pub(super) fn mosquitto_sub(run: &ProgramRun) -> Result<CaseFigure> {
    let (there, port, count) = (run.there(), MQTT.to_string(), MESSAGES.to_string());
    let configuration = broker(run, &there)?.display().to_string();
    let _server = run.peer_server(&["mosquitto", "-c", &configuration], "tcp", MQTT)?;
    let words = [&["-h", &there, "-p", &port], &SUBSCRIBE[..], &[&count]].concat();
    let mut subscriber = Process::spawn(run.windows(&file(&package::MOSQUITTO, "mosquitto_sub.exe")?, &words)?)?;
    subscribed(&subscriber)?;
    run.peer_client(&["sh", "-c", PUBLISH, "publish", &there, &port, &count])?;
    are_lines(&subscriber.success(TIMEOUT)?)?;
    Ok(CaseFigure::Works)
}

/// A large message, which a subscriber on host b writes to a file.
pub(super) fn mosquitto_pub(run: &ProgramRun) -> Result<CaseFigure> {
    let (there, port) = (run.there(), MQTT.to_string());
    let (configuration, sent) = (broker(run, &there)?.display().to_string(), data(run, "sent", PAYLOAD)?);
    let _server = run.peer_server(&["mosquitto", "-c", &configuration], "tcp", MQTT)?;
    let received = run.folder()?.join("received");
    let script = "mosquitto_sub -h $1 -p $2 -t large -q 1 -N -C 1 > $3";
    let mut subscriber = run.peer(&["sh", "-c", script, "sub", &there, &port, &received.display().to_string()])?;
    // It does not say when it is subscribed, so the broker keeps the message.
    let publish = ["-h", &there, "-p", &port, "-t", "large", "-q", "1", "-r", "-f", &windows_path(&sent)];
    run.client(&file(&package::MOSQUITTO, "mosquitto_pub.exe")?, &publish)?;
    subscriber.success(TIMEOUT)?;
    ensure!(fs::read(&sent)? == fs::read(&received)?, "another message came");
    Ok(CaseFigure::Works)
}

/// What the benchmark of NATS does at a server: one publisher, two subscribers.
fn bench(url: &str) -> [&str; 11] {
    ["-s", url, "-np", "1", "-ns", "2", "-n", "20000", "-ms", "100", "figures"]
}

/// It has reached its end only if all messages came.
fn is_complete(printed: &str) -> Result<CaseFigure> {
    ensure!(printed.contains("Pub/Sub stats") && printed.contains("Sub stats"), "no figures: {printed}");
    Ok(CaseFigure::Works)
}

pub(super) fn nats_server(run: &ProgramRun) -> Result<CaseFigure> {
    let (here, port) = (run.here(), NATS.to_string());
    let command =
        run.windows(&file(&package::NATS, "bin/windows_amd64/nats-server.exe")?, &["-a", &here, "-p", &port])?;
    let _server = run.server(command, "tcp", NATS)?;
    let (client, url) =
        (file(&package::NATS, "bin/nats-bench")?.display().to_string(), format!("nats://{here}:{port}"));
    is_complete(&run.peer_client(&[&[client.as_str()], &bench(&url)[..]].concat())?)
}

pub(super) fn nats_client(run: &ProgramRun) -> Result<CaseFigure> {
    let (there, port) = (run.there(), NATS.to_string());
    let server = file(&package::NATS, "bin/nats-server")?.display().to_string();
    let _server = run.peer_server(&[&server, "-a", &there, "-p", &port], "tcp", NATS)?;
    let url = format!("nats://{there}:{port}");
    is_complete(&run.client(&file(&package::NATS, "bin/windows_amd64/nats-bench.exe")?, &bench(&url))?)
}
