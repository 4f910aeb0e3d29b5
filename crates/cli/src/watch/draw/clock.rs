//! The clock's panel.

use super::panel::{Panel, STRONG, wrapped};
use super::plain;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use tickclock::Nanos;
use tickwire_commands::clock::{following, reasons, servers, span, utc};
use tickwire_timekeeper::Report;

pub(super) fn panel(clock: &Result<Report, String>, width: usize) -> Panel {
    let report = match clock {
        Ok(report) => report,
        Err(why) => return Panel::saying("Clock", &plain(why), width),
    };
    let mut lines = vec![now(report)];
    // All reasons that limit the bound, so the limit is the largest value.
    let why = reasons(report, u64::MAX);
    if !why.is_empty() {
        lines.extend(wrapped(&plain(&why.join("; ")), width, Style::new().fg(Color::Yellow)));
    }
    lines.extend(wrapped(&plain(&followed(report)), width, Style::new()));
    let mut all = format!("servers {}", servers(report));
    if report.disruptions != 0 {
        all += &format!("; {} disruptions", report.disruptions);
    }
    lines.extend(wrapped(&all, width, Style::new()));
    Panel { title: "Clock".to_owned(), note: plain(&report.status.join(", ")), lines, ..Panel::default() }
}

/// The time and its bound, or a line that the time is unknown.
fn now(report: &Report) -> Line<'static> {
    match report.utc_ns.zip(report.bound_ns) {
        Some((ns, bound)) => {
            Line::from(vec![Span::styled(utc(Nanos(ns)), STRONG), Span::raw(format!("  ± {}", span(bound as f64)))])
        }
        None => Line::styled("the time is not known", STRONG.fg(Color::Red)),
    }
}

fn followed(report: &Report) -> String {
    let error = report.error_ns.map(|ns| format!("; error {} estimated", span(ns as f64))).unwrap_or_default();
    let Some(source) = report.sources.iter().find(|source| source.standing == "followed") else {
        return format!("follows no server{error}");
    };
    let offset = source.offset_ns.map(|ns| {
        let sign = if ns < 0.0 { "-" } else { "+" };
        format!(", offset {sign}{}", span(ns.abs()))
    });
    format!("follows {}{}{error}", following(source), offset.unwrap_or_default())
}
