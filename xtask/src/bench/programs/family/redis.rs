//! redis-server, with redis-benchmark as its client.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::{Direction, Figure};
use crate::bench::programs::install::Item;
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::deps;
use anyhow::Result;

const PORT: u16 = 6390;
const NEEDS: &[Item] = &[Item::Debian(deps::REDIS), Item::Debian(deps::REDIS_TOOLS)];

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![
        program("redis 1", "GET by redis-benchmark, 1 client", |site| client(site, 1, 30_000)),
        program("redis 16", "GET by redis-benchmark, 16 clients", |site| client(site, 16, 60_000)),
    ]
}

fn program(name: &'static str, about: &'static str, client: fn(&Site) -> Result<Launch>) -> Program {
    Program {
        name,
        about,
        needs: NEEDS,
        unit: "requests/s",
        direction: Direction::HigherIsBetter,
        prepare: None,
        server,
        ready: Ready::Port("tcp", PORT),
        client,
        read,
    }
}

fn server(site: &Site) -> Result<Launch> {
    // No persistence: writing to disk would be measured, too.
    let fixed = ["redis-server", "--save", "", "--appendonly", "no", "--protected-mode", "no"].map(str::to_owned);
    let directory = site.directory().to_string_lossy().into_owned();
    let given = ["--port".into(), PORT.to_string(), "--bind".into(), site.address.clone(), "--dir".into(), directory];
    Ok(Launch::new(fixed.into_iter().chain(given)))
}

/// `rate`: requests for each second of a measurement. The program has no time limit.
fn client(site: &Site, clients: u32, rate: u32) -> Result<Launch> {
    let words = format!(
        "redis-benchmark -h {} -p {PORT} -t get -c {clients} -n {} --precision 3",
        site.address,
        site.seconds * rate
    );
    Ok(Launch::new(words.split(' ')))
}

fn read(printed: &str) -> Option<Figure> {
    // Progress overwrites its line with carriage returns.
    let mut lines = printed.split(['\n', '\r']).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    let value = lines.find_map(|line| line.strip_prefix("throughput summary: ")?.split(' ').next().and_then(number))?;
    let names = lines.find(|line| line.starts_with("avg "))?;
    let values = lines.next()?;
    let us = |name: &str| {
        let place = names.split_whitespace().position(|other| other == name)?;
        Some(number(values.split_whitespace().nth(place)?)? * 1000.0)
    };
    let requests = printed.split(['\n', '\r']).find_map(|line| line.trim().strip_suffix(" seconds")?.split(' ').next());
    let requests: u64 = requests?.parse().ok()?;
    Some(Figure { value, p50_us: us("p50"), p99_us: us("p99"), packets: requests / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_summary_is_read() {
        let printed = "GET: rps=0.0 (overall: 0.0)\rGET: rps=30816.0\r====== GET ======\n  5000 requests completed in 0.16 seconds\n\
                       \x20 1 parallel clients\n\nSummary:\n  throughput summary: 31055.90 requests per second\n\
                       \x20 latency summary (msec):\n          avg       min       p50       p95       p99       max\n\
                       \x20       0.026     0.016     0.023     0.047     0.071     6.607\n";
        let figure = read(printed).unwrap();
        assert_eq!((figure.value, figure.packets), (31055.9, 2500));
        assert_eq!([figure.p50_us, figure.p99_us].map(|us| us.unwrap().round()), [23.0, 71.0]);
        assert_eq!(read("Could not connect to Redis"), None);
    }
}
