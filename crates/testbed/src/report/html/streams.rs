//! Each stream: its worst latency against its deadline (Figure 4 of 2015), its percentiles, its
//! profile.

use crate::outcome::{Carrier, Experiment, Run, StreamFigures, Times};
use crate::pattern::{Stream, Transport};
use crate::report::comparison::{CARRIERS, of};
use crate::report::words::{carrier, ms, plain_ms};
use crate::units::nanos;
use tickwire_report::{Axis, Dot, DotLine, Dots, Plot, ReportPage, Series, Sign, Size, Tone, profile};

/// The most streams that are drawn: those nearest to their deadlines.
const MOST_DRAWN: usize = 96;
/// The most lines of one figure, to limit its height.
const MOST_LINES: usize = 12;
const TRANSPORTS: [Transport; 4] = [Transport::Tcp, Transport::LowLatencyTcp, Transport::Udp, Transport::UdpMulticast];
/// The symbols of each of [`CARRIERS`].
const SIGNS: [Sign; 2] = [Sign::Ring(0), Sign::Dot(1)];
const MS: f64 = 1e6;

/// A stream with its index in the pattern.
type Placed<'a> = (usize, &'a Stream);

/// Figure 4.
pub(super) fn against_deadlines(page: &mut ReportPage, experiment: &Experiment) {
    page.section("Worst latency of each stream against its deadline");
    let mut legend: Vec<(Sign, &str)> =
        measured(experiment).map(|(place, run)| (SIGNS[place], carrier(run.carrier))).collect();
    legend.extend([(Sign::Limit, "deadline"), (Sign::Cross, "not met: a message was late or lost")]);
    page.legend(&legend);
    let drawn = drawn(experiment);
    let span = span(experiment, &drawn, |figures| figures.latency.max_ns);
    let of_transport = |transport: Transport| {
        let streams: Vec<Placed> = drawn.iter().copied().filter(|(_, stream)| stream.transport == transport).collect();
        let parts = streams.len().div_ceil(MOST_LINES);
        let part = |(index, streams): (usize, &[Placed])| {
            let caption =
                if parts > 1 { format!("{transport}, {} of {parts}", index + 1) } else { transport.to_string() };
            let lines = streams.iter().map(|&stream| line(experiment, stream)).collect();
            let x = Axis::logarithmic("worst latency, ms");
            let x = span.map_or(x.clone(), |span| x.within(span));
            (Dots { x, signs: SIGNS.to_vec(), lines }, caption)
        };
        // Parts of about equal length.
        streams.chunks(streams.len().div_ceil(parts.max(1)).max(1)).enumerate().map(part).collect::<Vec<_>>()
    };
    page.figures(Size::Half, TRANSPORTS.into_iter().flat_map(of_transport));
    if drawn.len() < experiment.pattern.streams.len() {
        page.paragraph(&format!(
            "Drawn are the {MOST_DRAWN} streams that came nearest to their deadlines; the table has all."
        ));
    }
}

fn line(experiment: &Experiment, (index, stream): Placed) -> DotLine {
    let dot = |which| match figures(experiment, which, index) {
        None => Dot { value: None, bad: false },
        Some(figures) => {
            let value = (figures.latency.count > 0).then_some(figures.latency.max_ns as f64 / MS);
            Dot { value, bad: !figures.is_met() }
        }
    };
    DotLine {
        name: stream.id.to_string(),
        limit: nanos(stream.deadline) as f64 / MS,
        values: CARRIERS.map(dot).to_vec(),
    }
}

/// The table of all streams.
pub(super) fn percentiles(page: &mut ReportPage, experiment: &Experiment) {
    page.section("All streams");
    let mut head = vec!["stream".to_owned(), "bytes".to_owned(), "period ms".to_owned(), "deadline ms".to_owned()];
    for (_, run) in measured(experiment) {
        let name = carrier(run.carrier);
        head.extend(["p50", "p99", "p99.9", "worst"].map(|what| format!("{name} {what}")));
        head.push(format!("{name} lost / late"));
    }
    let rows = experiment.pattern.streams.iter().enumerate().map(|(index, stream)| {
        let figures = CARRIERS.map(|which| of(experiment, which).map(|_| figures(experiment, which, index)));
        row(stream, &figures)
    });
    page.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows);
    page.paragraph("Latencies are in milliseconds. Red is what was not met.");
}

/// A row: the stream's description, and its figures on each measured stack.
fn row(stream: &Stream, figures: &[Option<Option<&StreamFigures>>]) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    let mut cells = vec![
        plain(name(stream)),
        plain(stream.size.to_string()),
        plain(plain_ms(stream.period)),
        plain(plain_ms(stream.deadline)),
    ];
    let wrong = |figures: &StreamFigures| {
        let (lost, late) = (figures.lost, figures.late);
        (format!("{lost} / {late}"), if lost + late > 0 { Tone::Bad } else { Tone::Plain })
    };
    for figures in figures.iter().flatten() {
        match figures {
            Some(figures) if figures.latency.count > 0 => {
                let times = figures.latency;
                cells.extend([times.p50_ns, times.p99_ns, times.p999_ns].map(|ns| plain(ms(ns))));
                let in_time = times.max_ns <= nanos(stream.deadline);
                cells.push((ms(times.max_ns), if in_time { Tone::Good } else { Tone::Bad }));
                cells.push(wrong(figures));
            }
            Some(figures) => {
                cells.extend(std::iter::repeat_n(("-".to_owned(), Tone::Bad), 4));
                cells.push(wrong(figures));
            }
            None => cells.extend(std::iter::repeat_n(("-".to_owned(), Tone::Bad), 5)),
        }
    }
    cells
}

/// Counts of each stream: last and collapsed, because they take pages on paper.
pub(super) fn counts(page: &mut ReportPage, experiment: &Experiment) {
    if measured(experiment).next().is_none() {
        return;
    }
    page.section("More figures");
    page.details("What was counted of each stream", |page| count_table(page, experiment));
}

fn count_table(page: &mut ReportPage, experiment: &Experiment) {
    let head = [
        "stream",
        "carried by",
        "sent",
        "received",
        "lost",
        "late",
        "doubled",
        "out of order",
        "corrupt",
        "fastest ms",
        "mean ms",
        "p90 ms",
        "sent late, p99 ms",
        "sent late, worst ms",
        "waited p99 ms",
        "waited worst ms",
        "slowest waited ms",
    ];
    let rows = experiment.pattern.streams.iter().enumerate().flat_map(|(index, stream)| {
        CARRIERS.into_iter().filter_map(move |which| {
            let f = figures(experiment, which, index)?;
            let counts = [f.sent, f.received, f.lost, f.late, f.duplicates, f.reordered, f.corrupt];
            let times = [f.latency.min_ns, f.latency.mean_ns, f.latency.p90_ns, f.release.p99_ns, f.release.max_ns];
            let names = [name(stream), carrier(which).to_owned()];
            let stamped = f.waited.count > 0;
            let waited = [stamped.then_some(f.waited.p99_ns), stamped.then_some(f.waited.max_ns), f.slowest_waited_ns];
            let waited = waited.map(|ns| ns.map_or_else(|| "-".to_owned(), ms));
            let cells = names.into_iter().chain(counts.map(|count| count.to_string())).chain(times.map(ms));
            let cells = cells.chain(waited);
            Some(cells.map(|cell| (cell, Tone::Plain)).collect())
        })
    });
    page.table(&head, rows);
    page.paragraph("Sent late: how much later than due the producer's program called send.");
    page.paragraph(
        "Waited: in the consumer's host, from the stamp that the driver gave to a message's last packet until the \
         program had the message. Slowest waited: the same of the message that took longest. What is left of its \
         time it spent in the producer's host and on the network.",
    );
}

/// Profiles of all streams of a transport, and, collapsed, of each stream.
pub(super) fn profiles(page: &mut ReportPage, experiment: &Experiment) {
    let drawn = drawn(experiment);
    if measured(experiment).next().is_none() {
        return;
    }
    page.section("Latency profiles");
    page.legend(
        &measured(experiment).map(|(place, run)| (Sign::Line(place), carrier(run.carrier))).collect::<Vec<_>>(),
    );
    let everything: Vec<Placed> = experiment.pattern.streams.iter().enumerate().collect();
    let span_of_all = span(experiment, &everything, |figures| figures.latency.min_ns);
    let of_transport = |transport: Transport| {
        let streams = || everything.iter().filter(move |(_, stream)| stream.transport == transport);
        let all = |run: &Run| {
            let mut times = Times::default();
            for figures in streams().filter_map(|(index, _)| run.streams.get(*index)) {
                times.add(&Times::from_pairs(&figures.histogram));
            }
            times.pairs()
        };
        let (x, y) = (Axis::logarithmic("latency, ms"), Axis::logarithmic("part of messages"));
        let x = span_of_all.map_or(x.clone(), |span| x.within(span));
        (streams().count() > 0).then(|| (plot(experiment, x, y, all), format!("{transport}, all streams")))
    };
    page.figures(Size::Half, TRANSPORTS.into_iter().filter_map(of_transport));
    let span = span(experiment, &drawn, |figures| figures.latency.min_ns);
    let of_stream = |&(index, stream): &Placed| {
        let x = Axis::logarithmic("");
        let x = span.map_or(x.clone(), |span| x.within(span)).mark(nanos(stream.deadline) as f64 / MS);
        let own = |run: &Run| run.streams.get(index).map(|figures| figures.histogram.clone()).unwrap_or_default();
        (plot(experiment, x, Axis::logarithmic(""), own), format!("{}, {} bytes", name(stream), stream.size))
    };
    page.details("The profile of each stream", |page| {
        page.paragraph("Along: latency in ms. Up: which part of the stream's messages took at least that long. The upright line is the deadline.");
        page.figures(Size::Third, drawn.iter().map(of_stream));
    });
}

fn plot(experiment: &Experiment, x: Axis, y: Axis, pairs: impl Fn(&Run) -> Vec<(u64, u64)>) -> Plot {
    let series = CARRIERS.map(|which| Series {
        name: carrier(which).to_owned(),
        points: of(experiment, which).map(|run| profile(&pairs(run), MS)).unwrap_or_default(),
    });
    Plot { x, y, series: series.into() }
}

/// The streams that are drawn, in the order of the pattern.
fn drawn(experiment: &Experiment) -> Vec<Placed<'_>> {
    let mut streams: Vec<Placed> = experiment.pattern.streams.iter().enumerate().collect();
    if streams.len() > MOST_DRAWN {
        let room = |&(index, stream): &Placed| {
            let figures = experiment.judged().and_then(|run| run.streams.get(index)).filter(|figures| figures.is_met());
            figures.map_or(0.0, |figures| nanos(stream.deadline) as f64 / figures.latency.max_ns.max(1) as f64)
        };
        streams.sort_by(|a, b| room(a).total_cmp(&room(b)));
        streams.truncate(MOST_DRAWN);
        streams.sort_by_key(|(index, _)| *index);
    }
    streams
}

/// The range of latencies and deadlines of these streams, in ms, so that all figures have the same
/// scale; `least` returns a stream's least shown value. None if nothing arrived.
fn span(experiment: &Experiment, streams: &[Placed], least: impl Fn(&StreamFigures) -> u64) -> Option<(f64, f64)> {
    let (mut low, mut high) = (u64::MAX, 0);
    for &(index, stream) in streams {
        high = high.max(nanos(stream.deadline));
        let came = CARRIERS.into_iter().filter_map(|which| figures(experiment, which, index));
        for figures in came.filter(|figures| figures.latency.count > 0) {
            low = low.min(least(figures));
            high = high.max(figures.latency.max_ns);
        }
    }
    (low < u64::MAX).then(|| (low.max(1) as f64 / MS / 1.3, high as f64 / MS * 1.3))
}

/// The measured stacks, with their indices in [`CARRIERS`].
fn measured(experiment: &Experiment) -> impl Iterator<Item = (usize, &Run)> {
    CARRIERS.into_iter().enumerate().filter_map(move |(place, which)| Some((place, of(experiment, which)?)))
}

fn figures(experiment: &Experiment, which: Carrier, index: usize) -> Option<&StreamFigures> {
    of(experiment, which)?.streams.get(index)
}

fn name(stream: &Stream) -> String {
    format!("{} {}", stream.id, stream.transport)
}
