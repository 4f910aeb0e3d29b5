//! The study as HTML.

use crate::quantity::{MessageCarrier, Quantity};
use crate::table::{HEAD, kinds, line, of, row};
use crate::{JitterStudy, MachineLoad, Profile, Wait};
use tickwire_report::{Axis, Plot, ReportPage, Series, Tone};

/// Maximum number of lines in one figure; more are hard to distinguish.
const LINES: usize = 8;
/// The caption of a figure.
const PROFILE: &str = "Latency profile: which part of the samples took at least that long. Lower and further left is better, and steeper is more even.";

/// The study as one HTML file; `command` is the command that repeats it.
#[must_use]
pub fn html(study: &JitterStudy, command: &[String]) -> String {
    let mut page = ReportPage::new("Latency profiles of transmission");
    page.verdict(Tone::Plain, &summary(study));
    for (quantity, wait) in kinds(study) {
        page.section(&quantity.title(wait));
        page.paragraph(meaning(quantity, wait));
        for profiles in figures(of(study, quantity, wait).collect()) {
            let series = profiles.iter().map(|one| series(one)).collect();
            let plot = Plot { x: Axis::logarithmic("us"), y: Axis::logarithmic("part of the samples"), series };
            page.figure(&plot, PROFILE);
        }
        let rows = of(study, quantity, wait).map(|one| row(one).map(|cell| (cell, Tone::Plain)).to_vec());
        page.table(&HEAD, rows);
    }
    page.section("The loads");
    let loads = study
        .loads
        .iter()
        .map(|one| plain([one.load.name().to_owned(), format!("{:.0}", one.seconds), one.blocks.to_string()]));
    page.table(&["load", "seconds", "blocks of 8 MB read"], loads);
    if !study.absent.is_empty() {
        page.section("What is not here");
        page.definitions(study.absent.iter().map(|one| (one.name.as_str(), vec![one.why.clone()])));
    }
    page.section("Where and with what");
    let frames = format!("{} of {} bytes, one each {} us", study.samples, study.size_bytes, study.period_ns / 1000);
    page.definitions([
        ("machine", vec![study.machine.clone()]),
        ("way", vec![study.target.clone()]),
        ("frames", vec![format!("{frames}, of each profile")]),
        ("program", vec![format!("Tickwire {}", env!("CARGO_PKG_VERSION"))]),
    ]);
    page.section("To repeat it");
    page.command(command);
    page.finish()
}

fn plain<const N: usize>(cells: [String; N]) -> Vec<(String, Tone)> {
    cells.into_iter().map(|cell| (cell, Tone::Plain)).collect()
}

/// One figure for all profiles, or one for each path if there are too many.
fn figures(profiles: Vec<&Profile>) -> Vec<Vec<&Profile>> {
    if profiles.len() <= LINES {
        return vec![profiles];
    }
    let (kernel, tickwire): (Vec<_>, Vec<_>) =
        profiles.into_iter().partition(|one| one.carrier == MessageCarrier::Kernel);
    [kernel, tickwire].into_iter().filter(|profiles| !profiles.is_empty()).collect()
}

fn series(profile: &Profile) -> Series {
    let points = profile.figures.profile.iter().map(|one| (one.ns as f64 / 1e3, one.part)).collect();
    Series { name: line(profile), points }
}

fn meaning(quantity: Quantity, wait: Option<Wait>) -> &'static str {
    match (quantity, wait) {
        (Quantity::ClockReadout, _) => {
            "How long the register takes, as the card's driver sees it: the least that processor and card need to talk over the bus."
        }
        (Quantity::CallToDriver, _) => {
            "From just before the call to the stamp that the sender's driver makes when it gives the frame to its card."
        }
        (Quantity::CallToWire, _) => {
            "From just before the call to the stamp that the card makes when the frame leaves."
        }
        (Quantity::CallToPeer, _) => {
            "From just before the call to the kernel's stamp at the peer, when the driver there has handed the frame over: both paths by the same method."
        }
        (_, Some(Wait::Sleep)) => "The sender slept until the instant, as most programs do, and then called.",
        (_, _) => "The sender slept until 200 us before the instant, watched the clock until it came, and then called.",
    }
}

/// The summary in one sentence.
fn summary(study: &JitterStudy) -> String {
    let told = |quantity: Quantity, wait: Option<Wait>| {
        let at = |carrier: MessageCarrier| of(study, quantity, wait).filter(move |one| one.carrier == carrier);
        let one = |carrier: MessageCarrier| {
            let rest = at(carrier).find(|one| one.load == MachineLoad::None)?;
            let worst = at(carrier).max_by_key(|one| one.figures.jitter_ns)?;
            let us = |ns: i64| ns as f64 / 1e3;
            Some(format!(
                "{} {:.1} us at the median at rest, with a jitter of up to {:.1} us (load {})",
                carrier.name(),
                us(rest.figures.p50_ns),
                us(worst.figures.jitter_ns),
                worst.load.name()
            ))
        };
        let both: Vec<String> =
            [MessageCarrier::Kernel, MessageCarrier::Tickwire].into_iter().filter_map(one).collect();
        (!both.is_empty()).then(|| format!("{}: {}.", quantity.title(wait), both.join("; ")))
    };
    let wanted = [
        told(Quantity::InstantToPeer, Some(Wait::Watch)),
        told(Quantity::InstantToWire, Some(Wait::Watch)),
        told(Quantity::InstantToDriver, Some(Wait::Watch)),
    ];
    wanted.into_iter().flatten().next().unwrap_or_else(|| "See the tables.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeStatistics;

    fn profile(load: MachineLoad, carrier: MessageCarrier, times: Vec<i64>) -> Profile {
        Profile {
            quantity: Quantity::InstantToPeer,
            wait: Some(Wait::Watch),
            interface: "eth0 of the lab".to_owned(),
            load,
            carrier,
            missing: 0,
            lane_packets: None,
            figures: TimeStatistics::of(times).unwrap(),
        }
    }

    fn of_all(loads: &[MachineLoad]) -> JitterStudy {
        let both =
            |load: &MachineLoad| [(*load, MessageCarrier::Kernel, 9_000), (*load, MessageCarrier::Tickwire, 5_000)];
        let profiles = loads
            .iter()
            .flat_map(both)
            .map(|(load, carrier, ns)| profile(load, carrier, vec![ns, ns + 1_000 + load.name().len() as i64 * 100]));
        JitterStudy {
            machine: "a machine".to_owned(),
            target: "a lab".to_owned(),
            samples: 2,
            size_bytes: 166,
            period_ns: 500_000,
            loads: Vec::new(),
            profiles: profiles.collect(),
            absent: Vec::new(),
        }
    }

    #[test]
    fn a_quantity_has_one_figure_as_long_as_its_lines_can_be_told_apart() {
        let figures = |study: &JitterStudy| html(study, &[]).matches("<figure>").count();
        assert_eq!(
            figures(&of_all(&[MachineLoad::None, MachineLoad::Cpu, MachineLoad::Disk, MachineLoad::CpuDisk])),
            1
        );
        assert_eq!(figures(&of_all(&MachineLoad::ALL)), 2);
    }

    #[test]
    fn the_verdict_has_both_paths_with_their_worst_jitter() {
        let html =
            html(&of_all(&[MachineLoad::None, MachineLoad::DiskSerial]), &["tickwire".to_owned(), "jitter".to_owned()]);
        let expected = "From the instant to the peer&#39;s driver, watched wait: kernel 9.0 us at the median at rest, with a jitter of up to 2.1 us \
                        (load disk+serial); Tickwire 5.0 us at the median at rest, with a jitter of up to 2.1 us (load disk+serial).";
        assert!(html.contains(expected), "{html}");
        assert!(
            html.contains("kernel, no load")
                && html.contains("Tickwire, disk+serial")
                && html.contains("<pre>tickwire jitter</pre>")
        );
    }
}
