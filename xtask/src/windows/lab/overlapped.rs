//! A program of overlapped requests and completion ports, on the kernel's sockets and on the lane
//! in turn. The service's counters prove which.

use super::lane::Driver;
use super::plain::{Hosts, PORT, TIMEOUT, peer};
use anyhow::{Context, Result, ensure};

/// Messages of each kind.
const COUNT: u32 = 500;

/// As a client: connections, messages by each way of waiting, a file, refusal and cancellation.
pub(super) fn client() -> Result<()> {
    let hosts = Hosts::new(Driver::LabCard)?;
    let address = hosts.pair.b_v4();
    let _server = peer(&hosts.pair, &address)?;
    for on_lane in [false, true] {
        let mut program =
            hosts.run("overlapped", on_lane, &["client", &address, &PORT.to_string(), &COUNT.to_string()])?;
        let done = program.wait_for("done", TIMEOUT);
        done.with_context(|| format!("on the lane: {on_lane}; {}", program.stdout()))?;
        program.success(TIMEOUT)?;
    }
    let [received, sent] = hosts.packets(1)?;
    ensure!(received > u64::from(5 * COUNT) && sent > u64::from(5 * COUNT), "the lane has had {received} and {sent}");
    Ok(())
}

/// As a server, for a client on the kernel of another host; bound to one address, to any, and to
/// any of both families.
pub(super) fn server() -> Result<()> {
    let hosts = Hosts::new(Driver::LabCard)?;
    let (address, port) = (hosts.pair.a_v4(), PORT.to_string());
    for (on_lane, arguments) in [(false, &["dual"][..]), (true, &[]), (true, &["any"]), (true, &["dual"])] {
        let all = [&["server", &address, &port][..], arguments].concat();
        hosts.serve("overlapped", on_lane, &all, &address)?;
    }
    let [received, sent] = hosts.packets(3)?;
    ensure!(received > 3000 && sent > 3000, "the lane has had {received} and {sent}");
    Ok(())
}
