//! The instructions per packet in the stack, counted by callgrind: two stacks pass each other the
//! bytes of their frames. The count includes the work of both sides, the copy between them, and
//! epoll. It does not depend on the machine's speed, its caches or its other programs.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tickwire_lab::tools;

/// Connections, and those of them that carry messages in turn.
const LOADS: [(u32, u32); 3] = [(10, 10), (1000, 1000), (11_000, 1000)];

const MESSAGES: u32 = 20_000;

/// Counts this function only.
const COUNTED: &str = "--toggle-collect=*messages_measured*";

/// The result for one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) connections: u32,
    pub(super) active: u32,
    /// Instructions per packet, for sending and receiving it.
    pub(super) instructions: f64,
    /// Nanoseconds per packet, in a run without callgrind.
    pub(super) ns: f64,
    /// A lane's memory per connection, in bytes.
    pub(super) bytes: u64,
}

/// Counts all loads.
pub(super) fn measure() -> Result<Vec<Cost>> {
    let program = tools::built("examples/tcp_cost")?;
    LOADS.into_iter().map(|(connections, active)| cost(&program, connections, active)).collect()
}

fn cost(program: &Path, connections: u32, active: u32) -> Result<Cost> {
    let arguments = ["many".to_owned(), connections.to_string(), active.to_string(), MESSAGES.to_string()];
    let (printed, _) = run(Command::new(program).args(&arguments))?;
    let counting = ["--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED];
    let (counted, told) = run(Command::new("valgrind").args(counting).arg(program).args(&arguments))?;
    let number = |key: &str| printed[key].as_u64().with_context(|| format!("no {key} in {printed}"));
    let packets = number("packets")?;
    ensure!(counted["packets"] == packets, "a run under callgrind sends other packets: {counted} instead of {printed}");
    Ok(Cost {
        connections,
        active,
        instructions: collected(&told)? as f64 / packets as f64,
        ns: number("ns_a_packet")? as f64,
        bytes: number("bytes_a_connection")?,
    })
}

fn run(command: &mut Command) -> Result<(Value, String)> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot run {shown}"))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{shown} failed: {told}");
    let printed = serde_json::from_slice(&output.stdout).with_context(|| format!("figures of {shown}"))?;
    Ok((printed, told))
}

/// The sum that callgrind prints at its end: `==12== Collected : 123`.
fn collected(told: &str) -> Result<u64> {
    let sum = told.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    let sum = sum.with_context(|| format!("callgrind counted nothing: {told}"))?;
    ensure!(sum > 0, "callgrind did not meet the function that is to be counted");
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_found_in_what_callgrind_says() {
        let told = "==7== Events    : Ir\n==7== Collected : 71234567\n==7== \n==7== I   refs:      71,234,567\n";
        assert_eq!(collected(told).unwrap(), 71_234_567);
        assert!(collected("==7== Collected : 0\n").is_err() && collected("no such tool").is_err());
    }
}
