//! The panel of drops: where packets were dropped, and why.

use super::super::dropped::{self, KINDS};
use super::figures::count;
use super::panel::{Panel, wrapped};
use super::plain;
use ratatui::style::{Color, Style};
use tickwire_show::stat::{Lane, StatReading};

/// The host's counters of lost packets.
const OF_THE_HOST: [(&str, &str); 3] = [
    ("stray_fragments", "fragments without their first"),
    ("capture_lost", "missed by capture"),
    ("lost_redirect", "not taken by the card"),
];

pub(super) fn panel(service: &Result<StatReading, String>, width: usize) -> Panel {
    let title = "Drops";
    let Ok(reading) = service else {
        return Panel::saying(title, "the service counts what is dropped, and none answers", width);
    };
    let host = OF_THE_HOST.iter().map(|(name, words)| (*words, reading.host.counters.get(name).copied().unwrap_or(0)));
    let mut said: Vec<String> = listed("this host", host).into_iter().collect();
    said.extend(reading.lanes.iter().filter_map(of_lane));
    if said.is_empty() {
        return Panel::saying(title, "nothing was dropped", width);
    }
    let style = Style::new().fg(Color::Red);
    let lines = said.iter().flat_map(|text| wrapped(text, width, style)).collect();
    Panel { title: title.to_owned(), note: in_all(reading), lines, ..Panel::default() }
}

fn in_all(reading: &StatReading) -> String {
    let lanes = reading.lanes.iter().map(dropped::in_all).fold(0, u64::saturating_add);
    format!("{} on lanes", count(lanes, 9))
}

fn of_lane(lane: &Lane) -> Option<String> {
    let who = format!("{} ({})", plain(&lane.program), lane.pid);
    listed(&who, KINDS.iter().map(|kind| kind.words).zip(dropped::of(lane)))
}

/// The losses that are not zero, as text.
fn listed<'a>(who: &str, losses: impl Iterator<Item = (&'a str, u64)>) -> Option<String> {
    let some: Vec<String> = losses
        .filter(|(_, number)| *number > 0)
        .map(|(words, number)| format!("{words} {}", count(number, 9)))
        .collect();
    (!some.is_empty()).then(|| format!("{who}: {}", some.join(", ")))
}
