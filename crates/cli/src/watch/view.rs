//! The state of the view, and the keys that change it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The panels that scroll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PanelId {
    #[default]
    Streams,
    Lanes,
}

/// The order of the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// As in the pattern.
    #[default]
    Pattern,
    /// The stream that came nearest to its deadline, or most beyond it, first.
    Margin,
    /// The stream that is late most often first.
    Late,
}

impl Order {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Margin => "margin",
            Self::Late => "late",
        }
    }
}

/// The lines of a panel, and how many of them are visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) lines: usize,
    pub(super) seen: usize,
}

/// The state of the view.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    /// The panel that the arrow keys scroll.
    pub(super) focus: PanelId,
    pub(super) order: Order,
    pub(super) help: bool,
    /// The first visible line of the streams and of the lanes.
    scroll: [usize; 2],
    /// Their extents when last drawn.
    extents: [Extent; 2],
}

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Quit,
    Changed,
    Nothing,
}

impl View {
    /// The first visible line of a panel of this extent.
    pub(super) fn first(&self, panel: PanelId, extent: Extent) -> usize {
        self.scroll[panel as usize].min(extent.lines.saturating_sub(extent.seen))
    }

    /// Stores the extents that were drawn.
    pub(super) fn settle(&mut self, extents: [Extent; 2]) {
        self.extents = extents;
        for panel in [PanelId::Streams, PanelId::Lanes] {
            self.scroll[panel as usize] = self.first(panel, extents[panel as usize]);
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Meaning {
        if key.kind == KeyEventKind::Release {
            return Meaning::Nothing;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Meaning::Quit;
        }
        if self.help {
            self.help = false;
            return Meaning::Changed;
        }
        let page = self.extents[self.focus as usize].seen.saturating_sub(1).max(1);
        let at = &mut self.scroll[self.focus as usize];
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Meaning::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Pattern => Order::Margin,
                    Order::Margin => Order::Late,
                    Order::Late => Order::Pattern,
                };
                self.scroll[PanelId::Streams as usize] = 0;
            }
            KeyCode::Tab | KeyCode::BackTab => {
                self.focus = if self.focus == PanelId::Streams { PanelId::Lanes } else { PanelId::Streams };
            }
            KeyCode::Up | KeyCode::Char('k') => *at = at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *at = at.saturating_add(1),
            KeyCode::PageUp => *at = at.saturating_sub(page),
            KeyCode::PageDown => *at = at.saturating_add(page),
            KeyCode::Home => *at = 0,
            KeyCode::End => *at = usize::MAX,
            _ => return Meaning::Nothing,
        }
        self.settle(self.extents);
        Meaning::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, codes: &[KeyCode]) -> Meaning {
        codes.iter().map(|code| view.key((*code).into())).last().unwrap()
    }

    fn drawn() -> View {
        let mut view = View::default();
        view.settle([Extent { lines: 48, seen: 8 }, Extent { lines: 3, seen: 5 }]);
        view
    }

    fn first(view: &View) -> usize {
        view.first(PanelId::Streams, view.extents[0])
    }

    #[test]
    fn keys_scroll_as_far_as_there_are_lines() {
        use KeyCode::{Down, End, Home, PageDown, PageUp, Tab, Up};
        let mut view = drawn();
        for (codes, at) in [
            (&[Up][..], 0),
            (&[Down, Down], 2),
            (&[PageDown], 9),
            (&[PageUp, PageUp], 0),
            (&[End, Down, Down], 40),
            (&[Up], 39),
            (&[Home], 0),
            (&[Tab, Down], 0),
        ] {
            assert_eq!(press(&mut view, codes), Meaning::Changed);
            assert_eq!(first(&view), at, "{codes:?}");
        }
        assert_eq!(view.first(PanelId::Lanes, view.extents[1]), 0, "all of it is seen");
    }

    #[test]
    fn a_larger_terminal_or_fewer_streams_leave_no_empty_panel() {
        let mut view = drawn();
        press(&mut view, &[KeyCode::End]);
        view.settle([Extent { lines: 10, seen: 8 }, Extent::default()]);
        assert_eq!(first(&view), 2);
        view.settle([Extent { lines: 10, seen: 20 }, Extent::default()]);
        assert_eq!(first(&view), 0);
    }

    #[test]
    fn another_order_begins_at_its_top() {
        let mut view = drawn();
        press(&mut view, &[KeyCode::End]);
        let mut orders = Vec::new();
        for _ in 0..3 {
            press(&mut view, &[KeyCode::Char('s')]);
            orders.push(view.order);
            assert_eq!(first(&view), 0);
        }
        assert_eq!(orders, [Order::Margin, Order::Late, Order::Pattern]);
    }

    #[test]
    fn three_keys_quit_and_any_closes_the_help() {
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut drawn(), &[code]), Meaning::Quit);
            let mut view = drawn();
            assert_eq!(press(&mut view, &[KeyCode::Char('?'), code]), Meaning::Changed, "closes the help only");
            assert!(!view.help);
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(drawn().key(interrupt), Meaning::Quit);
        assert_eq!(View { help: true, ..drawn() }.key(interrupt), Meaning::Quit);
        assert_eq!(press(&mut drawn(), &[KeyCode::Char('c')]), Meaning::Nothing);
        let mut up = KeyEvent::from(KeyCode::Char('q'));
        up.kind = KeyEventKind::Release;
        assert_eq!(drawn().key(up), Meaning::Nothing);
    }
}
