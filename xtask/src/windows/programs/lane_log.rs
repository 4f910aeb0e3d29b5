//! What the service's log says of lanes: the proof that a program was on one.

/// A lane, as the log describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::windows) struct LoggedLane {
    /// Its number.
    pub lane: String,
    /// Packets of both directions; known when it has ended.
    pub packets: u64,
    /// Packets that the guard has refused, or that were malformed.
    pub refused: u64,
    /// Why sockets of the program stayed on the kernel.
    pub kernel: Vec<String>,
    /// Its program is gone.
    pub has_ended: bool,
}

/// The lanes of a part of the log, in the order of their beginnings.
pub(super) fn read(log: &str) -> Vec<LoggedLane> {
    let mut lanes: Vec<LoggedLane> = Vec::new();
    for line in log.lines() {
        let Some(number) = field(line, "lane") else { continue };
        if line.contains(": a lane begins") {
            lanes.push(LoggedLane { lane: number.to_owned(), ..LoggedLane::default() });
        }
        let Some(lane) = lanes.iter_mut().rev().find(|lane| lane.lane == number) else { continue };
        if line.contains(": sockets stay on the kernel") {
            lane.kernel.extend(line.split_once("reason=").map(|(_, reason)| reason.trim().to_owned()));
        } else if line.contains(": a lane has ended") {
            let count = |name| field(line, name).and_then(|figure| figure.parse::<u64>().ok()).unwrap_or(0);
            lane.packets = count("in_packets") + count("out_packets");
            lane.refused = count("refused") + count("malformed");
            lane.has_ended = true;
        }
    }
    lanes
}

/// Whether a port of any address has been claimed.
pub(super) fn claims(log: String, port: u16) -> bool {
    let end = format!(":{port}");
    log.lines()
        .any(|line| line.contains(": claimed") && field(line, "local").is_some_and(|local| local.ends_with(&end)))
}

fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-11-30T22:00:00Z  INFO service: a lane begins lane=1 process=32 program=curl.exe
2026-11-30T22:00:00Z DEBUG service: claimed lane=1 claim=2 local=10.77.0.1:8080
2026-11-30T22:00:00Z  INFO service: a lane begins lane=2 process=36 program=node.exe
2026-11-30T22:00:01Z  INFO service: sockets stay on the kernel lane=2 sockets=3 reason=its peer is on this host
2026-11-30T22:00:01Z  INFO service: a lane has ended lane=2 in_packets=0 out_packets=0 refused=0 ring_full=0 malformed=0
2026-11-30T22:00:02Z  INFO service: a lane has ended lane=1 in_packets=40 out_packets=30 refused=1 ring_full=0 malformed=2
";

    #[test]
    fn lanes_are_read_with_their_counters_and_reasons() {
        let lanes = read(LOG);
        assert_eq!((lanes[0].packets, lanes[0].refused, lanes[0].has_ended), (70, 3, true));
        assert_eq!((lanes[1].packets, lanes[1].kernel.as_slice()), (0, &["its peer is on this host".to_owned()][..]));
        let half = read(LOG.split_once("a lane has ended").unwrap().0);
        assert!(half.iter().all(|lane| !lane.has_ended), "{half:?}");
    }

    #[test]
    fn claims_are_found_by_their_port() {
        assert!(claims(LOG.to_owned(), 8080) && !claims(LOG.to_owned(), 80));
    }
}
