//! nginx, with wrk as its client.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::{Direction, Figure};
use crate::bench::programs::install::Item;
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::deps;
use anyhow::{Context, Result};

const PORT: u16 = 8081;
const NEEDS: &[Item] = &[Item::Debian(deps::NGINX), Item::Debian(deps::WRK)];

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![
        program("nginx 1", "HTTP by wrk, 1 connection", |site| client(site, 1)),
        program("nginx 20", "HTTP by wrk, 20 connections", |site| client(site, 20)),
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
    let directory = site.directory();
    let directory = directory.display();
    let config = format!(
        "daemon off; pid {directory}/nginx.pid; error_log stderr; worker_processes auto;\n\
         events {{ }}\n\
         http {{ access_log off; server {{ listen {}:{PORT}; location / {{ return 200 'hello'; }} }} }}\n",
        site.address
    );
    let path = site.directory().join("programs-nginx.conf");
    std::fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Launch::new(["nginx", "-c", &path.to_string_lossy()]))
}

fn client(site: &Site, connections: u32) -> Result<Launch> {
    let words = format!(
        "wrk --threads 1 --connections {connections} --duration {}s --latency http://{}:{PORT}/",
        site.seconds, site.address
    );
    Ok(Launch::new(words.split(' ')))
}

/// A measurement with failed requests is invalid.
fn read(printed: &str) -> Option<Figure> {
    let lines = || printed.lines().map(str::trim);
    let value: f64 = lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())?;
    let percentile = |name: &str| lines().find_map(|line| us(line.strip_prefix(name)?.trim()));
    let requests: u64 = lines().find_map(|line| line.split_once(" requests in ")?.0.parse().ok())?;
    let broken = lines().any(|line| line.starts_with("Socket errors") || line.starts_with("Non-2xx"));
    let figure = Figure { value, p50_us: percentile("50%"), p99_us: percentile("99%"), packets: requests / 2 };
    (!broken && requests > 0).then_some(figure)
}

/// A time as wrk writes it: `12.00us`, `1.50ms`, `2.00s`.
fn us(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Running 1s test @ http://10.77.0.2:8081/\n  1 threads and 20 connections\n\
        \x20 Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     0.91ms    1.12ms  19.81ms   93.08%\n\
        \x20 Latency Distribution\n     50%  643.00us\n     75%    0.98ms\n     90%    1.62ms\n     99%    5.88ms\n\
        \x20 27216 requests in 1.10s, 4.02MB read\nRequests/sec:  24735.31\nTransfer/sec:      3.66MB\n";

    #[test]
    fn its_report_is_read() {
        let figure = read(PRINTED).unwrap();
        assert_eq!((figure.value, figure.p50_us, figure.p99_us), (24735.31, Some(643.0), Some(5880.0)));
        assert_eq!(figure.packets, 13_608);
    }

    #[test]
    fn failed_requests_are_no_measurement() {
        assert_eq!(read(&PRINTED.replace("Transfer/sec", "Socket errors: connect 0, read 3\nTransfer/sec")), None);
        assert_eq!(read("unable to connect to 10.77.0.2:8081 Connection refused"), None);
    }
}
