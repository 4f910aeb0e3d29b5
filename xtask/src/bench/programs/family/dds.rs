//! Cyclone DDS by its own ddsperf: discovery by multicast, then ping and pong between two
//! participants.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::{Direction, Figure, median};
use crate::bench::programs::install::Item;
use crate::bench::programs::launch::{Launch, Ready};
use crate::deps;

/// Participants find each other within some tenths of a second.
const DISCOVERY_SECONDS: u32 = 2;
const CONFIGURATION: &str = "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='eth0'/></Interfaces></General></Domain></CycloneDDS>";

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![Program {
        name: "Cyclone DDS",
        about: "ping and pong by ddsperf, half of a round trip",
        needs: &[Item::Debian(deps::CYCLONE_DDS)],
        unit: "us",
        direction: Direction::LowerIsBetter,
        prepare: None,
        server: |_| Ok(configured(&["pong"])),
        ready: Ready::Searched,
        client: |site| Ok(configured(&["-D", &(site.seconds + DISCOVERY_SECONDS).to_string(), "ping"])),
        read,
    }]
}

fn configured(arguments: &[&str]) -> Launch {
    Launch::new(["ddsperf", "-Qminmatch:1", "-Qinitwait:10"].iter().chain(arguments).copied())
        .with("CYCLONEDDS_URI", CONFIGURATION)
}

/// The program prints percentiles for each second: `50% 12.287us 90% 26.224us 99% 47.543us ... cnt
/// 31671`. The figures are medians over these lines.
fn read(printed: &str) -> Option<Figure> {
    let lines: Vec<Vec<&str>> = printed
        .lines()
        .filter(|line| line.contains(" mean ") && line.contains(" cnt "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let after = |words: &[&str], name: &str| {
        let place = words.iter().position(|word| *word == name)?;
        words.get(place + 1)?.trim_end_matches("us").parse::<f64>().ok()
    };
    let all = |name: &str| lines.iter().map(|words| after(words, name)).collect::<Option<Vec<f64>>>();
    let (p50, p99) = (median(all("50%")?)?, median(all("99%")?)?);
    let trips: f64 = all("cnt")?.iter().sum();
    Some(Figure { value: p50, p50_us: Some(p50), p99_us: Some(p99), packets: trips as u64 / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read() {
        let printed = "[17503] participant vm:17504: new\n\
            [17503] 2.000  vm:17504 size 12 mean 15.686us min 11.070us 50% 12.250us 90% 26.224us 99% 47.500us max 1726.984us cnt 31671\n\
            [17503] 2.000  rss:7.5MB vcsw:14931 ivcsw:16811 recvUC:16%+33%\n\
            [17503] 3.000  vm:17504 size 12 mean 14.112us min 11.050us 50% 11.750us 90% 20.157us 99% 36.500us max 846.483us cnt 35239\n";
        let expected = Figure { value: 12.0, p50_us: Some(12.0), p99_us: Some(42.0), packets: 33_455 };
        assert_eq!(read(printed), Some(expected));
        assert_eq!(read("[17503] participant vm:17503: new (self)\n"), None);
    }
}
