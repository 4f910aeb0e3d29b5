//! iperf2: datagrams as fast as the client sends them; those that arrive count.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::{Direction, Figure};
use crate::bench::programs::install::Item;
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::deps;

const PORT: u16 = 5001;
/// A rate above the capacity of either stack with these datagrams.
const OFFERED: &str = "4000M";

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![Program {
        name: "iperf2 UDP",
        about: "datagrams of 1470 bytes that arrive, of 4 Gbit/s offered",
        needs: &[Item::Debian(deps::IPERF2)],
        unit: "Mbit/s",
        direction: Direction::HigherIsBetter,
        prepare: None,
        server: |_| Ok(Launch::new(format!("iperf -s -u -p {PORT}").split(' '))),
        ready: Ready::Port("udp", PORT),
        client: |site| Ok(Launch::new(client(site).split(' '))),
        read,
    }]
}

fn client(site: &Site) -> String {
    format!("iperf -c {} -u -p {PORT} -b {OFFERED} -l 1470 -t {} -f m", site.address, site.seconds)
}

/// The server's report, which it sends to the client.
fn read(printed: &str) -> Option<Figure> {
    let report = printed.split("Server Report:").nth(1)?;
    let line = report.lines().find(|line| line.contains("Mbits/sec"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| *word == "Mbits/sec")?;
    let value = words.get(unit.checked_sub(1)?)?.parse().ok()?;
    // Lost and total, as `1282/89162` or `0/ 99`.
    let (lost, total) = line.split_once(" ms ")?.1.split_once('/')?;
    let lost: u64 = lost.trim().parse().ok()?;
    let total: u64 = total.split_whitespace().next()?.parse().ok()?;
    // A sample of the client's lane may be old.
    Some(Figure { value, p50_us: None, p99_us: None, packets: total.saturating_sub(lost) / 10 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_report_counts() {
        let printed = "[  1] local 10.77.0.1 port 38611 connected with 10.77.0.2 port 5001\n\
                       [  1] 0.0000-1.0001 sec   125 MBytes  1048 Mbits/sec\n[  1] Sent 89163 datagrams\n\
                       [  1] Server Report:\n[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n\
                       [  1] 0.0000-1.0004 sec   123 MBytes  1033 Mbits/sec   0.000 ms 1282/89162 (1.4%)\n";
        let expected = Figure { value: 1033.0, p50_us: None, p99_us: None, packets: 8788 };
        assert_eq!(read(printed), Some(expected));
        assert_eq!(read(printed.split("[  1] Server").next().unwrap()), None, "no report came back");
    }
}
