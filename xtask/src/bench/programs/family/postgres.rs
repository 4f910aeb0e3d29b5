//! PostgreSQL, with its own pgbench as client: point selects of one row.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::{Direction, Figure};
use crate::bench::programs::install::Item;
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::bench::programs::start::{How, command, once};
use crate::deps;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tickwire_lab::Process;

const PORT: u16 = 5499;
/// The server refuses to run as root. Debian's package makes this user.
const USER: &str = "postgres";
const NEEDS: &[Item] = &[Item::Debian(deps::POSTGRES)];
/// Printed after the port is bound.
const READY: &str = "ready to accept connections";
/// Making the tables takes some seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![
        program("postgres 1", "select-only by pgbench, 1 client", |site| client(site, 1)),
        program("postgres 4", "select-only by pgbench, 4 clients", |site| client(site, 4)),
    ]
}

fn program(name: &'static str, about: &'static str, client: fn(&Site) -> Result<Launch>) -> Program {
    Program {
        name,
        about,
        needs: NEEDS,
        unit: "transactions/s",
        direction: Direction::HigherIsBetter,
        prepare: Some(prepare),
        server,
        ready: Ready::Says(READY, "tcp", PORT),
        client,
        read,
    }
}

/// A program of the newest installed version; Debian keeps them out of `PATH`.
fn program_path(name: &str) -> Result<String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").context("no PostgreSQL in /usr/lib/postgresql")?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.flatten().map(|entry| entry.path()).max_by_key(|path| number(path));
    Ok(newest.context("no version of PostgreSQL")?.join("bin").join(name).to_string_lossy().into_owned())
}

fn cluster(site: &Site) -> PathBuf {
    site.shared.join("postgres")
}

/// Makes a cluster and the tables of pgbench, with a server that listens on a Unix socket only.
fn prepare(site: &Site) -> Result<()> {
    let home = cluster(site);
    if home.join("filled").exists() {
        return Ok(());
    }
    let (home, data) = (home.to_string_lossy().into_owned(), home.join("data").to_string_lossy().into_owned());
    once(site, &Launch::new(["install", "-d", "-o", USER, "-m", "700", &home]), TIMEOUT)?;
    let initdb = [&program_path("initdb")?, "-D", &data, "-A", "trust", "-N", "--locale", "C"];
    once(site, &Launch::new(initdb).user(USER), TIMEOUT)?;
    let server = [&program_path("postgres")?, "-D", &data, "-k", &home, "-c", "listen_addresses=", "-F"];
    let mut server = Process::spawn(command(&site.host, &Launch::new(server).user(USER), &How::default())?)?;
    server.wait_for(READY, TIMEOUT)?;
    let fill = [&program_path("pgbench")?, "-h", &home, "-i", "-q", "-s", "1", "postgres"];
    let filled = once(site, &Launch::new(fill).user(USER), TIMEOUT);
    // A fast shutdown, which does not wait for clients.
    let _ = server.signal(nix::sys::signal::Signal::SIGINT);
    server.wait(TIMEOUT)?;
    filled?;
    std::fs::write(cluster(site).join("filled"), "").context("cannot write to the cluster's directory")
}

fn server(site: &Site) -> Result<Launch> {
    let data = cluster(site).join("data").to_string_lossy().into_owned();
    // Any client of the lab may connect.
    let rules = cluster(site).join("data/pg_hba.conf");
    std::fs::write(&rules, "host all all 10.77.0.0/24 trust\nlocal all all trust\n")
        .with_context(|| format!("cannot write {}", rules.display()))?;
    let (home, port) = (cluster(site).to_string_lossy().into_owned(), PORT.to_string());
    let listen = format!("listen_addresses={}", site.address);
    let words = [&program_path("postgres")?, "-D", &data, "-k", &home, "-p", &port, "-c", &listen, "-F"];
    Ok(Launch::new(words).user(USER))
}

fn client(site: &Site, clients: u32) -> Result<Launch> {
    let given = format!("-S -n -c {clients} -T {} -h {} -p {PORT} -U {USER} postgres", site.seconds, site.address);
    Ok(Launch::new(std::iter::once(program_path("pgbench")?).chain(given.split(' ').map(str::to_owned))))
}

fn read(printed: &str) -> Option<Figure> {
    let number = |start: &str| {
        let rest = printed.lines().find_map(|line| line.strip_prefix(start))?;
        rest.trim_start().split([' ', '/']).next()?.parse::<f64>().ok()
    };
    let (value, count) = (number("tps =")?, number("number of transactions actually processed:")?);
    Some(Figure { value, p50_us: None, p99_us: None, packets: count as u64 / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let printed = "pgbench (15.18 (Debian 15.18-0+deb12u1))\ntransaction type: <builtin: select only>\n\
                       number of transactions actually processed: 10234\nnumber of failed transactions: 0 (0.000%)\n\
                       latency average = 0.098 ms\ninitial connection time = 3.012 ms\n\
                       tps = 10255.312345 (without initial connection time)\n";
        let expected = Figure { value: 10_255.312345, p50_us: None, p99_us: None, packets: 5117 };
        assert_eq!(read(printed), Some(expected));
        assert_eq!(read("pgbench: error: connection to server failed"), None);
    }
}
