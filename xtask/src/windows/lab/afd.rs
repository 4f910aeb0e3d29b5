//! Programs that wait for their sockets by polls of the driver, on the kernel's sockets and on the
//! lane in turn: one in C, of which each poll is compared, and one of mio. The service's counters
//! prove which.

use super::lane::{self, Driver};
use super::plain::{Hosts, PORT, peer};
use crate::windows::lab_programs;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// Within this a program has done its work.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Messages of each kind.
const COUNT: u32 = 500;

/// What polls say on Windows, as far as the tests of Wine and of libuv show it.
const EXPECTED: &str = include_str!("afd_expected.txt");

fn mio_echo() -> Result<PathBuf> {
    lane::program("mio_echo")
}

/// As clients: what each poll says, and messages, a stream, several connections by mio.
pub(super) fn client() -> Result<()> {
    let hosts = Hosts::new(Driver::LabCard)?;
    let address = hosts.pair.b_v4();
    let _server = peer(&hosts.pair, &address)?;
    let words = ["client", &address, &PORT.to_string(), &COUNT.to_string()];
    for on_lane in [false, true] {
        let mut program = hosts.run("afd", on_lane, &words[1..])?;
        let done = program.wait_for("done", TIMEOUT);
        done.with_context(|| format!("on the lane: {on_lane}; {}", program.stdout()))?;
        program.success(TIMEOUT)?;
        compare(&program.stdout(), on_lane)?;
        let mut program = hosts.run_file(&mio_echo()?, on_lane, &words)?;
        let done = program.wait_for("done", TIMEOUT);
        done.with_context(|| format!("mio, on the lane: {on_lane}; {}{}", program.stdout(), program.stderr()))?;
        program.success(TIMEOUT)?;
    }
    let [received, sent] = hosts.packets(2)?;
    ensure!(received > u64::from(3 * COUNT) && sent > u64::from(3 * COUNT), "the lane has had {received} and {sent}");
    Ok(())
}

/// As servers, for a client on the kernel of another host.
pub(super) fn server() -> Result<()> {
    let hosts = Hosts::new(Driver::LabCard)?;
    let address = hosts.pair.a_v4();
    let words = ["server", &address, &PORT.to_string()];
    let (afd, mio) = (lab_programs::program("afd_server")?, mio_echo()?);
    // On the lane first: connections that the kernel still has for the port, in TIME-WAIT, keep it.
    for (program, on_lane, words) in [(&afd, true, &words[1..]), (&mio, true, &words), (&afd, false, &words[1..])] {
        hosts.serve_file(program, on_lane, words, &address)?;
    }
    let [received, sent] = hosts.packets(2)?;
    ensure!(received > 3000 && sent > 3000, "the lane has had {received} and {sent}");
    Ok(())
}

/// Polls end as they must when the service has gone: those that wait, and those of new sockets,
/// which are the kernel's.
pub(super) fn without_service() -> Result<()> {
    let mut hosts = Hosts::new(Driver::LabCard)?;
    let address = hosts.pair.b_v4();
    let _server = peer(&hosts.pair, &address)?;
    let mut program = hosts.run("afd_loss", true, &[&address, &PORT.to_string()])?;
    program.wait_for("ready", TIMEOUT)?;
    hosts.service.kill();
    program.wait_for("done", TIMEOUT).with_context(|| program.stdout())?;
    program.success(TIMEOUT).map(drop)
}

/// Each line is the one of Windows. Where Wine's own sockets are known to say something else at
/// times, that is no failure.
fn compare(output: &str, on_lane: bool) -> Result<()> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.starts_with("measured ")).collect();
    let expected: Vec<&str> = EXPECTED.lines().collect();
    for (number, (line, expected)) in lines.iter().zip(&expected).enumerate() {
        let is_wines = !on_lane && WINES_OWN.iter().any(|own| expected.contains(own));
        ensure!(line == expected || is_wines, "poll {number}, on the lane: {on_lane}: {line:?}, not {expected:?}");
    }
    ensure!(lines.len() == expected.len(), "{} polls, not {}: {output}", lines.len(), expected.len());
    Ok(())
}

/// Polls of which Wine's own sockets say something else at times: data beside a refusal.
const WINES_OWN: [&str; 1] = ["a refusal: "];
