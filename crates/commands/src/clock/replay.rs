//! `tickwire clock replay`: the clock over recorded exchanges.

use super::units::{span, utc};
use crate::args::clock::ClockReplay;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;
use tickclock::Nanos;
use tickwire_timekeeper::record::{RecordedPage, Replayed, replay};

/// A page as its line in the record: the same text, so that the two can be compared.
fn line_of(page: &RecordedPage) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        page: &'a RecordedPage,
    }
    serde_json::to_string(&Line { page })
}

pub(super) fn run(arguments: &ClockReplay) -> Result<ExitCode> {
    let mut text = String::new();
    let mut failed = None;
    let replayed = replay(&arguments.file, |page| {
        if arguments.pages {
            match line_of(page) {
                Ok(line) => text += &(line + "\n"),
                Err(error) => failed = Some(error),
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if arguments.json {
        text = serde_json::to_string_pretty(&replayed)? + "\n";
    } else if !arguments.pages {
        text = shown(&replayed);
    }
    tickwire_show::output::print(&text)?;
    Ok(if replayed.different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shown(replayed: &Replayed) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<14} {value}");
    };
    line("servers", replayed.servers.join(", "));
    line("counter", replayed.counter.clone());
    line("exchanges", format!("{} used", replayed.used));
    for (why, count) in &replayed.refused {
        line("", format!("{count} refused: {why}"));
    }
    line("disruptions", replayed.disruptions.to_string());
    line(
        "pages",
        match replayed.first_different {
            None => format!("{}, all the same bit for bit", replayed.pages),
            Some(first) => {
                format!("{}, of which {} differ, first that of line {first}", replayed.pages, replayed.different)
            }
        },
    );
    match &replayed.page {
        None => {}
        Some(page) if page.bound_ns == u64::MAX => line("last time", "not known".into()),
        Some(page) => {
            line("last time", utc(Nanos(page.tai_ns - i64::from(page.tai_utc_s) * 1_000_000_000)));
            line("error", format!("{} estimated, {} at most", span(page.error_ns as f64), span(page.bound_ns as f64)));
        }
    }
    if replayed.cut {
        line("", "the record ends within a line".into());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nothing_known() -> RecordedPage {
        let page = json!({
            "status": 0, "at": 5, "tai_ns": 0, "local": [0, 0], "difference": [0, 0], "error_ns": u64::MAX,
            "bound_ns": u64::MAX, "growth": 0, "fresh_until": 9, "tai_utc_s": 37, "leap": 0, "leap_at_tai_ns": 0,
            "disruptions": 0, "since": 0,
        });
        serde_json::from_value(page).unwrap()
    }

    #[test]
    fn a_page_that_knew_nothing_is_shown_with_no_time() {
        let replayed = Replayed { page: Some(nothing_known()), ..Replayed::default() };
        assert!(shown(&replayed).contains("last time      not known"), "{}", shown(&replayed));
    }

    #[test]
    fn a_page_is_printed_in_the_order_of_the_record() {
        let line = line_of(&nothing_known()).unwrap();
        assert!(line.starts_with(r#"{"page":{"status":0,"at":5,"tai_ns":0,"#), "{line}");
    }
}
