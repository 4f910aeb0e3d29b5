//! The clock's state as text for users.

use super::units::{span, utc};
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;
use tickclock::Nanos;
use tickwire_show::layout::{fits, wrap};
use tickwire_timekeeper::{Report, SourceReport};

/// What `tickwire clock status` shows.
pub(super) fn status(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<14} {value}");
    };
    line("time", report.utc_ns.map_or_else(|| "not known yet".into(), |ns| utc(Nanos(ns))));
    line("status", report.status.join(", "));
    if let Some((error, bound)) = report.error_ns.zip(report.bound_ns) {
        line("error", format!("{} estimated, {} at most", span(error as f64), span(bound as f64)));
    }
    let followed = report.sources.iter().find(|source| source.standing == "followed");
    let contested = if contested(report) { ", which others contradict" } else { "" };
    line("following", followed.map_or_else(|| "no server".into(), |source| following(source) + contested));
    if let Some((stratum, delay)) = report.stratum.zip(report.root_delay_ns) {
        line("reference", format!("by way of stratum {stratum}, round trip {}", span(delay as f64)));
    }
    line("servers", servers(report));
    let period = report.period_ns.map_or_else(
        || format!("taken for {:.9} ns, not yet known", report.nominal_period_ns),
        |period| {
            let off = (period / report.nominal_period_ns - 1.0) * 1e6;
            let skew = report.skew_ppm.map(|skew| format!(", within {skew:.3} ppm")).unwrap_or_default();
            format!("{period:.9} ns, {off:+.3} ppm from what it was taken for{skew}")
        },
    );
    line("counter", format!("{}, {period}", report.counter));
    line("TAI - UTC", report.tai_utc_s.map_or_else(|| "not known".into(), |seconds| format!("{seconds} s")));
    if let Some(at) = report.leap_at_utc_ns {
        line("leap second", format!("{:+} at {}", report.leap, utc(Nanos(at))));
    }
    if report.disruptions != 0 {
        line("disruptions", report.disruptions.to_string());
    }
    if let Some(system) = &report.system_clock {
        let ahead =
            system.ahead_ns.map(|ns| format!("{} {}", span(ns.abs()), if ns < 0.0 { "behind" } else { "ahead" }));
        let steered = if system.steered { "steered" } else { "not steered" };
        let parts = [ahead, Some(steered.to_owned()), system.why.clone()];
        line("system clock", parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    line("page", report.page.clone());
    text
}

/// The server that the clock follows, and when it last answered.
pub fn following(source: &SourceReport) -> String {
    let mut text = source.name.clone();
    if let Some(stratum) = source.stratum {
        let _ = write!(text, ", stratum {stratum}");
    }
    let _ = write!(text, ", asked every {}", span(source.poll_s * 1e9));
    if let Some(last) = source.last_s {
        let _ = write!(text, ", heard {} ago", span(last * 1e9));
    }
    text
}

/// Whether the servers contradict each other without a majority. Then the followed server is only
/// the one that was followed before, and others contradict it.
fn contested(report: &Report) -> bool {
    report.sources.iter().any(|source| source.standing == "disputed")
}

/// The number of servers by standing.
pub fn servers(report: &Report) -> String {
    let count = |standing: &str| report.sources.iter().filter(|source| source.standing == standing).count();
    let (agreed, disputed) = if contested(report) { (0, count("followed")) } else { (count("followed"), 0) };
    let servers = format!(
        "{}: {} agree, {} outvoted, {} disputed, {} silent",
        report.sources.len() - count("duplicate"),
        count("agrees") + agreed,
        count("outvoted"),
        count("disputed") + disputed,
        count("silent")
    );
    let more = |standing: &str, what: &str| match count(standing) {
        0 => String::new(),
        some => format!(", {some} {what}"),
    };
    servers + &more("far", "too far") + &more("smeared", "smeared") + &more("duplicate", "named twice")
}

/// The mark of a server, which [`LEGEND`] explains. A server that is both followed and disputed has
/// two.
fn mark(source: &SourceReport, contested: bool) -> &'static str {
    if contested && source.standing == "followed" { "*!" } else { mark_of(&source.standing) }
}

/// The mark of a standing.
fn mark_of(standing: &str) -> &'static str {
    match standing {
        "followed" => "*",
        "agrees" => "+",
        "outvoted" => "x",
        "disputed" => "!",
        "far" => ">",
        "smeared" => "~",
        "duplicate" => "=",
        _ => "?",
    }
}

const LEGEND: &str =
    "* followed, + agrees, x outvoted, ! disputed, ? silent, > too far, ~ smeared and kept apart, = named twice";

/// A table without a frame: the first two columns are left-aligned, figures right-aligned. On a
/// terminal that is too narrow for it each row has a few lines, without unknown values.
fn rows(header: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n";
    if fits(&text, width) {
        return text;
    }
    // A line break must not separate a figure from its name or its unit.
    const TIED: &str = "\u{a0}";
    let tied = |row: &Vec<String>| {
        let known = header.iter().zip(row).skip(2).filter(|(_, value)| *value != "-");
        known.map(|(name, value)| format!("{name} {value}").replace(' ', TIED)).collect::<Vec<_>>().join(", ")
    };
    let several =
        |row: &Vec<String>| format!(" {} {}\n{}\n", row[0], row[1], wrap(&format!("    {}", tied(row)), width));
    rows.iter().map(several).collect::<String>().replace(TIED, " ")
}

fn some(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), span)
}

/// What `tickwire clock sources` shows.
pub(super) fn sources(report: &Report, width: Option<usize>) -> String {
    let header = [
        "",
        "server",
        "NTS",
        "stratum",
        "reach (octal)",
        "poll",
        "last",
        "offset",
        "bound",
        "RTT",
        "noise",
        "used",
        "refused",
    ];
    let contested = contested(report);
    let row = |source: &SourceReport| {
        vec![
            mark(source, contested).to_owned(),
            source.name.clone(),
            match &source.nts {
                None => "-".to_owned(),
                Some(nts) => nts.cookies.map_or("no keys", |_| "yes").to_owned(),
            },
            source.stratum.map_or_else(|| "-".into(), |stratum| stratum.to_string()),
            format!("{:o}", source.reach),
            if source.asked { span(source.poll_s * 1e9) } else { "denied".into() },
            some(source.last_s.map(|s| s * 1e9)),
            some(source.offset_ns),
            some(source.bound_ns),
            some(source.round_trip_ns),
            some(source.noise_ns),
            source.used.to_string(),
            source.refused.values().sum::<u64>().to_string(),
        ]
    };
    let all: Vec<_> = report.sources.iter().map(row).collect();
    let mut text = rows(&header, &all, width) + &wrap(LEGEND, width) + "\n";
    for source in &report.sources {
        for why in super::why::silence(source) {
            let _ = writeln!(text, "{}", wrap(&format!("{}: {why}", source.name), width));
        }
    }
    text
}

/// What `tickwire clock sources --verbose` shows in addition: the estimate from each server alone,
/// and the path to it.
pub(super) fn statistics(report: &Report, width: Option<usize>) -> String {
    let header = [
        "",
        "server",
        "address",
        "frequency",
        "skew",
        "error",
        "asymmetry",
        "root delay",
        "root dispersion",
        "stamps",
        "interleaved",
    ];
    let contested = contested(report);
    let ppm = |value: Option<f64>| value.map_or_else(|| "-".into(), |ppm| format!("{ppm:+.3} ppm"));
    let row = |source: &SourceReport| {
        vec![
            mark(source, contested).to_owned(),
            source.name.clone(),
            source.address.clone().unwrap_or_else(|| "-".into()),
            ppm(source.frequency_ppm),
            source.skew_ppm.map_or_else(|| "-".into(), |ppm| format!("{ppm:.3} ppm")),
            some(source.error_ns),
            span(source.asymmetry_ns),
            some(source.root_delay_ns.map(|ns| ns as f64)),
            some(source.root_dispersion_ns.map(|ns| ns as f64)),
            source.stamps.clone().unwrap_or_else(|| "-".into()),
            source.interleaved.map_or("-", |yes| if yes { "yes" } else { "no" }).to_owned(),
        ]
    };
    let all: Vec<_> = report.sources.iter().map(row).collect();
    let mut text = sources(report, width) + "\n" + &rows(&header, &all, width);
    for source in &report.sources {
        let lacking = source.lacking.iter().map(|(reason, count)| format!("{reason}: {count}"));
        let why: Vec<_> = source.no_card.iter().cloned().chain(lacking).collect();
        if !why.is_empty() {
            let line = format!("{}: not stamped by hardware: {}", source.name, why.join("; "));
            let _ = writeln!(text, "{}", wrap(&line, width));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_standing_has_a_mark_of_its_own_and_the_legend_names_them_all() {
        let marks: Vec<_> =
            ["followed", "agrees", "outvoted", "disputed", "silent", "far", "smeared", "duplicate"].map(mark_of).into();
        assert!(marks.iter().all(|mark| LEGEND.contains(&format!("{mark} "))), "{LEGEND}");
        assert_eq!(marks.iter().collect::<std::collections::BTreeSet<_>>().len(), marks.len());
    }

    /// A report of servers with these standings.
    fn report_of(standings: &[&str]) -> Report {
        let source = |(number, standing): (usize, &&str)| SourceReport {
            name: format!("server-{number}"),
            standing: (*standing).to_owned(),
            ..SourceReport::default()
        };
        let sources: Vec<_> = standings.iter().enumerate().map(source).collect();
        serde_json::from_value(serde_json::json!({
            "status": ["synchronised"], "leap": 0, "counter": "TSC", "nominal_period_ns": 0.5, "disruptions": 0,
            "page": "/page", "sources": sources,
        }))
        .unwrap()
    }

    #[test]
    fn in_a_dispute_the_followed_server_is_disputed_too() {
        let disputed = report_of(&["followed", "disputed", "outvoted"]);
        for text in [sources(&disputed, None), statistics(&disputed, None)] {
            let marks: Vec<_> =
                text.lines().filter_map(|line| line.split_once(" server-")?.0.split(' ').nth(1)).collect();
            assert!(marks.starts_with(&["*!", "!", "x"]), "{text}");
        }
        let text = status(&disputed);
        assert!(text.contains("3: 0 agree, 1 outvoted, 2 disputed, 0 silent"), "{text}");
        assert!(text.contains("following      server-0, asked every 0 ns, which others contradict\n"), "{text}");
        let agreed = report_of(&["followed", "agrees", "outvoted"]);
        let text = status(&agreed) + &sources(&agreed, None);
        assert!(
            text.contains("3: 2 agree, 1 outvoted, 0 disputed, 0 silent") && text.contains(" *  server-0"),
            "{text}"
        );
        assert!(!text.contains("contradict") && !text.contains("*!"), "{text}");
    }

    #[test]
    fn on_a_narrow_terminal_each_server_has_lines_of_its_own() {
        let source = SourceReport {
            name: "a-time-server.with-a-long-name.example".into(),
            standing: "followed".into(),
            reach: 0o377,
            poll_s: 1.0,
            asked: true,
            offset_ns: Some(-1500.0),
            no_card: Some("eth0 has no clock that stamps packets".into()),
            ..SourceReport::default()
        };
        let report: Report = serde_json::from_value(serde_json::json!({
            "status": ["unknown"], "leap": 0, "counter": "TSC", "nominal_period_ns": 0.5, "disruptions": 0,
            "page": "/page", "sources": [source],
        }))
        .unwrap();
        let wide = statistics(&report, None);
        assert!(wide.lines().any(|line| line.starts_with(" *  a-time-server") && line.ends_with('0')), "{wide}");
        let narrow = statistics(&report, Some(60));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(
            narrow.starts_with(" * a-time-server.with-a-long-name.example\n    reach (octal) 377, poll 1.000 s"),
            "{narrow}"
        );
        assert!(narrow.contains("offset -1.50 us") && !narrow.contains("bound"), "{narrow}");
        assert!(sources(&report, Some(200)).contains("reach (octal)     poll"), "what fits is a table");
    }
}
