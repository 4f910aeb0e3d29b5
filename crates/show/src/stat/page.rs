//! A reading as text for users.

use super::reading::{Interface, Lane, SocketReading, StatReading, Tcp};
use crate::layout::{fits, wrap};
use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The whole page, wrapped at `width` if there is one.
#[must_use]
pub fn page(reading: &StatReading, width: Option<usize>) -> String {
    let mut page = String::new();
    let mut line = |text: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(page, "{}", wrap(text.trim_end(), width));
    };
    for interface in &reading.host.interfaces {
        line(&interface_line(interface));
    }
    if reading.host.interfaces.is_empty() {
        line("no interface is accelerated");
    }
    let counters = &reading.host.counters;
    line(&format!("packets: {}", listed(counters.iter().map(|(name, value)| (*name, *value)))));
    if reading.incomplete {
        line("programs that the service does not know may be missing: there was no time to look at all processes");
    }
    if reading.lanes.is_empty() {
        line("");
        let others = if cfg!(windows) { " (administrators see those of all)" } else { " (root sees those of all)" };
        let (whose, who) = if reading.of_all_users { ("", "") } else { (" of this user", others) };
        line(&format!("no program{whose} is on the fast path: start one with `tickwire run PROGRAM`{who}"));
        return page;
    }
    for lane in &reading.lanes {
        line("");
        line(&lane_line(lane));
        sockets(lane, width).lines().for_each(&mut line);
    }
    let totals = totals(&reading.lanes);
    if !totals.is_empty() {
        line("");
        line("counters of all lanes shown, where not zero:");
        for (name, value) in totals {
            line(&format!("  {name:<32} {value:>14}"));
        }
    }
    page
}

fn interface_line(interface: &Interface) -> String {
    let Interface { name, driver, mac, mtu, mode, reason } = interface;
    match reason {
        Some(reason) => format!("{name} ({driver}): not accelerated: {reason}"),
        None => format!("{name} ({driver}): {mode}, {mac}, MTU {mtu}"),
    }
}

fn lane_line(lane: &Lane) -> String {
    let user = lane.uid.map(|uid| format!(", user {uid}")).unwrap_or_default();
    let who = format!("{} (process {}{user})", lane.program, lane.pid);
    if let Some(reason) = lane.reason {
        let many = if lane.processes > 1 { format!(", {} processes", lane.processes) } else { String::new() };
        return format!("{who}: on the kernel{many}: {reason}");
    }
    let of = |name| lane.guard.get(name).copied().unwrap_or(0);
    let those = |beginning| {
        let some = lane.guard.iter().filter(move |(name, value)| name.starts_with(beginning) && **value > 0);
        listed(some.map(|(name, value)| (*name, *value)))
    };
    let (refused, lost) = (those("refused"), those("lost"));
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
    if !lost.is_empty() {
        text += &format!(", on the way in: {lost}");
    }
    text
}

fn listed<'a>(counters: impl Iterator<Item = (&'a str, u64)>) -> String {
    counters.map(|(name, value)| format!("{} {value}", name.replace('_', " "))).collect::<Vec<_>>().join(", ")
}

/// The sockets as a table, or, if that is too wide, as a few lines for each. The reasons why some
/// are on the kernel follow.
fn sockets(lane: &Lane, width: Option<usize>) -> String {
    let sockets = &lane.sockets;
    if sockets.is_empty() {
        return String::new();
    }
    let mut reasons: Vec<&str> = Vec::new();
    let ways: Vec<String> = sockets.iter().map(|socket| way(socket, lane.reason, &mut reasons)).collect();
    let mut text = table(sockets, &ways).to_string();
    if !fits(&text, width) {
        text = sockets.iter().zip(&ways).map(|(socket, way)| lines(socket, way)).collect::<Vec<_>>().join("\n");
    }
    for (number, reason) in reasons.iter().enumerate() {
        let _ = write!(text, "\n [{}] {reason}", number + 1);
    }
    text
}

/// The path of a socket, lane or kernel. Its reason gets a number, unless it is that of the whole
/// program.
fn way<'s>(socket: &'s SocketReading, of_all: Option<&str>, reasons: &mut Vec<&'s str>) -> String {
    let Some(reason) = &socket.reason else { return "lane".to_owned() };
    let path = match (socket.accelerated, socket.polled) {
        (true, _) => "lane, in part kernel",
        (false, Some(_)) => "kernel, polled",
        (false, None) => "kernel",
    };
    if !socket.accelerated && of_all == Some(reason) {
        return path.to_owned();
    }
    let known = reasons.iter().position(|known| known == reason);
    let number = known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    format!("{path} [{}]", number + 1)
}

/// A socket in several lines: its addresses each on a line of its own, so that the longest fit 80
/// columns, and its figures.
fn lines(socket: &SocketReading, way: &str) -> String {
    let remote = socket.remote.as_deref().unwrap_or("*");
    let mut text = format!(" {:<4} {:<10} {}\n", socket.protocol, socket.state, socket.local);
    text += &format!("      {:>10} {remote}\n", "to");
    text += &format!("      {way}");
    let (packets, queues) = ([socket.rx_packets, socket.tx_packets], [socket.rx_queue, socket.tx_queue]);
    // A listener has none.
    if packets.iter().any(|p| p.is_some_and(|p| p > 0)) || queues.iter().any(|q| q.is_some_and(|q| q > 0)) {
        let ([rx, tx], [rx_queue, tx_queue]) = (packets.map(or_dash), queues.map(or_dash));
        text += &format!(", rx {rx} packets, queue {rx_queue}; tx {tx} packets, queue {tx_queue}");
    }
    if let Some(polled) = &socket.polled {
        text += &format!(", {} found by polling, {} slept", polled.found, polled.slept);
    }
    if let Some(tcp) = &socket.tcp {
        text += &format!("; RTT {} us, cwnd {}, rexmit {}", tcp.srtt_us, tcp.cwnd, tcp.retransmits);
    }
    text
}

/// A figure that may not be known.
fn or_dash(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string())
}

fn table(sockets: &[SocketReading], ways: &[String]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let header =
        ["", "local", "remote", "state", "Recv-Q", "Send-Q", "rx pkts", "tx pkts", "RTT us", "cwnd", "rexmit", "on"];
    table.set_header(header);
    for (socket, way) in sockets.iter().zip(ways) {
        let tcp = |value: fn(&Tcp) -> u32| socket.tcp.as_ref().map_or(String::new(), |t| value(t).to_string());
        table.add_row([
            socket.protocol.to_owned(),
            socket.local.clone(),
            socket.remote.clone().unwrap_or_else(|| "*".to_owned()),
            socket.state.to_owned(),
            or_dash(socket.rx_queue),
            or_dash(socket.tx_queue),
            or_dash(socket.rx_packets),
            or_dash(socket.tx_packets),
            tcp(|t| t.srtt_us),
            tcp(|t| t.cwnd),
            tcp(|t| t.retransmits),
            way.clone(),
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
    use super::super::reading::Polled;
    use super::*;

    fn lane(program: &str, reason: Option<&'static str>) -> Lane {
        Lane {
            lane: 3,
            program: program.to_owned(),
            pid: 100,
            uid: Some(1000),
            processes: 2,
            age_ms: 2500,
            memory_bytes: 29 << 20,
            accelerated: reason.is_none(),
            reason,
            guard: BTreeMap::from([
                ("in_packets", 7),
                ("refused_port", 2),
                ("refused_source", 0),
                ("lost_ring_full", 5),
            ]),
            counters: BTreeMap::from([("TcpInSegs", 5), ("UdpInErrors", 0)]),
            sockets: vec![],
            claims: vec![],
        }
    }

    #[test]
    fn a_page_names_programs_refusals_and_what_the_stacks_counted() {
        let reading =
            StatReading { lanes: vec![lane("nginx", None), lane("tool", Some("no room"))], ..StatReading::default() };
        let page = page(&reading, None);
        assert!(
            page.contains("nginx (process 100, user 1000): lane 3, 2 s, 2 processes, 29 MiB, in 7 packets"),
            "{page}"
        );
        assert!(page.contains("guard: refused port 2, on the way in: lost ring full 5\n"), "{page}");
        assert!(page.contains("tool (process 100, user 1000): on the kernel, 2 processes: no room"), "{page}");
        assert!(page.contains("TcpInSegs") && !page.contains("UdpInErrors"), "{page}");
    }

    #[test]
    fn the_reason_of_a_whole_program_is_said_once() {
        const WHY: &str = "no service ran";
        let mut reading = StatReading { lanes: vec![lane("server", Some(WHY))], ..StatReading::default() };
        reading.lanes[0].sockets = vec![socket("10.0.0.1:80", "10.0.0.2:80", Some(WHY))];
        let page = page(&reading, None);
        assert_eq!(page.matches(WHY).count(), 1, "{page}");
        assert!(page.contains("kernel\n") && !page.contains("[1]"), "{page}");
        reading.lanes[0].sockets[0].polled = Some(Polled { found: 7, slept: 2 });
        let page = super::page(&reading, Some(80));
        assert!(page.contains("kernel, polled") && page.contains(", 7 found by polling, 2 slept"), "{page}");
        assert!(!page.contains("no program"), "{page}");
    }

    #[test]
    fn an_empty_page_says_what_to_do() {
        let hurried = page(&StatReading { incomplete: true, ..StatReading::default() }, None);
        assert!(hurried.contains("may be missing"), "{hurried}");
        let empty = |of_all_users| page(&StatReading { of_all_users, ..StatReading::default() }, None);
        assert!(empty(true).contains("no program is on the fast path: start one with `tickwire run PROGRAM`\n"));
        assert!(empty(false).contains("no program of this user is on the fast path"));
    }

    fn socket(local: &str, remote: &str, reason: Option<&str>) -> SocketReading {
        SocketReading {
            protocol: "tcp",
            accelerated: reason.is_none(),
            reason: reason.map(str::to_owned),
            polled: None,
            pid: 100,
            fd: 5,
            local: local.to_owned(),
            remote: Some(remote.to_owned()),
            state: "CLOSE-WAIT",
            rx_queue: Some(123_456),
            tx_queue: Some(5),
            rx_packets: Some(123_456_789),
            rx_bytes: Some(0),
            tx_packets: Some(5756),
            tx_bytes: Some(0),
            drops: Some(0),
            tcp: Some(Tcp { srtt_us: 485, rto_us: 0, cwnd: 14480, ssthresh: 0, mss: 1448, retransmits: 3 }),
        }
    }

    #[test]
    fn a_page_fits_its_terminal_however_long_the_addresses_are() {
        const WHY: &str =
            "the socket names another interface than that of the route, which is said at some length here";
        let long = "[2001:db8:85a3:1234:5678:8a2e:1370:7334]:65535";
        let mut reading = StatReading {
            lanes: vec![lane("a-program-with-", None), lane("tool", Some(WHY))],
            ..StatReading::default()
        };
        let short = "10.77.0.1:6390";
        reading.lanes[0].sockets =
            vec![socket(long, long, None), socket(short, long, Some(WHY)), socket(short, short, Some(WHY))];
        reading.host.counters = BTreeMap::from([("capture_lost", 0), ("diverted", u64::MAX), ("group_copies", 17)]);
        for width in [80, 120] {
            let page = page(&reading, Some(width));
            assert!(fits(&page, Some(width)), "{width}:\n{page}");
            assert!(page.contains(long) && page.contains("14480"), "{page}");
            assert_eq!(page.matches("kernel [1]").count(), 2, "{page}");
            assert_eq!(page.matches("[1] the socket names").count(), 1, "each reason once: {page}");
        }
        reading.lanes[0].sockets.drain(..2);
        let wide = page(&reading, Some(120));
        assert!(wide.contains("rx pkts"), "a table where it fits: {wide}");
        assert!(page(&reading, Some(80)).lines().any(|line| line.trim() == "to 10.77.0.1:6390"));
    }
}
