//! What a program pays at its start: its first socket, and a short program from end to end.

use super::topology::{Measured, Topology};
use crate::bench::harness::host_pairs::{CLIENT_CPU, Ends, PORT, TIMEOUT, at, program, start_client, start_server};
use crate::traffic;
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};
use tickwire_bench::latency::Recorder;
use tickwire_bench::many::FirstSocket;
use tickwire_lab::LabPair;

/// Programs started in a round, one after the other.
const STARTS: u32 = 30;

/// Between the end of one and the start of the next, unless they are started in a row. By then the
/// service has made another lane ready.
const PAUSE: Duration = Duration::from_millis(150);

/// What the short Python program does: it opens a connection and waits until the peer has closed
/// it.
fn short_program(address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!("import socket; socket.create_connection((\"{ip}\", {port}), 20).recv(1)")
}

/// The interpreter itself: where several are installed, `python3` may be a script that chooses one.
fn interpreter() -> Result<String> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let output = output.context("starting Python")?;
    ensure!(output.status.success(), "Python: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

impl Topology {
    /// The time that the first socket of a program with two threads takes.
    pub(super) fn first_socket(&self, ends: Ends) -> Result<Measured> {
        self.starts(ends, PAUSE, |pair, address| first_socket(pair, ends, address))
    }

    /// The same of programs that are started in a row, and how many of them run in a second.
    pub(super) fn in_a_row(&self, ends: Ends) -> Result<Measured> {
        self.starts(ends, Duration::ZERO, |pair, address| first_socket(pair, ends, address))
    }

    /// The time from the start of a short Python program to its end, with `tickwire run`.
    pub(super) fn short_program(&self, ends: Ends) -> Result<Measured> {
        let interpreter = interpreter()?;
        self.starts(ends, PAUSE, |pair, address| {
            let code = short_program(address.parse().context("the server's address")?);
            let options: &[&str] = &[];
            let accelerated = ends.ours()[0].then_some(options);
            let mut command = traffic::command(&pair.a, CLIENT_CPU, accelerated, &[&interpreter, "-c", &code])?;
            let begun = Instant::now();
            let output = command.output().context("starting Python")?;
            let took = begun.elapsed();
            ensure!(output.status.success(), "Python: {}", String::from_utf8_lossy(&output.stderr).trim());
            Ok(took)
        })
    }

    /// Times of programs that each connect once to a server on the kernel.
    fn starts(
        &self,
        ends: Ends,
        pause: Duration,
        mut start: impl FnMut(&LabPair, &str) -> Result<Duration>,
    ) -> Result<Measured> {
        let pair = self.one_queue.pair(ends);
        let address = at(pair, PORT);
        let mut server = start_server(pair, Ends::Kernel, PORT, &[&program("connections")?, "greet", &address])?;
        let mut recorder = Recorder::new();
        let mut ran = Duration::ZERO;
        // Of each connection at least a SYN and a FIN arrive.
        traffic::proven(self.one_queue.witnesses(ends), (2 * STARTS).into(), || {
            for _ in 0..STARTS {
                std::thread::sleep(pause);
                let begun = Instant::now();
                recorder.record(start(pair, &address)?);
                ran += begun.elapsed();
            }
            Ok(())
        })?;
        server.kill();
        let rate = f64::from(STARTS) / ran.as_secs_f64();
        Ok(Measured { rate, share: None, latency: Some(recorder.latency(0)), packets: None })
    }
}

fn first_socket(pair: &LabPair, ends: Ends, address: &str) -> Result<Duration> {
    let program = program("connections")?;
    let printed = start_client(pair, ends, &[&program, "first", address])?.success(TIMEOUT)?;
    let first: FirstSocket = serde_json::from_str(printed.trim()).context("figures of the client")?;
    Ok(Duration::from_nanos(first.ns))
}
