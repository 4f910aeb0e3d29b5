//! A panel: a line with its title, and as many lines below it as fit.

use super::super::view::Extent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// For less important text.
pub(super) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
/// For important text.
pub(super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);

/// What a panel shows, for some width.
#[derive(Debug, Default)]
pub(super) struct Panel {
    pub(super) title: String,
    /// A summary at the end of the title's line.
    pub(super) note: String,
    /// A header that does not scroll.
    pub(super) head: Option<Line<'static>>,
    pub(super) lines: Vec<Line<'static>>,
}

impl Panel {
    /// A panel with only a text.
    pub(super) fn saying(title: &str, text: &str, width: usize) -> Self {
        Self { title: title.to_owned(), lines: wrapped(text, width, Style::new()), ..Self::default() }
    }

    /// Its height with all of its lines.
    pub(super) fn height(&self) -> usize {
        self.fixed() + self.lines.len()
    }

    fn fixed(&self) -> usize {
        1 + usize::from(self.head.is_some())
    }

    /// Its extent at this height.
    pub(super) fn extent(&self, height: u16) -> Extent {
        Extent { lines: self.lines.len(), seen: usize::from(height).saturating_sub(self.fixed()) }
    }

    /// Draws it, starting with the line `first`.
    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, first: usize, focused: bool) {
        let mut rows = area.rows();
        let Some(top) = rows.next() else { return };
        let seen = self.extent(area.height).seen;
        let mut note = self.note.clone();
        if seen > 0 && seen < self.lines.len() {
            let last = (first + seen).min(self.lines.len());
            let separator = if note.is_empty() { "" } else { ", " };
            note += &format!("{separator}{}-{last}/{}", first + 1, self.lines.len());
        }
        rule(buffer, top, &self.title, &note, focused);
        let lines = self.head.iter().chain(self.lines.iter().skip(first));
        for (row, line) in rows.zip(lines) {
            buffer.set_line(row.x, row.y, line, row.width);
        }
    }
}

/// The line with the title.
fn rule(buffer: &mut Buffer, row: Rect, title: &str, note: &str, focused: bool) {
    let width = usize::from(row.width);
    let line = "─".repeat(width);
    buffer.set_stringn(row.x, row.y, &line, width, FAINT);
    let mark = if focused { "▸" } else { "─" };
    buffer.set_stringn(row.x, row.y, mark, width, if focused { STRONG } else { FAINT });
    let note = if note.is_empty() { String::new() } else { fit(&format!(" {note} "), width.saturating_sub(4) / 2) };
    let room = width.saturating_sub(3 + breadth(&note) + 1);
    let title = fit(&format!(" {title} "), room);
    buffer.set_stringn(row.x.saturating_add(1), row.y, &title, width.saturating_sub(1), STRONG);
    if let Some(before) = width.checked_sub(breadth(&note) + 1)
        && !note.is_empty()
    {
        let x = row.x.saturating_add(u16::try_from(before).unwrap_or(u16::MAX));
        buffer.set_stringn(x, row.y, &note, breadth(&note), Style::new());
    }
}

/// A column of figures or words.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) title: String,
    pub(super) width: usize,
    /// Aligned to the right, for figures.
    pub(super) right: bool,
}

/// A row of such columns.
pub(super) fn row(columns: &[Column], cells: impl IntoIterator<Item = (String, Style)>) -> Line<'static> {
    let mut spans = Vec::new();
    for (column, (text, style)) in columns.iter().zip(cells) {
        let text = fit(&text, column.width);
        let blank = " ".repeat(column.width.saturating_sub(breadth(&text)));
        let (before, after) = if column.right { (blank, String::new()) } else { (String::new(), blank) };
        spans.extend([Span::raw(before), Span::styled(text, style), Span::raw(after + " ")]);
    }
    Line::from(spans)
}

/// The header row of such columns.
pub(super) fn titles(columns: &[Column]) -> Line<'static> {
    row(columns, columns.iter().map(|column| (column.title.clone(), FAINT)))
}

/// A text in lines of this width.
pub(super) fn wrapped(text: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    let text = tickwire_show::layout::wrap(text, Some(width));
    text.lines().map(|line| Line::styled(line.to_owned(), style)).collect()
}

/// Cuts a text to this width, with a mark if anything is cut.
pub(super) fn fit(text: &str, width: usize) -> String {
    if breadth(text) <= width {
        return text.to_owned();
    }
    let mut text = text.to_owned();
    while !text.is_empty() && breadth(&text) + 1 > width {
        text.pop();
    }
    if width == 0 { String::new() } else { text + "…" }
}

/// How many columns of the terminal a text takes.
pub(super) fn breadth(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_seen_to_be_cut() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("日本語", 4), "日…", "wide characters take two columns");
        assert_eq!((fit("abc", 1), fit("abc", 0)), ("…".into(), String::new()));
    }

    fn drawn(panel: &Panel, width: u16, height: u16, first: usize) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        panel.draw(&mut buffer, area, first, true);
        super::super::lines_of(&buffer).join("\n")
    }

    #[test]
    fn a_panel_shows_as_many_lines_as_there_is_room_for_and_says_which() {
        let lines = (1..=9).map(|number| Line::raw(format!("line {number}"))).collect();
        let panel = Panel { title: "T".into(), note: "all".into(), head: Some(Line::raw("head")), lines };
        let rule = |length: usize, note: &str| format!("▸ T {} {note} ─", "─".repeat(length));
        assert_eq!(drawn(&panel, 33, 4, 2), rule(16, "all, 3-4/9") + "\nhead\nline 3\nline 4");
        assert_eq!(drawn(&panel, 33, 1, 0), rule(23, "all"));
        assert_eq!(panel.height(), 11);
        // Whatever the size is, nothing is written beyond it.
        for width in 0..30 {
            for height in 0..5 {
                drawn(&panel, width, height, 0);
            }
        }
    }
}
