//! Draws a snapshot on a page of any size. No I/O: the same snapshot always gives the same page.

mod clock;
mod drops;
mod figures;
mod help;
mod lanes;
mod panel;
mod streams;
#[cfg(test)]
pub(super) mod testing;

pub(super) use lanes::longest_round_trip_us;

use super::snapshot::Snapshot;
use super::view::{Extent, PanelId, View};
use panel::{FAINT, Panel, fit};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::Span;
use tickwire_show::sanitize_terminal::sanitized;

/// From this width on, the streams have a column of their own, if the page is not too low.
const WIDE: u16 = 150;
/// The longest untrusted text that is shown, in characters.
const LONGEST: usize = 500;

/// Makes an untrusted text safe to show.
fn plain(text: &str) -> String {
    sanitized(text, LONGEST)
}

/// Draws a page; returns the extents of the panels that scroll. `old_s` is the snapshot's age in
/// seconds, if the next one is overdue.
pub(super) fn page(
    buffer: &mut Buffer,
    area: Rect,
    snapshot: Option<&Snapshot>,
    view: &View,
    old_s: Option<u64>,
) -> [Extent; 2] {
    let Some(snapshot) = snapshot else {
        let text = "asking the clock, the service and the testbed ...";
        buffer.set_stringn(area.x, area.y, text, area.width.into(), Style::new());
        return Default::default();
    };
    // A low page has no line for the keys.
    let footer = u16::from(area.height >= 8);
    let [above, below] = [
        Rect { height: area.height - footer, ..area },
        Rect { y: area.y + area.height - footer, height: footer, ..area },
    ];
    let extents = panels(buffer, above, snapshot, view);
    keys(buffer, below, view, old_s);
    if view.help {
        help::draw(buffer, area);
    }
    extents
}

/// The panels, in the order in which they get lines.
struct Panels {
    clock: Panel,
    streams: Panel,
    lanes: Panel,
    drops: Panel,
}

impl Panels {
    /// For columns of these widths.
    fn new(snapshot: &Snapshot, view: &View, streams: u16, rest: u16) -> Self {
        Self {
            clock: clock::panel(&snapshot.clock, rest.into()),
            streams: streams::panel(&snapshot.testbed, view.order, streams.into()),
            lanes: lanes::panel(&snapshot.service, rest.into()),
            drops: drops::panel(&snapshot.service, rest.into()),
        }
    }
}

fn panels(buffer: &mut Buffer, area: Rect, snapshot: &Snapshot, view: &View) -> [Extent; 2] {
    let mut draw = |panel: &Panel, area: Rect, id: Option<PanelId>| {
        let extent = panel.extent(area.height);
        let first = id.map_or(0, |id| view.first(id, extent));
        panel.draw(buffer, area, first, id == Some(view.focus));
        extent
    };
    if area.width >= WIDE && area.height >= 20 {
        // One column stays free between them.
        let left = Rect { width: (area.width - 1) * 3 / 5, ..area };
        let right = Rect { x: left.right() + 1, width: area.width - left.width - 1, ..area };
        let all = Panels::new(snapshot, view, left.width, right.width);
        let wanted = [(&all.clock, 5), (&all.lanes, 6), (&all.drops, 2)];
        let [clock, lanes, drops] = stacked(right, wanted);
        draw(&all.clock, clock, None);
        draw(&all.drops, drops, None);
        return [draw(&all.streams, left, Some(PanelId::Streams)), draw(&all.lanes, lanes, Some(PanelId::Lanes))];
    }
    let all = Panels::new(snapshot, view, area.width, area.width);
    // On a low page only the first line of the clock is guaranteed: it says the most.
    let clock = if area.height < 16 { 2 } else { 4 };
    let wanted = match view.focus {
        PanelId::Streams => [(&all.clock, clock), (&all.streams, 6), (&all.lanes, 5), (&all.drops, 2)],
        PanelId::Lanes => [(&all.clock, clock), (&all.streams, 4), (&all.lanes, 7), (&all.drops, 2)],
    };
    let [clock, streams, lanes, drops] = stacked(area, wanted);
    draw(&all.clock, clock, None);
    draw(&all.drops, drops, None);
    [draw(&all.streams, streams, Some(PanelId::Streams)), draw(&all.lanes, lanes, Some(PanelId::Lanes))]
}

/// Stacks panels: each first gets its given number of lines, or fewer if it has fewer. Then the
/// remaining lines go in turn to the panels that have more.
fn stacked<const N: usize>(area: Rect, panels: [(&Panel, usize); N]) -> [Rect; N] {
    let mut left = usize::from(area.height);
    let mut heights = panels.map(|(panel, least)| {
        let height = panel.height().min(least).min(left);
        left -= height;
        height
    });
    while left > 0 {
        let before = left;
        for (height, (panel, _)) in heights.iter_mut().zip(&panels) {
            if left > 0 && *height < panel.height() {
                *height += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    let mut y = area.y;
    heights.map(|height| {
        let height = u16::try_from(height).unwrap_or(u16::MAX);
        let place = Rect { y, height, ..area };
        y += height;
        place
    })
}

/// The last line: the keys, or a warning that the figures are old.
fn keys(buffer: &mut Buffer, area: Rect, view: &View, old_s: Option<u64>) {
    if area.height == 0 {
        return;
    }
    let width = usize::from(area.width);
    let text = format!("q quit  ? help  Tab panel  ↑↓ PgUp PgDn scroll  s sort: {}", view.order.name());
    buffer.set_stringn(area.x, area.y, fit(&text, width), width, FAINT);
    if let Some(seconds) = old_s {
        let text = format!(" these figures are {seconds} s old: a daemon is slow to answer ");
        let style = Style::new().fg(Color::Black).bg(Color::Yellow);
        buffer.set_stringn(area.x, area.y, fit(&text, width), width, style);
    }
}

/// All of a snapshot as plain text of this width, as high as it takes.
pub(super) fn text(snapshot: &Snapshot, width: u16) -> String {
    let panels = Panels::new(snapshot, &View::default(), width, width);
    let mut text = String::new();
    for panel in [&panels.clock, &panels.streams, &panels.lanes, &panels.drops] {
        let height = u16::try_from(panel.height()).unwrap_or(u16::MAX);
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        panel.draw(&mut buffer, area, 0, false);
        for line in lines_of(&buffer) {
            text += &line;
            text.push('\n');
        }
    }
    text
}

/// The text of a buffer, line by line.
fn lines_of(buffer: &Buffer) -> Vec<String> {
    let line = |row: Rect| {
        let mut line = String::new();
        let mut x = row.x;
        while x < row.right() {
            let symbol = buffer[(x, row.y)].symbol();
            line += symbol;
            // A wide character covers the cell behind it.
            x += u16::try_from(Span::raw(symbol).width().max(1)).unwrap_or(1);
        }
        line.trim_end().to_owned()
    };
    buffer.area.rows().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::view::{Meaning, Order};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    fn drawn(snapshot: &Snapshot, view: &View, width: u16, height: u16) -> (Vec<String>, [Extent; 2]) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut extents = Default::default();
        terminal
            .draw(|frame| {
                let area = frame.area();
                extents = page(frame.buffer_mut(), area, Some(snapshot), view, None);
            })
            .unwrap();
        (lines_of(terminal.backend().buffer()), extents)
    }

    /// The line that begins with this, blanks aside.
    fn line<'l>(lines: &'l [String], begin: &str) -> &'l str {
        lines.iter().find(|line| line.trim_start().starts_with(begin)).unwrap_or_else(|| panic!("{begin}: {lines:#?}"))
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_page_of_80_by_24_has_all_four_panels_and_their_figures() {
        let (lines, extents) = drawn(&testing::snapshot(), &View::default(), 80, 24);
        let all = lines.join("\n");
        assert!(line(&lines, "─ Clock ").ends_with(" synchronised ─"), "{all}");
        assert!(all.contains("2026-11-21 17:05:09.123456789 UTC  ± 21.40 us\n"), "{all}");
        assert!(all.contains("follows 192.0.2.1, stratum 1, asked every 1.000 s, heard 250.000 ms ago"), "{all}");
        assert!(line(&lines, "▸ Streams: Tickwire, scheduled, run 2/3, 12/30 s ").contains(" 47/48 met, 1-"), "{all}");
        let title = words(line(&lines, "stream "));
        assert_eq!(title[..6], ["stream", "by", "size", "deadline", "lately", "worst"]);
        assert_eq!(title[7..], ["│", "received", "state"]);
        let met = line(&lines, "10 ");
        assert_eq!(words(met)[..11], ["10", "tcp", "10", "B", "5.00", "ms", "120", "us", "450", "us", "██████···│··"]);
        assert!(met.ends_with(" 1200 met"), "{met}");
        let late = line(&lines, "13 ");
        assert!(late.contains("12.0 ms █████████│█·") && late.ends_with(" 3 LATE"), "{late}");
        assert!(line(&lines, "▸ Streams").contains(&format!("1-{}/48 ", extents[0].seen)), "{all}");
        assert!(extents[0].seen >= 5, "{all}");
        assert!(line(&lines, "─ Lanes ").ends_with(" 123456 packets diverted ─"), "{all}");
        assert_eq!(
            words(line(&lines, "program ")),
            ["program", "pid", "on", "lane", "RTT", "Recv-Q", "Send-Q", "rexmit", "drops"]
        );
        let lane = line(&lines, "daq-consumer ");
        assert_eq!(words(lane), ["daq-consumer", "4242", "2/3", "485", "us", "123", "4567", "3", "7"]);
        assert!(all.contains("  1 socket on the kernel: the peer is on this host\n"), "{all}");
        assert!(all.contains("daq-consumer (4242): refused by the guard 2, receive buffer full 5\n"), "{all}");
        assert!(lines[23].starts_with("q quit  ? help") && lines[23].ends_with("s sort: pattern"), "{all}");
        assert_eq!(lines.len(), 24);
    }

    #[test]
    fn a_small_page_keeps_what_matters() {
        let (lines, _) = drawn(&testing::snapshot(), &View::default(), 60, 20);
        let all = lines.join("\n");
        assert!(all.contains("± 21.40 us"), "{all}");
        let late = line(&lines, "13 ");
        assert!(late.contains("tcp-ll") && late.contains("12.0 ms ") && late.ends_with(" 3 LATE"), "{late}");
        assert!(words(line(&lines, "daq-consumer ")).ends_with(&["3", "7"]), "{all}");
        assert!(all.contains("refused by the guard 2"), "{all}");
        assert!(lines.iter().all(|line| panel::breadth(line) <= 60), "{all}");
    }

    #[test]
    fn a_wide_page_has_streams_beside_the_rest() {
        let (lines, extents) = drawn(&testing::snapshot(), &View::default(), 160, 50);
        let all = lines.join("\n");
        assert!(lines[0].starts_with("▸ Streams: Tickwire") && lines[0].contains("─ Clock "), "{all}");
        assert_eq!(extents[0], Extent { lines: 48, seen: 47 });
        assert!(all.contains("─ Lanes ") && all.contains("─ Drops "), "{all}");
        assert!(line(&lines, "13 ").contains("3 LATE"), "{all}");
        assert!(lines[49].starts_with("q quit"), "{all}");
        // A page with all columns.
        let (lines, _) = drawn(&testing::snapshot(), &View::default(), 140, 50);
        assert!(line(&lines, "stream ").contains(" producer by ") && line(&lines, "stream ").contains(" sent "));
        assert!(line(&lines, "13 ").contains("low-latency-tcp"));
        assert!(line(&lines, "program ").contains(" in "));
    }

    #[test]
    fn what_is_not_there_is_said_with_what_to_do() {
        for (width, height) in [(80, 24), (60, 20), (140, 50)] {
            let (lines, _) = drawn(&testing::nothing(), &View::default(), width, height);
            let all = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            for said in ["`tickwire clock run`", "start `tickwire service`", "`tickwire testbed run`", "none answers"] {
                assert!(all.contains(said), "{width}x{height}: {said}: {lines:#?}");
            }
        }
    }

    #[test]
    fn a_service_without_programs_and_a_clock_without_time_say_why() {
        let (lines, _) = drawn(&testing::idle(), &View::default(), 80, 24);
        let all = lines.join("\n");
        assert!(all.contains("the time is not known"), "{all}");
        assert!(all.contains("192.0.2.1: does not answer"), "{all}");
        let said = all.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("start one with `tickwire run PROGRAM`"), "{all}");
        assert!(all.contains("eth9: not accelerated: "), "{all}");
        assert!(all.contains("nothing was dropped"), "{all}");
        assert!(line(&lines, "▸ Streams").contains(": beginning"), "{all}");
        assert!(line(&lines, "10 ").ends_with(" -"), "{all}");
    }

    #[test]
    fn the_clocks_part_of_a_run_is_told_with_its_progress() {
        let (lines, _) = drawn(&testing::clock_measured(), &View::default(), 80, 24);
        let title = line(&lines, "▸ Streams");
        assert!(title.contains("Streams: done; clock 1/2, sync every 1 s, 3/7 s (2015)"), "{title}");
    }

    #[test]
    fn hostile_names_do_no_harm() {
        let hostile = testing::hostile();
        for (width, height) in [(80, 24), (60, 20), (160, 50)] {
            let (lines, _) = drawn(&hostile, &View::default(), width, height);
            let all = lines.join("\n") + &text(&hostile, width);
            assert!(all.contains("\\u{1b}[2J"), "{all}");
            assert!(!all.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{all:?}");
            assert!(lines.iter().all(|line| panel::breadth(line) <= width.into()), "{all}");
        }
    }

    #[test]
    fn keys_scroll_sort_and_explain() {
        let snapshot = testing::snapshot();
        let mut view = View::default();
        let mut press = |code: KeyCode| {
            assert_eq!(view.key(code.into()), Meaning::Changed);
            let (lines, extents) = drawn(&snapshot, &view, 80, 24);
            view.settle(extents);
            lines
        };
        press(KeyCode::Tab);
        press(KeyCode::Tab);
        assert!(line(&press(KeyCode::End), "▸ Streams").contains("-48/48"));
        assert!(line(&press(KeyCode::Up), "▸ Streams").contains("-47/48"));
        let lines = press(KeyCode::Char('s'));
        let title = lines.iter().position(|line| line.starts_with("stream ")).unwrap();
        assert!(lines[title + 1].trim_start().starts_with("13 "), "the late one first: {lines:#?}");
        assert!(press(KeyCode::Tab).iter().any(|line| line.starts_with("▸ Lanes")));
        assert!(press(KeyCode::Char('?')).iter().any(|line| line.contains("sort streams")));
        assert!(!press(KeyCode::Char('?')).iter().any(|line| line.contains("sort streams")));
        assert_eq!(view.order, Order::Margin);
    }

    #[test]
    fn a_page_of_any_size_can_be_drawn() {
        let help = {
            let mut view = View::default();
            view.key(KeyCode::Char('?').into());
            view
        };
        for snapshot in [testing::snapshot(), testing::nothing(), testing::hostile()] {
            for width in (0..=40).chain([59, 149, 150, 151, 300]) {
                for height in (0..=30).chain([200]) {
                    for view in [View::default(), help] {
                        let area = Rect::new(0, 0, width, height);
                        let mut buffer = Buffer::empty(area);
                        if area.area() > 0 {
                            page(&mut buffer, area, Some(&snapshot), &view, Some(7));
                            page(&mut buffer, area, None, &view, None);
                        }
                    }
                }
                text(&snapshot, width);
            }
        }
    }

    #[test]
    fn a_page_as_text_has_every_stream_and_no_keys() {
        let text = text(&testing::snapshot(), 80);
        assert_eq!(text.lines().filter(|line| line.ends_with(" met") || line.ends_with(" LATE")).count(), 48, "{text}");
        assert!(text.starts_with("─ Clock ") && !text.contains("q quit") && !text.contains('▸'), "{text}");
        assert!(text.contains("daq-consumer (4242): refused"), "{text}");
    }

    #[test]
    fn figures_that_are_old_are_said_to_be() {
        let area = Rect::new(0, 0, 80, 24);
        let mut buffer = Buffer::empty(area);
        page(&mut buffer, area, Some(&testing::snapshot()), &View::default(), Some(9));
        assert!(lines_of(&buffer)[23].contains("these figures are 9 s old"));
    }
}
