//! The help page: the keys, and the meaning of the panels.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Widget};

const TEXT: [&str; 16] = [
    "q, Esc, Ctrl-C   quit",
    "Tab              streams or lanes (▸)",
    "↑ ↓ PgUp PgDn    scroll, also Home, End",
    "s                sort streams: as in the",
    "                 pattern, by margin, by late",
    "",
    "lately, worst    longest latencies so far",
    "0.1%  │  x10     worst on a log scale: from",
    "                 0.1% of the deadline, by the",
    "                 deadline (│), to 10 times it",
    "tcp-ll, udp-mc   low-latency TCP, multicast",
    "on lane          sockets on the lane, of all",
    "RTT              longest round trip (TCP)",
    "rexmit           segments sent again",
    "clock ±          at most so far from UTC",
    "any key          closes this",
];

pub(super) fn draw(buffer: &mut Buffer, area: Rect) {
    let widest = TEXT.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 4;
    let size = |wanted: usize, room: u16| u16::try_from(wanted).unwrap_or(room).min(room);
    let (width, height) = (size(widest, area.width), size(TEXT.len() + 2, area.height));
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(place, buffer);
    let block = Block::bordered().title(" tickwire watch ");
    let inner = block.inner(place);
    block.render(place, buffer);
    let lines: Vec<Line<'_>> = TEXT.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    Paragraph::new(lines).render(inner, buffer);
}
