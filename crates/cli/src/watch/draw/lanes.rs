//! The panel of programs on lanes: their sockets, queues and retransmissions, and why some are on
//! the kernel.

use super::super::dropped;
use super::figures::{count, time};
use super::panel::{Column, FAINT, Panel, STRONG, row, titles, wrapped};
use super::plain;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use std::collections::BTreeMap;
use tickwire_show::stat::{Interface, Lane, SocketReading, StatReading};

pub(super) fn panel(service: &Result<StatReading, String>, width: usize) -> Panel {
    let reading = match service {
        Ok(reading) => reading,
        Err(why) => return Panel::saying("Lanes", &plain(why), width),
    };
    let mut panel = Panel { title: "Lanes".to_owned(), note: note(reading), ..Panel::default() };
    if reading.lanes.is_empty() {
        let (whose, who) = if reading.of_all_users { ("", "") } else { (" of this user", " (root sees those of all)") };
        let text = format!("no program{whose} is on the fast path: start one with `tickwire run PROGRAM`{who}");
        panel.lines = wrapped(&text, width, Style::new());
    } else {
        let (columns, fields) = columns(width);
        panel.head = Some(titles(&columns));
        for lane in &reading.lanes {
            panel.lines.push(row(&columns, fields.iter().map(|field| (field.cell)(lane))));
            panel.lines.extend(why(lane, width));
        }
    }
    panel.lines.extend(interfaces(&reading.host.interfaces, width));
    panel
}

fn note(reading: &StatReading) -> String {
    let diverted = reading.host.counters.get("diverted").copied().unwrap_or(0);
    format!("{} packets diverted", count(diverted, 9))
}

/// The reasons why the program, or some of its sockets, are on the kernel: each once.
fn why(lane: &Lane, width: usize) -> Vec<Line<'static>> {
    let style = Style::new().fg(Color::Yellow);
    if let Some(reason) = lane.reason {
        return wrapped(&format!("  on the kernel: {reason}"), width, style);
    }
    let mut reasons = BTreeMap::new();
    for reason in lane.sockets.iter().filter(|socket| !socket.accelerated).filter_map(|socket| socket.reason.as_deref())
    {
        *reasons.entry(reason).or_insert(0_u64) += 1;
    }
    let said = |(reason, count): (&str, u64)| {
        let many = if count == 1 { "socket" } else { "sockets" };
        wrapped(&format!("  {count} {many} on the kernel: {}", plain(reason)), width, style)
    };
    reasons.into_iter().flat_map(said).collect()
}

fn interfaces(interfaces: &[Interface], width: usize) -> Vec<Line<'static>> {
    if interfaces.is_empty() {
        return wrapped("no interface is accelerated", width, Style::new().fg(Color::Yellow));
    }
    let said = |interface: &Interface| match interface.reason {
        Some(reason) => format!("{}: not accelerated: {reason}", plain(&interface.name)),
        None => format!("{}: {}", plain(&interface.name), interface.mode),
    };
    let all: Vec<String> = interfaces.iter().map(said).collect();
    wrapped(&format!("interfaces: {}", all.join("; ")), width, FAINT)
}

/// A column, shown on panels of at least a certain width.
#[derive(Clone, Copy)]
struct Field {
    title: &'static str,
    width: usize,
    from: usize,
    cell: fn(&Lane) -> (String, Style),
}

/// The program's name takes the rest of the width.
const NAME: usize = 0;
const SHORTEST_NAME: usize = 8;
const LONGEST_NAME: usize = 32;

const FIELDS: [Field; 10] = [
    Field { title: "program", width: NAME, from: 0, cell: |lane| (plain(&lane.program), STRONG) },
    Field { title: "pid", width: 7, from: 48, cell: |lane| (lane.pid.to_string(), Style::new()) },
    Field { title: "on lane", width: 7, from: 0, cell: on_lane },
    Field { title: "RTT", width: 7, from: 0, cell: |lane| (round_trip(lane), Style::new()) },
    Field { title: "Recv-Q", width: 7, from: 56, cell: |lane| (queued(lane, |socket| socket.rx_queue), Style::new()) },
    Field { title: "Send-Q", width: 7, from: 70, cell: |lane| (queued(lane, |socket| socket.tx_queue), Style::new()) },
    Field { title: "in", width: 9, from: 96, cell: |lane| (packets(lane, "in_packets"), Style::new()) },
    Field { title: "out", width: 9, from: 96, cell: |lane| (packets(lane, "out_packets"), Style::new()) },
    Field { title: "rexmit", width: 6, from: 0, cell: |lane| noticed(retransmitted(lane), Color::Yellow) },
    Field { title: "drops", width: 6, from: 0, cell: |lane| noticed(dropped::in_all(lane), Color::Red) },
];

/// The columns for a panel of this width.
fn columns(width: usize) -> (Vec<Column>, Vec<Field>) {
    let fields: Vec<Field> = FIELDS.into_iter().filter(|field| width >= field.from).collect();
    let taken: usize = fields.iter().map(|field| field.width + 1).sum();
    let name = (width + 1).saturating_sub(taken).clamp(SHORTEST_NAME, LONGEST_NAME);
    let column = |field: &Field| {
        let is_name = field.width == NAME;
        Column { title: field.title.to_owned(), width: if is_name { name } else { field.width }, right: !is_name }
    };
    (fields.iter().map(column).collect(), fields)
}

/// How many of its sockets are on the lane.
fn on_lane(lane: &Lane) -> (String, Style) {
    if !lane.accelerated {
        return ("none".to_owned(), Style::new().fg(Color::Yellow));
    }
    let (on, all) = (lane.sockets.iter().filter(|socket| socket.accelerated).count(), lane.sockets.len());
    let style = if on == all { Style::new() } else { Style::new().fg(Color::Yellow) };
    (format!("{on}/{all}"), style)
}

/// The longest smoothed round trip of its connections, in us; none without one.
pub(crate) fn longest_round_trip_us(lane: &Lane) -> Option<u32> {
    lane.sockets.iter().filter_map(|socket| socket.tcp.as_ref().map(|tcp| tcp.srtt_us)).filter(|us| *us > 0).max()
}

fn round_trip(lane: &Lane) -> String {
    longest_round_trip_us(lane).map_or_else(|| "-".to_owned(), |us| time(u64::from(us) * 1000))
}

/// The bytes in a queue, over all of its sockets.
fn queued(lane: &Lane, queue: fn(&SocketReading) -> Option<u32>) -> String {
    count(lane.sockets.iter().filter_map(queue).map(u64::from).sum(), 7)
}

fn packets(lane: &Lane, name: &str) -> String {
    count(lane.guard.get(name).copied().unwrap_or(0), 9)
}

fn retransmitted(lane: &Lane) -> u64 {
    lane.counters.get("TcpRetransSegs").copied().unwrap_or(0)
}

/// A count that should be zero.
fn noticed(number: u64, color: Color) -> (String, Style) {
    (count(number, 6), if number == 0 { Style::new() } else { Style::new().fg(color) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_take_no_more_than_there_is() {
        for width in 40..250 {
            let (columns, _) = columns(width);
            let taken: usize = columns.iter().map(|column| column.width + 1).sum();
            assert!(taken <= width + 1, "{width}: {taken}");
        }
    }
}
