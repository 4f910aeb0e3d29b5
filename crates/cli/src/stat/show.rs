//! A reading for people.

use super::reading::{Interface, Lane, Reading, Socket};
use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The whole page.
pub(crate) fn page(reading: &Reading) -> String {
    let mut page = String::new();
    for interface in &reading.host.interfaces {
        line(&mut page, &interface_line(interface));
    }
    if reading.host.interfaces.is_empty() {
        line(&mut page, "no interface is accelerated");
    }
    let counters = &reading.host.counters;
    line(&mut page, &format!("packets: {}", listed(counters.iter().map(|(name, value)| (*name, *value)))));
    if reading.lanes.is_empty() {
        line(&mut page, "\nno program is on the fast path: start one with `tickwire run PROGRAM`");
        return page;
    }
    for lane in &reading.lanes {
        page.push('\n');
        line(&mut page, &lane_line(lane));
        if !lane.sockets.is_empty() {
            line(&mut page, &sockets(&lane.sockets).to_string());
        }
    }
    let totals = totals(&reading.lanes);
    if !totals.is_empty() {
        line(&mut page, "\ncounters of all lanes shown, where not zero:");
        for (name, value) in totals {
            line(&mut page, &format!("  {name:<32} {value:>14}"));
        }
    }
    page
}

fn line(page: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "{}", text.trim_end());
}

fn interface_line(interface: &Interface) -> String {
    let Interface { name, driver, mac, mtu, mode, reason } = interface;
    match reason {
        Some(reason) => format!("{name} ({driver}): not accelerated: {reason}"),
        None => format!("{name} ({driver}): {mode}, {mac}, MTU {mtu}"),
    }
}

fn lane_line(lane: &Lane) -> String {
    let who = format!("{} (process {}, user {})", lane.program, lane.pid, lane.uid);
    if let Some(reason) = lane.reason {
        return format!("{who}: on the kernel: {reason}");
    }
    let of = |name| lane.guard.get(name).copied().unwrap_or(0);
    let refused = lane.guard.iter().filter(|(name, value)| name.starts_with("refused") && **value > 0);
    let refused = listed(refused.map(|(name, value)| (*name, *value)));
    let seconds = lane.age_ms as f64 / 1000.0;
    let mut text = format!("{who}: lane {}, {seconds:.0} s", lane.lane);
    if lane.processes > 1 {
        text += &format!(", {} processes", lane.processes);
    }
    let mib = lane.memory_bytes as f64 / f64::from(1 << 20);
    text += &format!(", {mib:.0} MiB, in {} packets, out {}", of("in_packets"), of("out_packets"));
    if !refused.is_empty() {
        text += &format!(", guard: {refused}");
    }
    text
}

fn listed<'a>(counters: impl Iterator<Item = (&'a str, u64)>) -> String {
    counters.map(|(name, value)| format!("{} {value}", name.replace('_', " "))).collect::<Vec<_>>().join(", ")
}

fn sockets(sockets: &[Socket]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let header = [
        "",
        "local",
        "remote",
        "state",
        "rx queue",
        "tx queue",
        "rx packets",
        "tx packets",
        "RTT us",
        "cwnd",
        "rexmit",
        "on",
    ];
    table.set_header(header);
    for socket in sockets {
        let tcp = |value: fn(&super::reading::Tcp) -> u32| {
            socket.tcp.as_ref().map_or(String::new(), |t| value(t).to_string())
        };
        table.add_row([
            socket.protocol.to_owned(),
            socket.local.clone(),
            socket.remote.clone().unwrap_or_else(|| "*".to_owned()),
            socket.state.to_owned(),
            socket.rx_queue.to_string(),
            socket.tx_queue.to_string(),
            socket.rx_packets.to_string(),
            socket.tx_packets.to_string(),
            tcp(|t| t.srtt_us),
            tcp(|t| t.cwnd),
            tcp(|t| t.retransmits),
            socket.reason.as_ref().map_or("lane".to_owned(), |reason| format!("kernel: {reason}")),
        ]);
    }
    for column in table.column_iter_mut().skip(4).take(7) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn totals(lanes: &[Lane]) -> BTreeMap<&'static str, u64> {
    let mut totals = BTreeMap::new();
    for (name, value) in lanes.iter().flat_map(|lane| &lane.counters) {
        *totals.entry(*name).or_insert(0_u64) += value;
    }
    totals.retain(|_, value| *value > 0);
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(program: &str, reason: Option<&'static str>) -> Lane {
        Lane {
            lane: 3,
            program: program.to_owned(),
            pid: 100,
            uid: 1000,
            processes: 2,
            age_ms: 2500,
            memory_bytes: 29 << 20,
            accelerated: reason.is_none(),
            reason,
            guard: BTreeMap::from([("in_packets", 7), ("refused_port", 2), ("refused_source", 0)]),
            counters: BTreeMap::from([("TcpInSegs", 5), ("UdpInErrors", 0)]),
            sockets: vec![],
            claims: vec![],
        }
    }

    #[test]
    fn a_page_names_programs_refusals_and_what_the_stacks_counted() {
        let reading = Reading { lanes: vec![lane("nginx", None), lane("tool", Some("no room"))], ..Reading::default() };
        let page = page(&reading);
        assert!(
            page.contains("nginx (process 100, user 1000): lane 3, 2 s, 2 processes, 29 MiB, in 7 packets"),
            "{page}"
        );
        assert!(page.contains("guard: refused port 2\n"), "{page}");
        assert!(page.contains("tool (process 100, user 1000): on the kernel: no room"), "{page}");
        assert!(page.contains("TcpInSegs") && !page.contains("UdpInErrors"), "{page}");
    }

    #[test]
    fn an_empty_page_says_what_to_do() {
        assert!(page(&Reading::default()).contains("tickwire run"));
    }
}
