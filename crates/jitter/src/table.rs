//! The study as text tables.

use crate::quantity::Quantity;
use crate::{Applied, JitterStudy, MachineLoad, Profile, Wait};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use std::fmt::Write;

/// The column headings of a table.
pub(crate) const HEAD: [&str; 9] =
    ["load", "path", "samples", "p50 us", "p99 us", "p99.9 us", "max us", "jitter us", "missing"];

/// The study as text.
#[must_use]
pub fn table(study: &JitterStudy) -> String {
    let JitterStudy { machine, target, samples, size_bytes, .. } = study;
    let mut text = format!("{machine}\n{samples} frames of {size_bytes} bytes each over {target}\n");
    for (quantity, wait) in kinds(study) {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header(HEAD);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for profile in of(study, quantity, wait) {
            table.add_row(row(profile));
        }
        let _ = writeln!(text, "{}\n{table}", quantity.title(wait));
    }
    for Applied { load, seconds, blocks } in study.loads.iter().filter(|one| one.blocks > 0) {
        let _ = writeln!(text, "load {}: {blocks} blocks of 8 MB read in {seconds:.0} s", load.name());
    }
    for absent in &study.absent {
        let _ = writeln!(text, "not here: {}: {}", absent.name, absent.why);
    }
    text
}

/// The measured kinds of profiles, each once, in order.
pub(crate) fn kinds(study: &JitterStudy) -> Vec<(Quantity, Option<Wait>)> {
    let mut kinds = Vec::new();
    for profile in &study.profiles {
        if !kinds.contains(&(profile.quantity, profile.wait)) {
            kinds.push((profile.quantity, profile.wait));
        }
    }
    kinds
}

/// The profiles of one quantity.
pub(crate) fn of(study: &JitterStudy, quantity: Quantity, wait: Option<Wait>) -> impl Iterator<Item = &Profile> {
    study.profiles.iter().filter(move |one| (one.quantity, one.wait) == (quantity, wait))
}

/// A profile's cells, in the columns of [`HEAD`].
pub(crate) fn row(profile: &Profile) -> [String; 9] {
    let figures = &profile.figures;
    let us = |ns: i64| format!("{:.2}", ns as f64 / 1e3);
    let [p50, p99, p999, max, jitter] =
        [figures.p50_ns, figures.p99_ns, figures.p999_ns, figures.max_ns, figures.jitter_ns].map(us);
    let (samples, missing) = (figures.samples.to_string(), profile.missing.to_string());
    [profile.load.name().to_owned(), path(profile), samples, p50, p99, p999, max, jitter, missing]
}

/// The path of a profile.
pub(crate) fn path(profile: &Profile) -> String {
    match profile.quantity {
        Quantity::ClockReadout => profile.interface.clone(),
        _ => profile.carrier.name().to_owned(),
    }
}

/// A line's name in a figure.
pub(crate) fn line(profile: &Profile) -> String {
    match profile.load {
        MachineLoad::None => format!("{}, no load", path(profile)),
        load => format!("{}, {}", path(profile), load.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AbsentMeasurement, MessageCarrier, TimeStatistics};

    #[test]
    fn each_quantity_has_a_table_in_microseconds_and_what_is_lacking_a_line() {
        let profile = |carrier, times: Vec<i64>| Profile {
            quantity: Quantity::InstantToPeer,
            wait: Some(Wait::Sleep),
            interface: "eth0 of the lab".to_owned(),
            load: MachineLoad::CpuDisk,
            carrier,
            missing: 3,
            lane_packets: None,
            figures: TimeStatistics::of(times).unwrap(),
        };
        let study = JitterStudy {
            machine: "a machine".to_owned(),
            target: "a lab".to_owned(),
            samples: 3,
            size_bytes: 166,
            period_ns: 500_000,
            loads: vec![Applied { load: MachineLoad::CpuDisk, seconds: 2.0, blocks: 17 }],
            profiles: vec![
                profile(MessageCarrier::Kernel, vec![1_500, 2_500, 10_000]),
                profile(MessageCarrier::Tickwire, vec![-20]),
            ],
            absent: vec![AbsentMeasurement::new("clock of eth0", "no such thing")],
        };
        let text = table(&study);
        assert!(
            text.starts_with(
                "a machine\n3 frames of 166 bytes each over a lab\nFrom the instant to the peer's driver, plain sleep\n"
            ),
            "{text}"
        );
        let cells = |name: &str| -> Vec<&str> {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            line.split(['│', '┆']).map(str::trim).filter(|cell| !cell.is_empty()).collect()
        };
        assert_eq!(cells("kernel"), ["cpu+disk", "kernel", "3", "2.50", "10.00", "10.00", "10.00", "8.50", "3"]);
        assert_eq!(cells("Tickwire"), ["cpu+disk", "Tickwire", "1", "-0.02", "-0.02", "-0.02", "-0.02", "0.00", "3"]);
        assert!(
            text.contains("load cpu+disk: 17 blocks of 8 MB read in 2 s\nnot here: clock of eth0: no such thing\n"),
            "{text}"
        );
    }
}
