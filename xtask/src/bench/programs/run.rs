//! One measurement: a program, one way.

use super::catalog::Program;
use super::figure::Figure;
use super::launch::Ready;
use super::proof::{self, Seen};
use super::start::{How, command};
use super::topology::{Hosts, Topology};
use super::ways::End;
use anyhow::{Context, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tickwire_lab::Process;

/// The result of one measurement.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) figure: Figure,
    /// Packets that crossed the stack at each accelerated end.
    pub(super) crossed: Vec<(End, u64)>,
    /// Irregularities that are no failure: sockets on the kernel, a server that did not end.
    pub(super) notes: Vec<String>,
}

/// The time for a client to start, warm up and find its server, in addition to the seconds that it
/// measures.
const TIMEOUT: Duration = Duration::from_secs(25);
/// A server ends within this when it is asked to.
const END_TIMEOUT: Duration = Duration::from_secs(4);
/// The startup time of a server whose readiness cannot be detected.
const START: Duration = Duration::from_millis(300);
/// Server and client have a processor of their own if they are pinned.
const PROCESSORS: [&str; 2] = ["0", "1"];

/// Measures, and kills all processes that are left.
pub(super) fn measure(bed: &Topology, hosts: &Hosts, program: &Program, seconds: u32, pin: bool) -> Result<Measured> {
    hosts.clear()?;
    let mut seen = begin(hosts)?;
    let measured = with_server(bed, hosts, program, seconds, pin, &mut seen);
    let cleared = hosts.clear();
    let (figure, mut notes) = measured.map_err(|error| explained(error, &seen))?;
    cleared?;
    for (end, seen) in &seen {
        seen.check(*end, figure.packets)?;
        notes.extend(seen.reasons().map(|reason| format!("{end}: {reason}")));
    }
    Ok(Measured { figure, crossed: seen.iter().map(|(end, seen)| (*end, seen.crossed())).collect(), notes })
}

fn begin(hosts: &Hosts) -> Result<Vec<(End, Seen)>> {
    hosts.accelerated().map(|end| Ok((end, Seen::begin(hosts.host(end))?))).collect()
}

/// Adds the lanes' reasons to the error of a failed measurement.
fn explained(error: anyhow::Error, seen: &[(End, Seen)]) -> anyhow::Error {
    let reasons: Vec<String> =
        seen.iter().flat_map(|(end, seen)| seen.reasons().map(move |reason| format!("{end}: {reason}"))).collect();
    if reasons.is_empty() { error } else { error.context(format!("stat shows {}", reasons.join("; "))) }
}

fn with_server(
    bed: &Topology,
    hosts: &Hosts,
    program: &Program,
    seconds: u32,
    pin: bool,
    seen: &mut [(End, Seen)],
) -> Result<(Figure, Vec<String>)> {
    let how = |end: End, place: usize| How {
        accelerated: hosts.way.accelerates(end),
        processor: pin.then_some(PROCESSORS[place]),
    };
    let launch = (program.server)(&bed.site(hosts, End::Server))?;
    let mut server = Process::spawn(command(hosts.host(End::Server), &launch, &how(End::Server, 0))?)?;
    match program.ready {
        Ready::Port(protocol, port) => {
            tickwire_lab::wait_until_listening(hosts.host(End::Server), protocol, port, &mut server)?
        }
        Ready::Says(text, protocol, port) => {
            server.wait_for(text, TIMEOUT)?;
            tickwire_lab::wait_until_listening(hosts.host(End::Server), protocol, port, &mut server)?;
        }
        Ready::Searched => std::thread::sleep(START),
    }
    let launch = (program.client)(&bed.site(hosts, End::Client))?;
    let client = Process::spawn(command(hosts.host(End::Client), &launch, &how(End::Client, 1))?)?;
    let timeout = Duration::from_secs(seconds.into()) + TIMEOUT;
    let printed = watched(client, timeout, hosts, seconds, seen).map_err(|error| match server.is_running() {
        Ok(true) => error,
        _ => error.context(format!("the server ended: {}{}", server.stdout().trim(), server.stderr().trim())),
    })?;
    let figure = (program.read)(&printed).with_context(|| format!("cannot read what the client printed: {printed}"))?;
    let notes =
        server.stop(END_TIMEOUT).err().map(|_| format!("the server did not end within {END_TIMEOUT:?} after SIGTERM"));
    Ok((figure, notes.into_iter().collect()))
}

/// Runs the client to its end and reads the lanes meanwhile, even where there are none, so that all
/// ways are disturbed alike.
fn watched(
    mut client: Process,
    timeout: Duration,
    hosts: &Hosts,
    seconds: u32,
    seen: &mut [(End, Seen)],
) -> Result<String> {
    let interval = Duration::from_secs_f64(f64::from(seconds) * 0.4);
    let (running, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(move || look(hosts, interval, &ended, seen));
        let printed = client.success(timeout);
        drop(running);
        // Only waits for the thread: a panic in it is not reported.
        let _ = watcher.join();
        printed
    })
}

/// Reads the lanes at intervals until the client has ended, and once more: the server's lane still
/// exists then.
fn look(hosts: &Hosts, interval: Duration, ended: &Receiver<()>, seen: &mut [(End, Seen)]) {
    loop {
        let last = ended.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
        for end in [End::Client, End::Server] {
            let stat = proof::read(hosts.host(end));
            let seen = seen.iter_mut().find(|(other, _)| *other == end);
            if let (Ok(stat), Some((_, seen))) = (stat, seen) {
                seen.add(&stat);
            }
        }
        if last {
            return;
        }
    }
}
