//! The study as text tables.

use crate::allan::Deviation;
use crate::{CounterLoad, CounterStudy};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use std::fmt::Write;

/// Spans of the stability table, in seconds; the nearest measured span is shown.
const SPANS: [f64; 4] = [0.1, 1.0, 10.0, 100.0];

/// The study as text.
#[must_use]
pub fn table(study: &CounterStudy) -> String {
    let mut text = format!("{}; readings timed with {}, {} of each\n", study.machine, study.stamp, study.reads);
    for load in CounterLoad::ALL {
        let mut table = new(&[load.name(), "min ns", "p50 ns", "p95 ns", "p99 ns", "p99.9 ns", "max ns"]);
        for a in study.access.iter().filter(|a| a.load == load) {
            let figures = [a.min_ns, a.p50_ns, a.p95_ns, a.p99_ns, a.p999_ns, a.max_ns].map(|ns| format!("{ns:.0}"));
            table.add_row(std::iter::once(a.counter.clone()).chain(figures));
        }
        let _ = writeln!(text, "{table}");
    }
    let spans = spans(study);
    let heads = spans.iter().map(|span| format!("at {span} s"));
    let beside = format!("beside {}", study.reference);
    let head: Vec<String> = [beside, "period ns".to_owned()].into_iter().chain(heads).collect();
    let mut table = new(&head);
    for one in &study.stability {
        let deviations = spans.iter().map(|&span| deviation(&one.allan, span));
        table.add_row([one.counter.clone(), format!("{:.9}", one.period_ns)].into_iter().chain(deviations));
    }
    let _ = writeln!(text, "Allan deviation over {} s\n{table}", study.watched_s);
    for absent in &study.absent {
        let _ = writeln!(text, "not here: {}: {}", absent.name, absent.why);
    }
    text
}

/// The spans for which the comparison was long enough.
pub(crate) fn spans(study: &CounterStudy) -> Vec<f64> {
    let longest = study.stability.iter().filter_map(|one| one.allan.last()).map(|one| one.span_s).fold(0.0, f64::max);
    SPANS.into_iter().filter(|&span| span <= longest * 1.5).collect()
}

/// The deviation at the measured span that is nearest to `span`.
pub(crate) fn deviation(allan: &[Deviation], span: f64) -> String {
    let off = |one: &&Deviation| (one.span_s / span).ln().abs();
    let nearest = allan.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    nearest.map_or("-".to_owned(), |one| format!("{:.1e}", one.deviation))
}

fn new<T: AsRef<str>>(head: &[T]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(head.iter().map(AsRef::as_ref));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
