//! The study as HTML.

use crate::table::{deviation, spans};
use crate::{CounterLoad, CounterStudy, Stability};
use tickwire_report::{Axis, Plot, ReportPage, Series, Tone};

/// The study as one HTML file; `command` is the command that repeats it.
#[must_use]
pub fn html(study: &CounterStudy, command: &[String]) -> String {
    let mut page = ReportPage::new("Counters of this machine");
    page.paragraph(&study.machine);
    page.verdict(Tone::Plain, &summary(study));
    page.section("How long a reading takes");
    page.paragraph(&format!(
        "Each counter was read {} times between two readings of {}; the row \"(nothing)\" shows what those two take by themselves.",
        study.reads, study.stamp
    ));
    for load in CounterLoad::ALL {
        let of_load = || study.access.iter().filter(move |a| a.load == load);
        let series = of_load()
            .map(|a| Series {
                name: a.counter.clone(),
                points: a.profile.iter().map(|one| (one.ns, one.part)).collect(),
            })
            .collect();
        let plot = Plot {
            x: Axis::logarithmic("latency, ns"),
            y: Axis::logarithmic("part of the readings that took longer"),
            series,
        };
        page.figure(&plot, &format!("Latency profile, {}: lower and further left is better.", load.name()));
        let rows = of_load().map(|a| {
            let figures = [a.min_ns, a.p25_ns, a.p50_ns, a.p75_ns, a.p95_ns, a.p99_ns, a.p999_ns, a.max_ns];
            row(&a.counter, figures.map(|ns| format!("{ns:.0}")))
        });
        let head = [load.name(), "min ns", "p25", "p50", "p75", "p95", "p99", "p99.9", "max"];
        page.table(&head, rows);
    }
    page.section("How evenly they run");
    page.paragraph(&format!(
        "Allan deviation beside {}, over {} s. Counters that are driven by one oscillator differ only by what reading them adds: then the line falls \
         with the span, and says nothing of the oscillator. Only a reference with an oscillator of its own shows that: a PTP hardware clock, or the network's time (tickwire).",
        study.reference, study.watched_s
    ));
    let points = |one: &Stability| one.allan.iter().map(|one| (one.span_s, one.deviation)).collect();
    let series = study.stability.iter().map(|one| Series { name: one.counter.clone(), points: points(one) });
    let plot =
        Plot { x: Axis::logarithmic("span, s"), y: Axis::logarithmic("Allan deviation"), series: series.collect() };
    page.figure(&plot, "Allan deviation: how much the mean rate of one span differs from that of the next.");
    let spans = spans(study);
    let names: Vec<String> = spans.iter().map(|span| format!("at {span} s")).collect();
    let head: Vec<&str> = ["counter", "period ns"].into_iter().chain(names.iter().map(String::as_str)).collect();
    page.table(
        &head,
        study.stability.iter().map(|one| {
            let deviations = spans.iter().map(|&span| deviation(&one.allan, span));
            row(&one.counter, std::iter::once(format!("{:.9}", one.period_ns)).chain(deviations))
        }),
    );
    page.section("What was read, and what is not here");
    page.table(&["counter", "how it is read"], study.counters.iter().map(|one| row(&one.name, [one.how.clone()])));
    if !study.absent.is_empty() {
        page.table(&["not here", "why"], study.absent.iter().map(|one| row(&one.name, [one.why.clone()])));
    }
    page.section("To repeat it");
    page.command(command);
    page.finish()
}

fn row(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<(String, Tone)> {
    std::iter::once(name.to_owned()).chain(cells).map(|cell| (cell, Tone::Plain)).collect()
}

fn summary(study: &CounterStudy) -> String {
    let idle = study.access.iter().filter(|a| a.load == CounterLoad::Idle && a.counter != crate::access::NOTHING);
    let (quickest, slowest) = (idle.clone().min_by(by_median), idle.max_by(by_median));
    match (quickest, slowest) {
        (Some(quick), Some(slow)) => format!(
            "At rest {} is read most quickly ({:.0} ns at the median) and {} most slowly ({:.0} ns).",
            quick.counter, quick.p50_ns, slow.counter, slow.p50_ns
        ),
        _ => "No counter could be read.".to_owned(),
    }
}

fn by_median(a: &&crate::Access, b: &&crate::Access) -> std::cmp::Ordering {
    a.p50_ns.total_cmp(&b.p50_ns)
}
