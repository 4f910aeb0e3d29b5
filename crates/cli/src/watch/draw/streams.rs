//! The panel of a running testbed's streams: the latencies of their messages, and their deadlines.

use super::super::snapshot::Watched;
use super::super::view::Order;
use super::figures::{bar, count, scale, size, time};
use super::panel::{Column, FAINT, Panel, STRONG, row, titles};
use super::plain;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tickwire_testbed::controller::LiveStream;
use tickwire_testbed::live::Shown;
use tickwire_testbed::outcome::StreamDescription;
use tickwire_testbed::pattern::Transport;

/// Figures of a testbed older than this are marked as old.
const OLD: Duration = Duration::from_secs(3);
/// The greatest width of bars.
const WIDEST_BAR: usize = 60;

pub(super) fn panel(testbed: &Result<Watched, String>, order: Order, width: usize) -> Panel {
    let watched = match testbed {
        Ok(watched) => watched,
        Err(why) => return Panel::saying("Streams", &plain(why), width),
    };
    let mut streams = Stream::all(&watched.shown);
    order_by(&mut streams, order);
    let (columns, fields) = columns(width);
    let bar = columns.iter().zip(&fields).find(|(_, field)| field.bar).map_or(0, |(column, _)| column.width);
    let line = |stream: &Stream<'_>| row(&columns, fields.iter().map(|field| (field.cell)(stream, bar)));
    let lines: Vec<Line<'static>> = streams.iter().map(line).collect();
    Panel { title: title(watched), note: note(&streams), head: Some(titles(&columns)), lines }
}

/// The run and its progress, then the parts that may be cut.
fn title(watched: &Watched) -> String {
    let Shown { pid, pattern, step, live, clock, .. } = &watched.shown;
    let mut title = match (clock, live) {
        (Some(clock), _) => format!(
            "Streams: done; clock {}/{}, {}, {:.0}/{:.0} s",
            clock.row,
            clock.rows,
            plain(&clock.name),
            clock.passed_s.clamp(0.0, 1e9),
            clock.whole_s.clamp(0.0, 1e9)
        ),
        (None, None) => "Streams: beginning".to_owned(),
        (None, Some(live)) => {
            let step = step.filter(|step| step.of > 1).map(|step| format!(", run {}/{}", step.number, step.of));
            let (elapsed, duration) = (live.elapsed_s, live.duration_s.clamp(0.0, 1e9));
            let far = if elapsed < 0.0 {
                "warming up".to_owned()
            } else {
                format!("{:.0}/{duration:.0} s", elapsed.min(duration))
            };
            format!("Streams: {}{}, {far}", crate::testbed::name(live), step.unwrap_or_default())
        }
    };
    if watched.age > OLD {
        title += &format!(", {} s ago", watched.age.as_secs());
    }
    let file = Path::new(pattern).file_name().map_or(pattern.as_str().into(), |name| name.to_string_lossy());
    title += &format!(" ({}", plain(&file));
    if watched.others > 0 {
        title += &format!("; process {pid}, {} more: --run", watched.others);
    }
    title + ")"
}

/// The number of streams that have met their deadlines so far.
fn note(streams: &[Stream<'_>]) -> String {
    let met = streams.iter().filter(|stream| stream.state() == State::Met).count();
    format!("{met}/{} met", streams.len())
}

/// A stream with its figures.
#[derive(Clone, Debug)]
struct Stream<'a> {
    id: u32,
    what: Option<&'a StreamDescription>,
    live: LiveStream,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No message has arrived yet.
    Silent,
    /// All messages so far arrived in time.
    Met,
    Late,
}

impl<'a> Stream<'a> {
    fn all(shown: &'a Shown) -> Vec<Self> {
        let known: BTreeMap<u32, &StreamDescription> = shown.streams.iter().map(|what| (what.id, what)).collect();
        match &shown.live {
            Some(live) => {
                let stream =
                    |live: &LiveStream| Self { id: live.id, what: known.get(&live.id).copied(), live: live.clone() };
                live.streams.iter().map(stream).collect()
            }
            None => {
                let stream = |what: &'a StreamDescription| {
                    let deadline_ns = (what.deadline_ms * 1e6) as u64;
                    let live = LiveStream { id: what.id, deadline_ns, ..LiveStream::default() };
                    Self { id: what.id, what: Some(what), live }
                };
                shown.streams.iter().map(stream).collect()
            }
        }
    }

    fn state(&self) -> State {
        match (self.live.received, self.live.late) {
            (_, 1..) => State::Late,
            (0, 0) => State::Silent,
            (1.., 0) => State::Met,
        }
    }

    fn style(&self) -> Style {
        match self.state() {
            State::Silent => FAINT,
            State::Met => Style::new().fg(Color::Green),
            State::Late => STRONG.fg(Color::Red),
        }
    }
}

fn order_by(streams: &mut [Stream<'_>], order: Order) {
    match order {
        Order::Pattern => {}
        // By the ratio of worst latency to deadline: the comparison is multiplied by both
        // deadlines.
        Order::Margin => streams.sort_by(|a, b| {
            let share = |one: &Stream<'_>, other: &Stream<'_>| {
                u128::from(one.live.worst_ever_ns) * u128::from(other.live.deadline_ns.max(1))
            };
            share(b, a).cmp(&share(a, b))
        }),
        Order::Late => streams.sort_by_key(|stream| std::cmp::Reverse(stream.live.late)),
    }
}

/// A column, shown on panels of a range of widths.
#[derive(Clone, Copy)]
struct Field {
    title: &'static str,
    width: usize,
    right: bool,
    /// The range of panel widths with this column.
    on: (usize, usize),
    /// It takes the rest of the width.
    bar: bool,
    cell: fn(&Stream<'_>, usize) -> (String, Style),
}

const ANY: usize = usize::MAX;

const FIELDS: [Field; 12] = [
    Field { cell: |s, _| (s.id.to_string(), STRONG), ..right("stream", 6, (0, ANY)) },
    Field {
        cell: |s, _| (s.what.map(|what| what.producer.to_string()).unwrap_or_default(), Style::new()),
        ..right("producer", 8, (110, ANY))
    },
    Field { cell: |s, _| (transport(s, short), Style::new()), ..left("by", 6, (44, 110)) },
    Field { cell: |s, _| (transport(s, Transport::name), Style::new()), ..left("by", 15, (110, ANY)) },
    Field {
        cell: |s, _| (s.what.map(|what| size(what.size_bytes.into())).unwrap_or_default(), Style::new()),
        ..right("size", 8, (76, ANY))
    },
    Field { cell: |s, _| (time(s.live.deadline_ns), Style::new()), ..right("deadline", 8, (36, ANY)) },
    Field { cell: |s, _| (came(s.live.worst_ns), Style::new()), ..right("lately", 7, (52, ANY)) },
    Field { cell: |s, _| (came(s.live.worst_ever_ns), s.style()), ..right("worst", 7, (0, ANY)) },
    Field {
        bar: true,
        cell: |s, width| (bar(s.live.worst_ever_ns, s.live.deadline_ns, width), s.style()),
        ..left("", 8, (58, ANY))
    },
    Field { cell: |s, _| (count(s.live.sent, 9), Style::new()), ..right("sent", 9, (110, ANY)) },
    Field { cell: |s, _| (count(s.live.received, 9), Style::new()), ..right("received", 9, (76, ANY)) },
    Field { cell: |s, _| (state(s), s.style()), ..left("state", 9, (0, ANY)) },
];

const fn left(title: &'static str, width: usize, on: (usize, usize)) -> Field {
    Field { title, width, right: false, on, bar: false, cell: |_, _| (String::new(), Style::new()) }
}

const fn right(title: &'static str, width: usize, on: (usize, usize)) -> Field {
    Field { right: true, ..left(title, width, on) }
}

/// The columns for a panel of this width.
fn columns(width: usize) -> (Vec<Column>, Vec<Field>) {
    let fields: Vec<Field> = FIELDS.into_iter().filter(|field| (field.on.0..field.on.1).contains(&width)).collect();
    let taken: usize = fields.iter().map(|field| if field.bar { 1 } else { field.width + 1 }).sum();
    let column = |field: &Field| {
        if !field.bar {
            return Column { title: field.title.to_owned(), width: field.width, right: field.right };
        }
        let width = (width + 1).saturating_sub(taken).clamp(field.width, WIDEST_BAR);
        Column { title: scale(width), width, right: false }
    };
    (fields.iter().map(column).collect(), fields)
}

fn transport(stream: &Stream<'_>, name: fn(Transport) -> &'static str) -> String {
    stream.what.map(|what| name(what.transport)).unwrap_or_default().to_owned()
}

/// A transport's short name.
const fn short(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::LowLatencyTcp => "tcp-ll",
        Transport::Udp => "udp",
        Transport::UdpMulticast => "udp-mc",
    }
}

/// A latency; "-" if no message has arrived.
fn came(ns: u64) -> String {
    if ns == 0 { "-".to_owned() } else { time(ns) }
}

fn state(stream: &Stream<'_>) -> String {
    match stream.state() {
        State::Silent => "-".to_owned(),
        State::Met => "met".to_owned(),
        State::Late => format!("{} LATE", count(stream.live.late, 4)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn ids(order: Order) -> Vec<u32> {
        let watched = testing::watched();
        let mut streams = Stream::all(&watched.shown);
        order_by(&mut streams, order);
        streams.iter().map(|stream| stream.id).take(3).collect()
    }

    #[test]
    fn streams_stand_in_the_order_that_was_asked_for() {
        assert_eq!(ids(Order::Pattern), [10, 11, 12]);
        // In the fixture, 13 is late, and 12 is the next nearest to its deadline.
        assert_eq!(ids(Order::Margin), [13, 12, 11]);
        assert_eq!(ids(Order::Late)[0], 13);
    }

    #[test]
    fn columns_take_no_more_than_there_is() {
        for width in 30..250 {
            let (columns, _) = columns(width);
            let taken: usize = columns.iter().map(|column| column.width + 1).sum();
            assert!(taken <= width + 1, "{width}: {taken}");
        }
    }
}
