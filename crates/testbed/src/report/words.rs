//! Figures and names as text.

use crate::outcome::{Carrier, Run, StreamFigures, Timing, Usage};
use crate::pattern::Stream;
use crate::units::millis;
use std::time::Duration;

/// Milliseconds, to the microsecond.
pub(super) fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// Milliseconds in at most six characters (up to 100 s), to the microsecond where that fits.
pub(super) fn short_ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    let decimals = match ms {
        ..9.9995 => 3,
        ..99.995 => 2,
        ..999.95 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$}")
}

/// Milliseconds of a pattern, which are rarely fractions.
pub(super) fn plain_ms(time: Duration) -> String {
    millis(time).to_string()
}

pub(super) const fn carrier(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Kernel => "kernel",
        Carrier::Tickwire => "Tickwire",
    }
}

/// The same after "on".
pub(super) const fn on(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Kernel => "the kernel",
        Carrier::Tickwire => "Tickwire",
    }
}

pub(super) const fn timing(timing: Timing) -> &'static str {
    match timing {
        Timing::Pattern => "as the pattern says",
        Timing::Synchronised => "synchronised",
        Timing::Unscheduled => "unscheduled",
        Timing::Scheduled => "scheduled",
    }
}

/// "1 stream", "2 streams".
pub(super) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

pub(super) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

pub(super) fn megabits(bps: u64) -> String {
    format!("{:.1}", bps as f64 / 1e6)
}

pub(super) fn seconds(ns: u64) -> String {
    let text = format!("{:.1}", ns as f64 / 1e9);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Processor time relative to the measurement's duration: 1 is one processor all the time. None if
/// nothing was measured.
pub(super) fn share(usage: &Usage) -> Option<f64> {
    (usage.elapsed_ns > 0).then(|| (usage.user_ns + usage.system_ns) as f64 / usage.elapsed_ns as f64)
}

/// The sum of a count over all streams of a run.
pub(super) fn total(run: &Run, count: impl Fn(&StreamFigures) -> u64) -> u64 {
    run.streams.iter().map(count).sum()
}

/// The places of drops during a run, if any.
pub(super) fn drops(run: &Run) -> Option<String> {
    let places: Vec<String> = run.drops.iter().map(|(place, count)| format!("{count} at {place}")).collect();
    (!places.is_empty()).then(|| places.join(", "))
}

/// Why a stream failed, in words; empty if it did not.
pub(super) fn shortcomings(stream: &Stream, figures: Option<&StreamFigures>) -> Vec<String> {
    let Some(figures) = figures else { return vec!["not measured".to_owned()] };
    if figures.sent == 0 {
        return vec!["nothing sent".to_owned()];
    }
    let mut words = Vec::new();
    if figures.lost > 0 {
        words.push(format!("{} of {} lost", figures.lost, figures.sent));
    }
    if figures.late > 0 {
        let (worst, deadline) = (ms(figures.latency.max_ns), plain_ms(stream.deadline));
        words.push(format!("{} late: {worst} ms at worst, {deadline} ms allowed", figures.late));
    }
    let others = [(figures.duplicates, "doubled"), (figures.reordered, "out of order"), (figures.corrupt, "corrupt")];
    words.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    if words.is_empty() && !figures.is_met() {
        words.push(format!("{} sent, {} received", figures.sent, figures.received));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Transport;

    #[test]
    fn times_are_short_where_there_is_no_room() {
        let shown = [0, 45_400, 9_999_600, 12_345_678, 99_996_000, 100_000_000_000].map(short_ms);
        assert_eq!(shown, ["0.000", "0.045", "10.00", "12.35", "100.0", "100000"]);
        assert_eq!((ms(45_400), plain_ms(Duration::from_micros(12_500))), ("0.045".to_owned(), "12.5".to_owned()));
    }

    #[test]
    fn what_a_stream_lacks_is_named() {
        let stream = Stream {
            id: 1,
            producer: 1,
            transport: Transport::Udp,
            size: 100,
            period: Duration::from_millis(100),
            deadline: Duration::from_millis(10),
            phase: None,
        };
        let words = |figures: &StreamFigures| shortcomings(&stream, Some(figures)).join(", ");
        let met = StreamFigures { sent: 5, received: 5, ..StreamFigures::default() };
        assert_eq!(words(&met), "");
        assert_eq!(words(&StreamFigures::default()), "nothing sent");
        assert_eq!(words(&StreamFigures { received: 4, ..met.clone() }), "5 sent, 4 received");
        let mut bad = StreamFigures { received: 4, lost: 1, late: 1, reordered: 2, corrupt: 1, ..met };
        bad.latency.max_ns = 12_000_000;
        assert_eq!(words(&bad), "1 of 5 lost, 1 late: 12.000 ms at worst, 10 ms allowed, 2 out of order, 1 corrupt");
        assert_eq!(shortcomings(&stream, None), ["not measured"]);
    }
}
